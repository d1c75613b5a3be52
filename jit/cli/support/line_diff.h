// Shows what a pass changed: removed lines with "-", added lines with "+", and some lines around them.
//
// Values of tile IR are numbered, so removing one operation renames all later ones. Lines are therefore
// matched without their numbers first. Then the names that matched lines define are tracked through the text,
// and only lines that still differ count as changed.
#pragma once

#include <string>

namespace kiln::cli {

struct LineDiff {
  std::string text; // empty if nothing changed
  int removed = 0, added = 0;
};

LineDiff diff_tile_ir(const std::string& before, const std::string& after, int context = 2);

} // namespace kiln::cli
