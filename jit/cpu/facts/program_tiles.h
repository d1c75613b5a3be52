// Finds the sizes of program tiles that a kernel's results do not depend on.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::cpu {

struct TileDimension {
  const char* name;
  bool free = false;       // see below
  bool along_rows = false; // it is the last axis of a view that is loaded or stored
  bool columns = false;    // and of one of several axes
  bool rows = false;       // it is another axis of such a view
};

// A dimension D is free if what the kernel writes does not depend on the size of its tiles:
//   1. The kernel consists of program_tile, once, of loads and stores of views, of what is computed element
//      by element, of reductions along other axes, and of loops whose bounds do not depend on D; nothing reads
//      D's size, the number of a program or how many programs there are. No tile has two axes D.
//   2. Loads of tiles with an axis D begin there at program_tile's offset for D, plus what does not depend on
//      it; and that offset is used in no other way.
//   3. A number along D, arange(D), is only used with that offset added, in 64 bits.
//   4. Every store has an axis D, goes to program_tile's view, and begins at its offset along the same axis:
//      so that, however long the tiles are, all programs together write that view and nothing else.
// Larger tiles then give the same results. Smaller ones may not: the one program of a launch may read from
// anywhere what it overwrites, where views overlap, and two may not.
struct ProgramTiles {
  std::vector<TileDimension> dimensions; // program_tile's, in order; none if some are no plain symbols
  bool loops = false, reduces = false;
};

ProgramTiles program_tiles(const ir::Kernel& recorded);

} // namespace kiln::cpu
