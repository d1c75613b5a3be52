// Declares the choice of larger tile sizes for kernels whose results do not depend on them.
//
// Tiles of 32 x 32 suit the blocks of a GPU. On a CPU, a program would read 32 short pieces of rows, and the
// next program the pieces next to them, which the hardware prefetcher cannot predict: copying in such tiles
// takes five times as long as copying whole rows. The results of an elementwise kernel do not depend on how
// its programs divide the work, so each program may have longer pieces of rows. The same holds for some
// kernels with loops, such as sums of columns.
#pragma once

#include <kiln/jit/passes/pass.h>

namespace kiln::cpu {

// The config that the CPU uses instead of `options.config` for a kernel as it was recorded, on that many
// threads. Sizes of narrow tiles are raised where they are free (facts/program_tiles.h), unless a tile would
// become too large or would need scratch memory. With `options.debug` the config stays, because messages of
// failed checks name the tile of the failing program.
Config widened_config(const ir::Kernel& recorded, const passes::PassOptions& options, int threads);

} // namespace kiln::cpu
