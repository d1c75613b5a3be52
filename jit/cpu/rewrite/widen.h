// Larger tiles for kernels that do not depend on their size.
//
// Tiles of 32 x 32 suit a GPU's blocks. On a CPU a program then reads 32 short pieces of rows, and the next
// one the pieces beside them, which memory cannot foresee: copying in such tiles is five times as slow as
// copying rows. What an elementwise kernel computes does not depend on how its programs divide the work, so
// that they may be given more of each row. So may programs with a loop, that add up columns, say.
#pragma once

#include <kiln/jit/passes/pass.h>

namespace kiln::cpu {

// The sizes that the CPU uses in the place of `options.config` for a kernel as it was recorded, on so many
// threads: those of narrow tiles raised, where they are free (program_tiles.h) and no tile is large or goes
// to scratch. Not for debugging: checks tell where the failing program's tile lies.
Config widened_config(const ir::Kernel& recorded, const passes::PassOptions& options, int threads);

} // namespace kiln::cpu
