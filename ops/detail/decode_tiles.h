// Defines the dimensions of attention_decode, and chooses their sizes.
#pragma once

#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/device.h>

#include <cstdint>

namespace kiln::ops::detail {

// The heads of a key head in a block of rows, the keys of a part, and the size of pages that are gathered.
KILN_DIM(GROUP);
KILN_DIM(PART);
KILN_DIM(PAGE);

// The sizes of tiles, which do not depend on the batch or on how the cache is stored.
struct DecodeTiles {
  std::int64_t group, queries, keys, part;
};

// A heuristic. A block of keys is small enough that L2 holds it, and a part is long enough that combining
// costs little. For more than 4 rows, for which AMX multiplies bf16, blocks of 128 keys take a quarter less
// time than blocks of 64 (Emerald Rapids); pages of fewer keys are then gathered. The order of reductions
// depends on the rows of a block, so that each query has a block of its own if it must not depend on others.
DecodeTiles decode_tiles(Device device, std::int64_t group, std::int64_t queries, bool batch_invariant);

} // namespace kiln::ops::detail
