// Contains the heuristics for the tile sizes of matrix products.
#include <kiln/ops/matmul.h>

#include <kiln/jit/cpu/tuning.h>
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

// Heuristic for CPUs, with the sizes of tuning/ops.h:
//
// 1. A tile has at most as many rows as a thread's share of all rows, or matmul_min_share_rows if that is
//    more.
// 2. The cost of a tile is the number of its elements times 1 + 14 / BM + 2 / BN, which models what does not
//    shrink with the tile (packing_b_cost and packing_a_cost in tuning/groups.h).
// 3. The chosen tile has the least cost on the busiest thread, so that a product gets smaller tiles if it
//    would have only a few.
Config cpu_config(Device device, std::int64_t m, std::int64_t n, std::int64_t k) {
  namespace tuning = cpu::tuning;
  std::int64_t threads = std::max(1, device.properties().num_threads);
  const std::int64_t share = std::max(tuning::matmul_min_share_rows, blocks(m, threads));
  std::int64_t best_m = 64, best_n = 64;
  double best_cost = 0;
  for (std::int64_t bm : tuning::matmul_tile_rows) {
    if (bm > share) break;
    for (std::int64_t bn : tuning::matmul_tile_columns) {
      std::int64_t rounds = blocks(blocks(m, bm) * blocks(n, bn), threads);
      // Tiles at the edge compute only the rows and columns inside of the matrix, rounded up to 8 and 16.
      double rows = static_cast<double>(std::min(bm, round_up(std::max<std::int64_t>(m, 1), 8)));
      double columns = static_cast<double>(std::min(bn, round_up(std::max<std::int64_t>(n, 1), 16)));
      double cost = static_cast<double>(rounds) * rows * columns *
                    (1 + tuning::packing_b_cost / static_cast<double>(bm) +
                     tuning::packing_a_cost / static_cast<double>(bn));
      if (best_cost == 0 || cost < best_cost) best_cost = cost, best_m = bm, best_n = bn;
      if (bn >= n) break; // wider tiles would reach beyond the matrix
    }
    if (bm >= m) break;
  }
  std::int64_t best_k = tuning::matmul_min_tile_k;
  while (best_k < tuning::matmul_max_tile_k && best_k < k)
    best_k *= 2;
  return {BM = best_m, BN = best_n, BK = best_k};
}

} // namespace

Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  return device.is_cpu() ? cpu_config(device, m, n, k) : gpu_config(dtype, m, n, k);
}

} // namespace kiln::ops
