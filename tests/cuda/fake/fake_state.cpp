// Holds the fake driver's settings, injected failures and counters.
#include "fake_state.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

#define FAKE_CONTROL extern "C" __attribute__((visibility("default")))

namespace fake {

State& State::get() {
  static auto* state = new State; // never destroyed, because threads of streams run until the process ends
  return *state;
}

State::State() {
  for (int i = 0; i < most_devices; ++i)
    contexts[i].device = i;
  set_defaults(*this);
  apply_environment(*this);
}

void set_defaults(State& state) {
  state.settings = {{"driver_version", 12040},
                    {"devices", most_devices},
                    {"memory_bytes", 1 << 30},
                    {"sm", 90},
                    {"pools", 1},
                    {"pageable", 0},
                    {"cooperative", 1},
                    {"clocks", 1},
                    {"ptx", 84},
                    {"spills", 0},
                    {"kernel_ms", 0},
                    {"elapsed_ns", 0},
                    {"kernel_result", 0}};
}

void apply_environment(State& state) {
  const char* given = std::getenv("FAKE_CUDA");
  std::istringstream in(given ? given : "");
  for (std::string item; std::getline(in, item, ';');) {
    auto equals = item.find('=');
    std::string key = item.substr(0, equals), value = item.substr(equals + 1);
    if (key == "hide") {
      state.hidden.insert(value);
    } else if (key == "fail") {
      auto first = value.find(':'), second = value.find(':', first + 1);
      state.failures[value.substr(0, first)].emplace_back(std::stoi(value.substr(first + 1)),
                                                          std::stoi(value.substr(second + 1)));
    } else {
      state.settings[key] = std::stoll(value);
    }
  }
}

long long State::setting(const std::string& name) {
  std::lock_guard lock(mutex);
  return settings.at(name);
}

void State::count(const char* kind, int by, const void* object) {
  std::lock_guard lock(mutex);
  by > 0 ? void(held.insert(object)) : void(held.erase(object));
  live[kind] += by;
}

ContextStack& context_stack() {
  thread_local ContextStack stack;
  return stack;
}

Context* current() {
  const ContextStack& stack = context_stack();
  return stack.count == 0 ? nullptr : stack.items[stack.count - 1];
}

Result enter(const char* symbol, bool needs_context) {
  if (State::get().swallow) return Result::Success;
  std::string name = symbol;
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  State& state = State::get();
  std::lock_guard lock(state.mutex);
  ++state.calls[name];
  if (auto found = state.failures.find(name); found != state.failures.end())
    for (auto& [left, code] : found->second)
      if (left > 0 && --left == 0) return static_cast<Result>(code);
  bool always = name == "cuInit" || name == "cuDriverGetVersion" || name.starts_with("cuGetError");
  if (!state.initialised && !always) return Result::NotInitialized;
  if (!needs_context) return Result::Success;
  if (!current()) return Result::InvalidContext;
  return static_cast<Result>(current()->lost.load());
}

} // namespace fake

using fake::State;

FAKE_CONTROL void fake_cuda_set(const char* setting, long long value) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  s.settings.at(setting) = value;
}

FAKE_CONTROL void fake_cuda_fail(const char* function, int nth, int code) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  s.failures[function].emplace_back(nth, code);
}

FAKE_CONTROL void fake_cuda_hide(const char* function) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  s.hidden.insert(function);
}

FAKE_CONTROL void fake_cuda_reset() {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  fake::set_defaults(s);
  s.failures.clear();
  s.hidden.clear();
  s.calls.clear();
  s.launches.clear();
}

FAKE_CONTROL long long fake_cuda_live(const char* kind) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  if (std::strcmp(kind, "bytes") != 0) return s.live[kind];
  long long bytes = 0;
  for (long long b : s.device_bytes)
    bytes += b;
  return bytes;
}

FAKE_CONTROL long long fake_cuda_calls(const char* function) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  return s.calls[function];
}

FAKE_CONTROL int fake_cuda_launches(FakeLaunch* out, int most) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  auto count = static_cast<int>(s.launches.size());
  int first = count > most ? count - most : 0;
  for (int i = first; i < count; ++i)
    out[i - first] = s.launches[static_cast<std::size_t>(i)];
  return count;
}

FAKE_CONTROL void fake_cuda_swallow(int on) { State::get().swallow = on != 0; }

FAKE_CONTROL void fake_cuda_execute(int (*run)(const FakeExecution*), void* context) {
  State& s = State::get();
  std::lock_guard lock(s.mutex);
  s.execute = run;
  s.execute_context = context;
}

FAKE_CONTROL long long fake_cuda_damaged_guards() { return fake::damaged_guards(); }
