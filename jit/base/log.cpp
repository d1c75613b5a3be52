// Writes messages to stderr or to the newest LogCapture, and remembers which warnings were written.
#include <kiln/jit/base/log.h>

#include <kiln/jit/base/options.h>

#include <cstdio>
#include <mutex>
#include <unordered_set>

namespace kiln {
namespace {

// Never destroyed, because threads may log while the process exits.
struct LogState {
  std::mutex mutex;
  LogCapture* capture = nullptr;
  std::unordered_set<std::string> given;
};
LogState& state() {
  static auto* s = new LogState;
  return *s;
}

constexpr std::string_view level_names[] = {"off", "error", "warning", "info", "debug"};

} // namespace

bool log_enabled(LogLevel level) { return level != LogLevel::Off && level <= options().log; }

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  std::string line(level_names[static_cast<int>(level)]);
  line.append(": ").append(message);
  LogState& s = state();
  std::lock_guard lock(s.mutex);
  if (s.capture) {
    s.capture->lines_.push_back(std::move(line));
    return;
  }
  line = "kiln: " + line + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void log_warning_once(std::string_view message) {
  if (!log_enabled(LogLevel::Warning)) return;
  {
    std::lock_guard lock(state().mutex);
    if (!state().given.emplace(message).second) return;
  }
  log_warning(message);
}

LogCapture::LogCapture() {
  std::lock_guard lock(state().mutex);
  previous_ = state().capture;
  state().capture = this;
}

LogCapture::~LogCapture() {
  std::lock_guard lock(state().mutex);
  state().capture = previous_;
}

std::vector<std::string> LogCapture::lines() const {
  std::lock_guard lock(state().mutex);
  return lines_;
}

} // namespace kiln
