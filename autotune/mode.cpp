// Parses and prints the names of modes.
#include <kiln/autotune/mode.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>

#include <algorithm>
#include <iterator>

namespace kiln::tune {

namespace {

constexpr const char* names[] = {"off", "analytic", "cached", "online", "tune", "pinned", "deterministic"};
static_assert(std::size(names) == static_cast<std::size_t>(Mode::deterministic) + 1);

} // namespace

const char* name(Mode mode) { return names[static_cast<std::size_t>(mode)]; }

Mode parse_mode(std::string_view text, const std::string& where) {
  const auto* at = std::find(std::begin(names), std::end(names), text);
  if (at != std::end(names)) return static_cast<Mode>(at - std::begin(names));
  std::string known;
  for (const char* name : names)
    known += (known.empty() ? "" : ", ") + std::string(name);
  throw UserError(where + ": unknown mode \"" + std::string(text) + "\"; the modes are " + known);
}

Mode default_mode() {
  const std::string text = read_environment().tune;
  return text.empty() ? Mode::cached : parse_mode(text, "KILN_TUNE");
}

} // namespace kiln::tune
