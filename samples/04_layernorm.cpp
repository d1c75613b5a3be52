// Normalises the rows of a matrix (layer normalisation): build/bin/04_layernorm [ROWS COLUMNS]
//
// Computes layer normalisation twice: with a kernel for rows that fit in one tile, and with the op of the
// library, which takes rows of any width and chooses tile sizes itself.
#include "support.h"

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);

const auto layernorm =
    kernel("layernorm", [](View<const float, 2> x, View<const float, 1> gamma, View<const float, 1> beta,
                           View<float, 2> y, Scalar<float> eps) {
      expects(x.cols() <= dim_size(BN), "x's columns and the size of BN");
      auto [row] = program_tile(x, BM);
      auto col = offset(BN, 0);
      auto count = cast<float>(x.cols());
      Tile t = x.tile(row, col).load();
      Tile mean = sum(t, BN, keep) / count;
      Tile centred = where(col + arange(BN) < x.cols(), t - mean, 0); // elements outside x must not count
      Tile scale = rsqrt(sum(centred * centred, BN, keep) / count + eps);
      y.tile(row, col).store(centred * scale * gamma.tile(col).load() + beta.tile(col).load());
    });

int main(int argc, char** argv) {
  std::int64_t rows = samples::number(argc, argv, 1, 4096), cols = samples::number(argc, argv, 2, 4099);
  auto x = samples::random({rows, cols}), mine = samples::poisoned({rows, cols}),
       y = samples::poisoned({rows, cols});
  auto gamma = samples::random({cols}), beta = samples::random({cols});
  float eps = 1e-5f;
  Stream stream(samples::device());
  Config config = {BM = 1, BN = (cols + 63) / 64 * 64}; // extents of tiles need not be powers of two

  layernorm.launch(stream, config, x, gamma, beta, mine, eps);
  double seconds =
      samples::median_seconds(stream, [&] { ops::layernorm(stream, x, gamma, beta, y, {.eps = eps}); });

  samples::Error error;
  auto host_x = samples::on_host(x), result = samples::on_host(y), my_result = samples::on_host(mine);
  auto host_gamma = samples::on_host(gamma), host_beta = samples::on_host(beta);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* of_x = host_x.data() + r * cols;
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      mean += of_x[c] / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c)
      variance += (of_x[c] - mean) * (of_x[c] - mean) / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      double expected =
          (of_x[c] - mean) / std::sqrt(variance + eps) * host_gamma.data()[c] + host_beta.data()[c];
      error.add(result.data()[r * cols + c], expected);
      error.add(my_result.data()[r * cols + c], expected);
    }
  }
  samples::interpret(error, layernorm, config, mine, x, gamma, beta, mine, eps);
  double bytes = 2.0 * 4 * static_cast<double>(rows * cols);
  return samples::report("layernorm of " + std::to_string(rows) + " x " + std::to_string(cols), seconds,
                         {.bytes = bytes}, error.relative());
}
