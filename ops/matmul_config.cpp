// Contains the heuristics for the tile sizes of matrix products.
#include <kiln/ops/matmul.h>

#include <kiln/ops/dims.h>

#include <algorithm>

namespace kiln::ops {
namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }
std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return blocks(x, multiple) * multiple; }

// Heuristic for GPUs, which is not measured yet. 64 x 64 sums occupy 32 registers of each of 128 threads,
// which leaves enough for the operands; with BK = 32, floats take 16 KiB of shared memory. Products with few
// rows or columns get smaller tiles.
Config gpu_config(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  auto fit = [](std::int64_t extent, std::int64_t most) {
    std::int64_t tile = 16;
    while (tile < most && tile < extent)
      tile *= 2;
    return tile;
  };
  const bool wide = dtype == DType::F64;
  return {BM = fit(m, wide ? 32 : 64), BN = fit(n, 64), BK = fit(k, wide ? 16 : 32), num_warps = 4};
}

// Heuristic for CPUs:
//
// 1. Programs share the packing of b (see jit/cpu/facts/grouped_product.h), so tiles of more than 128 rows
//    are not faster, but leave fewer ways to divide the product among threads.
// 2. A tile has at most as many rows as a thread's share of all rows, or 64 if that is more.
// 3. The cost of a tile is the number of its elements times 1 + 14 / BM + 2 / BN, which models what does not
//    shrink with the tile. It was fitted to products of 2048 x 2048 x 2048 on one Zen 5 core.
// 4. The chosen tile has the least cost on the busiest thread, so that a product gets smaller tiles if it would have
//    only a few.
Config cpu_config(Device device, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::int64_t threads = std::max(1, device.properties().num_threads);
  const std::int64_t share = std::max<std::int64_t>(64, blocks(m, threads));
  std::int64_t best_m = 64, best_n = 64;
  double best_cost = 0;
  for (std::int64_t bm : {1, 2, 4, 8, 16, 32, 64, 96, 128}) {
    if (bm > share) break;
    for (std::int64_t bn : {64, 128}) {
      std::int64_t rounds = blocks(blocks(m, bm) * blocks(n, bn), threads);
      // Tiles at the edge compute only the rows and columns inside of the matrix, rounded up to 8 and 16.
      double rows = static_cast<double>(std::min(bm, round_up(std::max<std::int64_t>(m, 1), 8)));
      double columns = static_cast<double>(std::min(bn, round_up(std::max<std::int64_t>(n, 1), 16)));
      double cost = static_cast<double>(rounds) * rows * columns *
                    (1 + 14 / static_cast<double>(bm) + 2 / static_cast<double>(bn));
      if (best_cost == 0 || cost < best_cost) best_cost = cost, best_m = bm, best_n = bn;
      if (bn >= n) break; // wider tiles would reach beyond the matrix
    }
    if (bm >= m) break;
  }
  std::int64_t best_k = 64;
  while (best_k < 512 && best_k < k)
    best_k *= 2;
  return {BM = best_m, BN = best_n, BK = best_k};
}

} // namespace

Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  return device.is_cpu() ? cpu_config(device, m, n, k) : gpu_config(dtype, m, n, k);
}

} // namespace kiln::ops
