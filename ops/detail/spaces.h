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

// Adds num_warps on a GPU, a limit of the tile, and a seed near `usual`, whose tile is always allowed.
// `elements` is the size of a tile, which is limited to 64 for each thread on a GPU.
void seed_tile(tune::Space& space, Device device, Config usual, std::int64_t most_on_cpu,
               std::function<std::int64_t(const tune::Choice&)> elements);
// Declares that no knob changes the order of additions.
void keep_order(tune::Space& space);

} // namespace kiln::ops::detail
