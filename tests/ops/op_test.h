// Defines random strided matrices for tests of ops, and the comparison of results with double-precision
// references.
#pragma once

#include "random_numbers.h"

#include <on_device.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

namespace kiln::test {

// Converts a value to double, which is exact.
template <class T> double wide(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

// The layout of a matrix in memory.
enum class Lie { contiguous, padded_rows, every_other_column, transposed };
inline constexpr Lie all_lies[] = {Lie::contiguous, Lie::padded_rows, Lie::every_other_column,
                                   Lie::transposed};

// A matrix in its own memory. The elements around it hold a mark, which must not change.
template <class T> class Matrix {
public:
  Matrix(std::int64_t rows, std::int64_t columns, Lie lie = Lie::contiguous)
      : memory_(static_cast<std::size_t>(rows * row_stride(columns, lie) + columns * rows + 8), mark()),
        view_(memory_.data() + (lie == Lie::contiguous ? 0 : 3), {rows, columns},
              {lie == Lie::transposed ? 1 : row_stride(columns, lie),
               lie == Lie::transposed ? rows + 1 : (lie == Lie::every_other_column ? 2 : 1)}) {}

  TensorView<T, 2> view() { return view_; }
  TensorView<const T, 2> read_only() const { return view_; }
  T& operator()(std::int64_t r, std::int64_t c) const { return view_(r, c); }
  std::int64_t rows() const { return view_.rows(); }
  std::int64_t cols() const { return view_.cols(); }

  Matrix& fill(Random& random, double low = -1, double high = 1) {
    for (std::int64_t r = 0; r < rows(); ++r)
      for (std::int64_t c = 0; c < cols(); ++c)
        view_(r, c) = T(static_cast<float>(random.uniform(low, high)));
    return *this;
  }
  // Sets every element to NaN, so that elements that an op does not write are detected.
  Matrix& poison() {
    for (std::int64_t r = 0; r < rows(); ++r)
      for (std::int64_t c = 0; c < cols(); ++c)
        view_(r, c) = T(NAN);
    return *this;
  }
  // Whether all elements around the matrix still hold the mark.
  bool surroundings_untouched() const {
    std::vector<bool> element(memory_.size());
    for (std::int64_t r = 0; r < rows(); ++r)
      for (std::int64_t c = 0; c < cols(); ++c)
        element[static_cast<std::size_t>(&view_(r, c) - memory_.data())] = true;
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (!element[i] && wide(memory_[i]) != wide(mark())) return false;
    return true;
  }

private:
  static T mark() { return T(-77.0f); }
  static std::int64_t row_stride(std::int64_t columns, Lie lie) {
    if (lie == Lie::padded_rows) return columns + 5;
    if (lie == Lie::every_other_column) return 2 * columns + 1;
    return columns;
  }
  std::vector<T> memory_;
  TensorView<T, 2> view_;
};

// The error that may come from rounding the result to T and from computing it in f32 (f64 for f64), relative
// to the root mean square of the whole result. `terms` is the length of the longest sum.
template <class T> double tolerance(std::int64_t terms = 1) {
  double of_result = std::is_same_v<T, bf16>     ? 0x1p-8
                     : std::is_same_v<T, f16>    ? 0x1p-11
                     : std::is_same_v<T, double> ? 0x1p-53
                                                 : 0x1p-24;
  double of_sum = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  return 2 * of_result + 16 * of_sum * std::sqrt(static_cast<double>(terms) + 1);
}

// sqrt(sum of squared differences / sum of squares). A NaN in the result makes it NaN, which is not below any
// bound.
template <class T, class F> double relative_error(const Matrix<T>& result, F&& reference) {
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < result.rows(); ++r)
    for (std::int64_t c = 0; c < result.cols(); ++c) {
      double expected = reference(r, c), d = wide(result(r, c)) - expected;
      difference += d * d, size += expected * expected;
    }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

// The root mean square of the values that `result` should have.
template <class T, class F> double root_mean_square(const Matrix<T>& result, F&& reference) {
  double sum = 0;
  for (std::int64_t r = 0; r < result.rows(); ++r)
    for (std::int64_t c = 0; c < result.cols(); ++c)
      sum += reference(r, c) * reference(r, c);
  return std::sqrt(sum / static_cast<double>(result.rows() * result.cols()));
}

} // namespace kiln::test
