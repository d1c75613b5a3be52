// Implements rehearsals: a list of this thread's launches, and addresses without memory.
#include <kiln/jit/runtime/rehearsal.h>

#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/rehearsing.h>

#include <algorithm>
#include <atomic>

namespace kiln::detail {

constinit thread_local Rehearsing* Rehearsing::current_ = nullptr;

void Rehearsing::note(std::string text) {
  if (std::find(result_.notes.begin(), result_.notes.end(), text) == result_.notes.end())
    result_.notes.push_back(std::move(text));
}

void Rehearsing::allocate(std::int64_t bytes) {
  allocated_ += bytes;
  result_.workspace_bytes = std::max(result_.workspace_bytes, allocated_);
}

bool notes_paths() { return Rehearsing::current() || log_enabled(LogLevel::Info); }
void note_path(const std::string& text) {
  if (Rehearsing* rehearsing = Rehearsing::current()) rehearsing->note(text);
  log_info(text);
}

Rehearsal rehearse(void (*calls)(const void* self), const void* self) {
  Rehearsing rehearsing;
  calls(self);
  return rehearsing.take();
}

// Processors and GPUs refuse these addresses, because more than their highest 8 bits differ from bit 56.
void* stand_in_memory(std::int64_t bytes) {
  static std::atomic<std::uint64_t> next{std::uint64_t{1} << 62};
  constexpr std::uint64_t page = 4096, most = std::uint64_t{1} << 56;
  const auto size = std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1)), most);
  return reinterpret_cast<void*>(next.fetch_add((size + page - 1) / page * page));
}

namespace {
std::string bracketed(int rank, const std::int64_t* values) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}
} // namespace

std::string text_of_array(std::string_view dtype, int rank, const std::int64_t* extents,
                          const std::int64_t* strides) {
  std::string text = std::string(dtype) + " " + bracketed(rank, extents);
  std::int64_t contiguous = 1;
  bool usual = true;
  for (int i = rank; i-- > 0; contiguous *= extents[i])
    usual &= extents[i] <= 1 || strides[i] == contiguous;
  return usual ? text : text + " by strides " + bracketed(rank, strides);
}

} // namespace kiln::detail

namespace kiln {

std::string Rehearsal::to_string() const {
  std::string text;
  const auto join = [](const auto& parts, const char* between, const auto& text_of) {
    std::string joined;
    for (const auto& part : parts)
      joined += (joined.empty() ? "" : between) + text_of(part);
    return joined;
  };
  for (const RehearsedLaunch& l : launches) {
    text += l.kernel + " on " + kiln::to_string(l.device) + ": " +
            join(l.grid, " x ", [](std::int64_t n) { return std::to_string(n); }) + " programs of {" +
            l.config.to_string() + "} for (" +
            join(l.arguments, ", ", [](const std::string& a) { return a; }) + ")\n";
  }
  for (const std::string& note : notes)
    text += "note: " + note + "\n";
  if (workspace_bytes) text += "workspace: " + std::to_string(workspace_bytes) + " bytes\n";
  return text;
}

} // namespace kiln
