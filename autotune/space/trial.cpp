// Parses and prints trial statuses, and lists the facts that describe compiled code.
#include <kiln/autotune/space/trial.h>

#include <algorithm>
#include <iterator>

namespace kiln::tune {

namespace {

constexpr const char* names[] = {"ok",           "refused",      "compile error", "compile timeout",
                                 "launch error", "crash",        "timeout",       "out of memory",
                                 "wrong result", "not a number", "device lost"};
constexpr std::string_view code_facts[] = {"code_bytes",   "registers",   "scratch_bytes",
                                           "shared_bytes", "spill_bytes", "stack_bytes"};
static_assert(std::size(names) == static_cast<std::size_t>(Status::device_lost) + 1);

} // namespace

const char* name(Status status) { return names[static_cast<std::size_t>(status)]; }

std::optional<Status> parse_status(std::string_view name) {
  const auto* at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) return std::nullopt;
  return static_cast<Status>(at - std::begin(names));
}

bool is_of_code(std::string_view fact) {
  return std::find(std::begin(code_facts), std::end(code_facts), fact) != std::end(code_facts);
}

} // namespace kiln::tune
