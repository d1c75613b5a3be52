// What an application does about configs at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::tune {

enum class Mode : std::uint8_t {
  off,           // the space's first seed, always
  analytic,      // what the analytic model expects to be fastest; nothing is measured, ever
  cached,        // the database's config, else the analytic one; never tunes in the request path (default)
  online,        // as cached; what was not found is tuned in the background, and swapped in once confirmed
  tune,          // what is not found is tuned by the launch that needs it, once; if it fails, as cached
  pinned,        // wisdom files alone; a problem that they lack is an error, of tunable ops too
  deterministic, // as cached, among configs that add up in one order: see Space::keeps_order
};

const char* name(Mode mode);
// UserError that lists them for another name.
Mode parse_mode(std::string_view text, const std::string& where);
// KILN_TUNE, or cached.
Mode default_mode();

} // namespace kiln::tune
