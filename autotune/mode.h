// Defines Mode, which says from where a launch of a tuned kernel takes its config.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>
#include <string>
#include <string_view>

KILN_API_BEGIN
namespace kiln::tune {

enum class Mode : std::uint8_t {
  off,           // always the space's first legal seed
  analytic,      // a seed, or a config that the model predicts to be 1.5 times as fast; never measures
  cached,        // as analytic, unless wisdom files or the database have a config; never tunes (default)
  online,        // as cached; unknown problems are tuned in the background, and later launches use the winner
  tune,          // the first launch of an unknown problem tunes it; if that fails, as cached
  pinned,        // only configs from wisdom files; for other problems, launches and ops throw UserError
  deterministic, // as cached, but only configs that sum in the same order (Space::keeps_order)
};

// Returns the name of the enumerator, such as "cached".
const char* name(Mode mode);
// Returns the mode of this name. Throws UserError if there is none; the message begins with `where` and lists
// the modes.
Mode parse_mode(std::string_view text, const std::string& where);
// Returns the mode that the environment variable KILN_TUNE names, or `cached` if it is unset or empty. Throws
// UserError for an unknown name.
Mode default_mode();

} // namespace kiln::tune
KILN_API_END
