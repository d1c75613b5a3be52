// Declares the analysis of whether a kernel's results depend on the sizes of its program tiles.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::cpu {

struct TileDimension {
  const char* name;
  bool free = false;       // its size does not affect the results: see below
  bool along_rows = false; // it is along the last axis of a view that is loaded or stored,
  bool columns = false;    // and that view has several axes
  bool rows = false;       // it is along another axis of such a view
};

// A dimension D is free if its size does not affect what the kernel writes:
//   1. The kernel consists of one program_tile, loads and stores of views, elementwise operations, reductions
//      along other axes, and loops whose bounds do not depend on D. It uses neither the size of D, nor
//      program ids, nor the number of programs. No tile has two axes D.
//   2. Loads of tiles with an axis D begin along it at program_tile's offset for D, possibly plus a value
//      that does not depend on that offset. The offset has no other use.
//   3. An index along D, arange(D), is only used with that offset added, in 64 bits.
//   4. Every store has an axis D, stores to program_tile's view, and begins at its offset along the same
//      axis. All programs together then write that view and nothing else, for any size of D.
// Larger tiles then give the same results. Smaller tiles may not: if views overlap, a launch of one program
// may read, anywhere, elements that it overwrites, but a launch of two programs may not.
struct ProgramTiles {
  std::vector<TileDimension> dimensions; // those of program_tile, in order; empty if one is no plain symbol
  bool loops = false, reduces = false;
};

ProgramTiles program_tiles(const ir::Kernel& recorded);

} // namespace kiln::cpu
