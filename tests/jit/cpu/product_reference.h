// Provides matrices for tests of products, and computes the expected products.
#pragma once

#include <kiln/jit/runtime/tensor.h>

#include <random>

namespace kiln::test {

// Elements are eighths between -1 and 1, whose products are exact.
inline Tensor<float, 2> random_matrix(std::int64_t rows, std::int64_t columns, std::mt19937_64& random) {
  auto t = Tensor<float, 2>::empty({rows, columns});
  for (float& x : t)
    x = static_cast<float>(std::uniform_int_distribution<int>(-8, 8)(random)) / 8;
  return t;
}

// Element (i, j) of the product a b.
inline double exact_product(const Tensor<float, 2>& a, const Tensor<float, 2>& b, std::int64_t i,
                            std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.extent(1); ++k)
    sum += double{a.data()[i * a.extent(1) + k]} * b.data()[k * b.extent(1) + j];
  return sum;
}

} // namespace kiln::test
