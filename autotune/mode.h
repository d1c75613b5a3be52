// Defines the modes in which an application chooses its configs at run time, and how a mode is parsed.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>
#include <string>
#include <string_view>

KILN_API_BEGIN
namespace kiln::tune {

enum class Mode : std::uint8_t {
  off,           // always the space's first seed
  analytic,      // the config that the analytic model predicts to be fastest; never measures
  cached,        // the database's config, else the analytic model's choice; a launch never tunes (default)
  online,        // as cached; tunes in the background what was not found, and switches to a confirmed winner
  tune,          // a launch whose problem was not found tunes it once; if that fails, as cached
  pinned,        // wisdom files only; a problem that they lack is an error, also for tunable ops
  deterministic, // as cached, among configs that sum in the same order (Space::keeps_order)
};

const char* name(Mode mode);
// Throws UserError, which begins with `where` and lists the modes, if `text` is not the name of one.
Mode parse_mode(std::string_view text, const std::string& where);
// The value of the environment variable KILN_TUNE, or `cached` if it is unset or empty.
Mode default_mode();

} // namespace kiln::tune
KILN_API_END
