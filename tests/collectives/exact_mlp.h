// Computes a gated MLP and its gradients in double precision, for tests to compare with.
#pragma once

#include "findings.h"

#include <kiln/jit/runtime/tensor.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace kiln::test {

// A matrix in double precision, with what the tests need of linear algebra.
struct Exact {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> x;
  Exact(std::int64_t m, std::int64_t n) : rows(m), columns(n), x(static_cast<std::size_t>(m * n)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return x[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return x[static_cast<std::size_t>(i * columns + j)];
  }
  Exact transposed() const {
    Exact t(columns, rows);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        t(j, i) = (*this)(i, j);
    return t;
  }
  friend Exact operator*(const Exact& a, const Exact& b) {
    Exact c(a.rows, b.columns);
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t k = 0; k < a.columns; ++k)
        for (std::int64_t j = 0; j < b.columns; ++j)
          c(i, j) += a(i, k) * b(k, j);
    return c;
  }
};

inline Exact random_exact(std::mt19937_64& random, std::int64_t m, std::int64_t n) {
  Exact e(m, n);
  std::normal_distribution<float> normal(0, 0.5f);
  for (double& v : e.x)
    v = normal(random); // a float
  return e;
}
inline Tensor<float, 2> tensor_of(const Exact& e) {
  auto t = Tensor<float, 2>::empty({e.rows, e.columns});
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data()[i] = static_cast<float>(e.x[static_cast<std::size_t>(i)]);
  return t;
}
inline Tensor<float, 2> poisoned(std::int64_t m, std::int64_t n) { return full(m, n, 1e30f); }

// The largest error of rows or columns of the exact matrix, relative to its largest element.
inline double error(const Tensor<float, 2>& t, const Exact& e, std::int64_t row = 0,
                    std::int64_t column = 0) {
  double worst = 0, largest = 1e-30;
  for (double v : e.x)
    largest = std::max(largest, std::abs(v));
  for (std::int64_t i = 0; i < t.extent(0); ++i)
    for (std::int64_t j = 0; j < t.extent(1); ++j)
      worst = std::max(worst, std::abs(static_cast<double>(t.view()(i, j)) - e(row + i, column + j)));
  return worst / largest;
}
inline constexpr double most_error = 2e-5;

// x, weights and dy of a gated MLP, its result, and its gradients.
struct ExactMlp {
  ExactMlp(std::mt19937_64& random, std::int64_t rows, std::int64_t width, std::int64_t hidden)
      : x(random_exact(random, rows, width)), up(random_exact(random, width, 2 * hidden)),
        down(random_exact(random, hidden, width)), dy(random_exact(random, rows, width)), y(0, 0), dx(0, 0),
        dup(0, 0), ddown(0, 0) {
    const Exact h = x * up;
    Exact active(rows, hidden), dh(rows, 2 * hidden);
    const Exact dactive = dy * down.transposed();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < hidden; ++j) {
        const double g = h(i, j), u = h(i, hidden + j), s = 1 / (1 + std::exp(-g)), d = dactive(i, j);
        active(i, j) = g * s * u;
        dh(i, j) = d * u * (s + g * s * (1 - s));
        dh(i, hidden + j) = d * g * s;
      }
    y = active * down;
    ddown = active.transposed() * dy;
    dx = dh * up.transposed();
    dup = x.transposed() * dh;
  }
  Exact x, up, down, dy, y, dx, dup, ddown;
};

} // namespace kiln::test
