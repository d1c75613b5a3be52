// What the spaces of several ops share.
#pragma once

#include <kiln/autotune/space/space.h>

#include <functional>

namespace kiln::ops::detail {

std::int64_t pow2_above(std::int64_t x); // the least power of two that is neither below x nor below 1

// Adds the knobs and rules of products on a GPU: BM, BN, BK and num_warps, for factors of `bytes` an element.
void add_gpu_product(tune::Space& space, std::int64_t bytes);
// Adds a seed near this config, with so few warps that each of them has sums.
void seed_product(tune::Space& space, Device device, Config config);

// For kernels that add nothing up along the axes of their tiles. Adds num_warps on a GPU, limits the tile, adds
// a seed near `usual`, whose tile is always allowed, and declares that no knob changes an order of additions.
// `elements` is the size of a tile; a GPU has at most 64 elements for each thread.
void seed_tile(tune::Space& space, Device device, Config usual, std::int64_t most_on_cpu,
               std::function<std::int64_t(const tune::Choice&)> elements);

} // namespace kiln::ops::detail
