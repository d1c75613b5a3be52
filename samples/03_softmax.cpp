// Computes the softmax of the rows of a matrix: build/bin/03_softmax [ROWS COLUMNS]
//
// Computes the softmax of rows of any width. A program handles BM rows in tiles of BN columns. `for_range` is
// a loop at run time that carries a state from one iteration to the next, here the maximum and the sum of
// each row so far. A reduction names the dimension that it removes; `keep` leaves an extent of 1 in its
// place, so that the result broadcasts.
#include "support.h"

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);

const auto softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  expects(x.rows() == y.rows(), "x's and y's rows");
  expects(x.cols() == y.cols(), "x's and y's columns");
  auto [row] = program_tile(x, BM);
  auto [most, total] =
      for_range(BN, x.cols(), state(full(-INFINITY, BM, 1_c), zeros<float>(BM, 1_c)),
                [&](auto col, auto most, auto total) {
                  Tile t = x.tile(row, col).load_or(-INFINITY); // the value outside the view
                  Tile next = max(most, max(t, BN, keep));
                  Tile shift = where(next == -INFINITY, 0, next); // -infinity - -infinity would be NaN
                  return state(next, total * exp(most - shift) + sum(exp(t - shift), BN, keep));
                });
  for_range(BN, x.cols(), [&](auto col) {
    y.tile(row, col).store(exp(x.tile(row, col).load() - most) / total); // elements outside are not written
  });
});

int main(int argc, char** argv) {
  std::int64_t rows = samples::number(argc, argv, 1, 4096), cols = samples::number(argc, argv, 2, 4099);
  auto x = samples::random({rows, cols}), y = samples::poisoned({rows, cols});
  Stream stream(samples::device());
  Config config = samples::choose({BM = 1, BN = 1024}, {BM = 1, BN = 2048});

  double seconds = samples::median_seconds(stream, [&] { softmax.launch(stream, config, x, y); });

  samples::Error error;
  auto host_x = samples::on_host(x), result = samples::on_host(y);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *of_x = host_x.data() + r * cols, *of_y = result.data() + r * cols;
    double most = *std::max_element(of_x, of_x + cols), total = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      total += std::exp(of_x[c] - most);
    for (std::int64_t c = 0; c < cols; ++c)
      error.add(of_y[c], std::exp(of_x[c] - most) / total);
  }
  samples::interpret(error, softmax, config, y, x, y);
  double bytes = 2.0 * 4 * static_cast<double>(rows * cols);
  return samples::report("softmax of " + std::to_string(rows) + " x " + std::to_string(cols), seconds,
                         {.bytes = bytes}, error.relative());
}
