// What a pass changed, as lines: "-" for those that went, "+" for those that came, with some around them.
//
// Values of tile IR are numbered, so one removed operation renames all later ones. Lines are matched without
// their numbers first; then the names that matched lines define are followed through the text, and only a
// line that still differs counts as changed.
#pragma once

#include <string>

namespace kiln::cli {

struct LineDiff {
  std::string text; // empty if nothing changed
  int removed = 0, added = 0;
};

LineDiff diff_tile_ir(const std::string& before, const std::string& after, int context = 2);

} // namespace kiln::cli
