// Multiplies matrices and applies relu to the product: build/bin/05_matmul [M N K]
//
// Computes c = relu(a b) for matrices of any size. Tiles may extend beyond the edges of the matrices:
// elements outside read as zero, which adds nothing to the sums, and are not written.
#include "support.h"

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

const auto matmul = kernel("matmul", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  auto [m, n] = program_tile(c, BM, BN);
  auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) { // k = 0, BK, 2 BK ...
    return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
  });
  c.tile(m, n).store(relu(sum));
});

int main(int argc, char** argv) {
  std::int64_t m = samples::number(argc, argv, 1, 1500), n = samples::number(argc, argv, 2, 1700),
               k = samples::number(argc, argv, 3, 1300);
  auto a = samples::random({m, k}), b = samples::random({k, n}), c = samples::poisoned({m, n});
  Stream stream(samples::device());
  // Large tiles are best on a CPU, which packs them for its caches; a GPU keeps accumulators in registers.
  Config config = samples::choose({BM = 256, BN = 256, BK = 512}, {BM = 64, BN = 64, BK = 32});

  double seconds = samples::median_seconds(stream, [&] { matmul.launch(stream, config, a, b, c); });

  samples::Error error;
  auto host_a = samples::on_host(a), host_b = samples::on_host(b), result = samples::on_host(c);
  for (std::int64_t i = 0; i < m; i += std::max<std::int64_t>(1, m / 100)) { // some rows only: this is slow
    std::vector<double> row(static_cast<std::size_t>(n));
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j)
        row[static_cast<std::size_t>(j)] += double{host_a.data()[i * k + l]} * host_b.data()[l * n + j];
    for (std::int64_t j = 0; j < n; ++j)
      error.add(result.data()[i * n + j], std::max(row[static_cast<std::size_t>(j)], 0.0));
  }
  samples::interpret(error, matmul, config, c, a, b, c);
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return samples::report("matmul of " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                             std::to_string(k),
                         seconds, {.flops = flops}, error.relative(), 1e-5);
}
