// Other tiles for kernels that do not depend on their size.
//
// Tiles of 32 x 32 suit a GPU's blocks. On a CPU a program then reads 32 short pieces of rows, and the next
// one the pieces beside them, which memory cannot foresee: copying in such tiles is five times as slow as
// copying rows. What an elementwise kernel computes does not depend on how its programs divide the work, so
// that they may be given more of each row. So may programs with a loop, that add up columns, say; and those
// whose loops go along rows may be given fewer of them.
#pragma once

#include <kiln/jit/passes/pass.h>

#include <vector>

namespace kiln::cpu {

// The sizes that the CPU uses in the place of `options.config` for a kernel as it was recorded, on so many
// threads: those of narrow tiles raised, where they are free and no tile is large or goes to scratch, and
// rows that are reduced split. Not for debugging: checks tell where the failing program's tile lies.
Config chosen_tiles(const ir::Kernel& recorded, const passes::PassOptions& options, int threads);

// The dimensions that are free, by name. D is, if the size of its tiles cannot be told from what the kernel
// writes:
//   1. The kernel consists of program_tile, once, of loads and stores of views, of what is computed element
//   by
//      element, of reductions along other axes, and of loops whose bounds do not depend on D; nothing asks
//      for D's size, for the number of a program or of programs. No tile has two axes D.
//   2. Loads of tiles with an axis D begin there at program_tile's offset for D, plus what does not depend on
//      it; and that offset is used in no other way.
//   3. A number along D, arange(D), is only used with that offset added, in 64 bits.
//   4. Every store has an axis D, goes to program_tile's view, and begins at its offset along the same axis:
//      so that, however long the tiles are, all programs together write that view and nothing else.
std::vector<const char*> free_dimensions(const ir::Kernel& recorded);
// Those whose tiles may be split in equal parts, with as many programs for each: all that the whole tiles
// cover is then covered, also where condition 4 holds but for the view, its axis and the offset.
std::vector<const char*> splittable_dimensions(const ir::Kernel& recorded);

} // namespace kiln::cpu
