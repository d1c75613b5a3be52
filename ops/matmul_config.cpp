// The default tile sizes of matrix products.
#include <kiln/ops/matmul.h>

#include <kiln/ops/dims.h>

#include <algorithm>

namespace kiln::ops {
namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }
std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return blocks(x, multiple) * multiple; }

// Heuristic for GPUs, not yet measured on one: 64 x 64 sums are 32 registers of each of 128 threads, and
// leave enough for the operands; BK = 32 makes 16 KiB of shared memory for floats. Products of few rows or
// columns get tiles that stick out less.
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

// Heuristic. Programs share the packing of b (jit/cpu/facts/grouped_product.h), and tiles of more than 128 rows are
// no faster for it, but leave fewer ways to divide the product among threads: rows are worth more than
// columns there, so that no tile has more of them than a thread's share, if that is 64. A tile costs its
// elements, and what does not shrink with it, as if it were alone: 1 + 14 / BM + 2 / BN follows what tiles of
// 2048 cubed took on one Zen 5 core. The tile with the least cost of the busiest thread wins, so that a
// product of few tiles is cut finer.
Config cpu_config(Device device, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::int64_t threads = std::max(1, device.properties().num_threads);
  const std::int64_t share = std::max<std::int64_t>(64, blocks(m, threads));
  std::int64_t best_m = 64, best_n = 64;
  double best_cost = 0;
  for (std::int64_t bm : {1, 2, 4, 8, 16, 32, 64, 96, 128}) {
    if (bm > share) break;
    for (std::int64_t bn : {64, 128}) {
      std::int64_t rounds = blocks(blocks(m, bm) * blocks(n, bn), threads);
      // The last row and column of tiles do only the work that is inside.
      double rows = static_cast<double>(std::min(bm, round_up(std::max<std::int64_t>(m, 1), 8)));
      double columns = static_cast<double>(std::min(bn, round_up(std::max<std::int64_t>(n, 1), 16)));
      double cost = static_cast<double>(rounds) * rows * columns *
                    (1 + 14 / static_cast<double>(bm) + 2 / static_cast<double>(bn));
      if (best_cost == 0 || cost < best_cost) best_cost = cost, best_m = bm, best_n = bn;
      if (bn >= n) break; // wider tiles would stick out
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
