// Parses the names of checks that users give in a list.
#include "options.h"

#include <kiln/dsl/error.h>

#include <algorithm>

namespace kiln::emulator {

Checks Checks::parse(std::string_view list) {
  Checks c;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (word == "all")
      c = all();
    else if (word == "races")
      c.races = true;
    else if (word == "init")
      c.uninitialised = true;
    else if (word == "none")
      c = {};
    else if (word != "bounds" && word != "barriers" && !word.empty())
      throw UserError("the check '" + std::string(word) +
                      "' is not known; races, init, bounds, barriers, all and none are");
  }
  return c;
}

} // namespace kiln::emulator
