// Tests products of unusual matrices: strides of zero, negative strides, no rows, no columns, an empty inner
// extent.
#include "error_test.h"
#include "test_seed.h"

#include <cmath>
#include <random>

using namespace kiln;

namespace {

// A matrix with any strides in its own memory. Its elements are small integers, so that sums are exact in any
// order.
template <class T> struct Lying {
  std::vector<T> memory;
  std::int64_t rows, columns, row_stride, column_stride, first = 0;

  Lying(std::int64_t r, std::int64_t c, std::int64_t rs, std::int64_t cs, std::mt19937_64& random)
      : rows(r), columns(c), row_stride(rs), column_stride(cs) {
    std::int64_t last = 0;
    for (auto [extent, stride] : {std::pair{r, rs}, std::pair{c, cs}})
      (stride < 0 ? first : last) += std::max<std::int64_t>(extent - 1, 0) * std::abs(stride);
    memory.resize(static_cast<std::size_t>(first + last + 1));
    std::uniform_int_distribution<int> digit(-3, 3);
    for (T& v : memory)
      v = T(static_cast<float>(digit(random)));
  }
  TensorView<const T, 2> view() const {
    return {memory.data() + first, {rows, columns}, {row_stride, column_stride}};
  }
  double at(std::int64_t r, std::int64_t c) const {
    return static_cast<double>(
        static_cast<float>(memory[static_cast<std::size_t>(first + r * row_stride + c * column_stride)]));
  }
};

template <class T> void check(const Lying<T>& a, const Lying<T>& b, std::int64_t c_row_stride) {
  CAPTURE(a.rows, b.columns, a.columns, a.row_stride, a.column_stride, b.row_stride, b.column_stride,
          c_row_stride);
  const std::int64_t width = std::abs(c_row_stride);
  std::vector<T> memory(static_cast<std::size_t>(a.rows * width + 1), T(-77.f));
  T* first = memory.data() + (c_row_stride < 0 ? std::max<std::int64_t>(a.rows - 1, 0) * width : 0);
  Stream stream;
  ops::matmul(stream, a.view(), b.view(), TensorView<T, 2>(first, {a.rows, b.columns}, {c_row_stride, 1}));
  stream.synchronize();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < a.columns; ++l)
        sum += j < b.columns ? a.at(i, l) * b.at(l, j) : 0;
      const float expected = j < b.columns ? static_cast<float>(T(static_cast<float>(sum))) : -77.f;
      wrong += static_cast<float>(first[i * c_row_stride + j]) != expected;
    }
  CHECK(wrong == 0);
  CHECK(static_cast<float>(memory.back()) == -77.f);
}

} // namespace

TEMPLATE_TEST_CASE("a product of matrices with zero and negative strides", "", float, double, bf16, f16) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  for (int i = 0; i < 18; ++i) {
    const bool few = i % 3 == 0;
    const std::int64_t m = up_to(few ? 8 : 140), n = up_to(140), k = up_to(90);
    // The strides of rows and columns are positive, negative or zero; some matrices are transposed.
    auto lying = [&](std::int64_t rows, std::int64_t columns) {
      std::int64_t rs = columns + up_to(4), cs = 1;
      if (up_to(3) == 1) rs = 1, cs = rows + up_to(4);
      auto turned = [&](std::int64_t stride) { return stride * (up_to(3) - 2); };
      return Lying<TestType>(rows, columns, turned(rs), turned(cs), random);
    };
    check(lying(m, k), lying(k, n), (i % 2 ? 1 : -1) * (n + up_to(3)));
  }
}

TEMPLATE_TEST_CASE("a product of matrices without rows, columns or an inner extent", "", float, double, bf16,
                   f16) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (std::int64_t m : {0, 1, 37})
    for (std::int64_t n : {0, 1, 70})
      for (std::int64_t k : {0, 5})
        if (m * n * k == 0)
          for (std::int64_t stride : {0, 100, -100})
            check(Lying<TestType>(m, k, stride, 1, random), Lying<TestType>(k, n, stride, 1, random), n + 3);
}
