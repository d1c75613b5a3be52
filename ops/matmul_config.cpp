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

// Heuristic. A tile costs its elements, and what does not shrink with it: packing BK x BN of b is amortised
// over BM rows. At 2048 cubed on one Zen 5 core BM = 128, 256 and 512 reached 198, 216 and 220 GFLOP/s, BN
// from 128 to 512 the same within 2 %, BK from 256 to 2048 too; 1 + 14 / BM + 2 / BN follows these. The tile
// with the least cost of the busiest thread wins, so that a product of few tiles is cut finer.
Config cpu_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::int64_t threads = std::max(1, device.properties().num_threads);
  std::int64_t widest = dtype == DType::F64 ? 256 : 512; // the sums of a tile stay within 512 KiB
  std::int64_t best_m = 64, best_n = 64;
  double best_cost = 0;
  for (std::int64_t bm : {1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512}) {
    if (bm > widest) break;
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
  return device.is_cpu() ? cpu_config(device, dtype, m, n, k) : gpu_config(dtype, m, n, k);
}

} // namespace kiln::ops
