// Compares basic kernels (vector add, matmul, softmax) with plain C++.
#include "language_test.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

TEST_CASE("vector add") {
  KILN_RANDOM_SEED();
  auto add = [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load() + y.tile(i).load());
  };
  std::int64_t n = random_integer(1, 200);
  auto x = random_values<float>(n), y = random_values<float>(n);
  std::vector<float> out(static_cast<std::size_t>(n), NAN);
  Arguments().view(x.data(), {n}).view(y.data(), {n}).view(out.data(), {n}).run(*bound(add, {BN = 32}));
  for (std::size_t i = 0; i < out.size(); ++i)
    REQUIRE(out[i] == x[i] + y[i]);
}

TEST_CASE("matmul with ragged edges") {
  KILN_RANDOM_SEED();
  auto matmul = [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    expects(a.cols() == b.rows(), "a's columns and b's rows");
    auto [m, n] = program_tile(c, BM, BN);
    auto acc = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
      return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
    });
    c.tile(m, n).store(relu(acc));
  };
  std::int64_t m = random_integer(1, 40), n = random_integer(1, 40), k = random_integer(1, 40);
  auto a = random_values<float>(m * k), b = random_values<float>(k * n);
  std::vector<float> c(static_cast<std::size_t>(m * n), NAN);
  auto kernel = bound(matmul, {BM = 8, BN = 16, BK = 12});
  Arguments()
      .view(a.data(), {m, k})
      .view(b.data(), {k, n})
      .view(c.data(), {m, n})
      .sums_terms_of(1)
      .run(*kernel);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(static_cast<float>(a[i * k + l])) * static_cast<float>(b[l * n + j]);
      REQUIRE(c[i * n + j] == Approx(std::max(sum, 0.0)).margin(1e-5));
    }
}

TEST_CASE("softmax with one tile per row") {
  KILN_RANDOM_SEED();
  auto softmax = [](View<const float, 2> x, View<float, 2> y) {
    auto [row] = program_tile(x, BM);
    Offset<BN> col = offset(BN, 0);
    auto t = x.tile(row, col).load_or(-INFINITY);
    Tile e = exp(t - max(t, BN, keep));
    y.tile(row, col).store(e / sum(e, BN, keep));
  };
  std::int64_t rows = random_integer(1, 20), cols = random_integer(1, 50);
  auto x = random_values<float>(rows * cols, -5, 5);
  std::vector<float> y(x.size(), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .view(y.data(), {rows, cols})
      .run(*bound(softmax, {BM = 4, BN = 50}));
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      total += std::exp(x[r * cols + c]);
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y[r * cols + c] == Approx(std::exp(x[r * cols + c]) / total));
  }
}
