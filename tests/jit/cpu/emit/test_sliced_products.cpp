// Tests products of tiles whose loads are masked from the end of a slice, or of another range, on. They are
// multiplied in place.
#include "random_numbers.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>

using namespace kiln;
using kiln::test::Random;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

using Count = Scalar<std::int64_t>;

// c = a b over the columns of a, and rows of b, from `begin` to `end` - 1. The transposed kernel gets b^T.
template <class T> auto sliced_kernel() {
  return kernel(
      "sliced", [](View<const T, 2> a, View<const T, 2> b, View<float, 2> c, Count begin, Count end) {
        auto [m, n] = program_tile(c, BM, BN);
        auto x = a.slice(1, begin, end);
        auto y = b.slice(0, begin, end).slice(1, 0, c.cols() - 1);
        auto sum = for_range(BK, x.cols(), zeros<float>(BM, BN), [&, m = m, n = n](auto k, auto sum) {
          return dot(x.tile(m, k).load(), y.tile(k, n).load(), sum);
        });
        c.tile(m, n).store(sum);
      });
}
template <class T> auto transposed_kernel() {
  return kernel(
      "transposed", [](View<const T, 2> a, View<const T, 2> b, View<float, 2> c, Count begin, Count end) {
        auto [m, n] = program_tile(c, BM, BN);
        auto x = a.slice(1, begin, end);
        auto y = b.slice(1, begin, end).slice(0, 0, c.cols() - 1);
        auto sum = for_range(BK, x.cols(), zeros<float>(BM, BN), [&, m = m, n = n](auto k, auto sum) {
          return dot(x.tile(m, k).load(), trans(y.tile(n, k).load()), sum);
        });
        c.tile(m, n).store(sum);
      });
}

// The first columns of a, for which first + column < bound, or <= bound. Sums may wrap around.
auto masked_kernel() {
  return kernel("masked", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c, Count first,
                             Count bound) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile column = first + arange(BK);
    Tile x = a.tile(m, offset(BK, 0)).load(broadcast(expand<0>(column < bound), BM, BK));
    Tile y = b.tile(offset(BK, 0), n).load(broadcast(expand<1>(column <= bound), BK, BN));
    c.tile(m, n).store(dot(x, y, zeros<float>(BM, BN)));
  });
}

template <class T, class F> Tensor<T, 2> filled(std::int64_t rows, std::int64_t columns, const F& value) {
  auto x = Tensor<T, 2>::zeros({rows, columns});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      x.view()(i, j) = T(static_cast<float>(value(i, j)));
  return x;
}

} // namespace

TEMPLATE_TEST_CASE("products of slices read nothing behind their ends", "", float, bf16) {
  Random random;
  INFO("seed " << random.seed);
  Stream stream;
  for (int round = 0; round < 12; ++round) {
    const std::int64_t rows = random.integer(1, 40), columns = random.integer(2, 70),
                       depth = random.integer(1, 90), begin = random.integer(0, depth),
                       end = random.integer(0, depth + 3);
    INFO(rows << " x " << columns << " x " << depth << " from " << begin << " to " << end);
    // Small integers, so that sums are exact; NaN where nothing may be read.
    const auto inside = [&](std::int64_t k) { return begin <= k && k < end; };
    const auto number = [&](bool used) { return used ? static_cast<double>(random.integer(-4, 4)) : NAN; };
    const auto a = filled<TestType>(rows, depth, [&](auto, auto k) { return number(inside(k)); }),
               b = filled<TestType>(depth, columns,
                                    [&](auto k, auto j) { return number(inside(k) && j < columns - 1); }),
               bt = filled<TestType>(columns, depth, [&](auto j, auto k) {
                 return static_cast<double>(static_cast<float>(b.view()(k, j)));
               });
    auto c = Tensor<float, 2>::zeros({rows, columns}), ct = Tensor<float, 2>::zeros({rows, columns});
    const Config config{BM = 16, BN = 32, BK = random.integer(0, 1) ? 16 : 64};
    sliced_kernel<TestType>().launch(stream, config, a, b, c, begin, end);
    transposed_kernel<TestType>().launch(stream, config, a, bt, ct, begin, end);
    stream.synchronize();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = begin; j < columns - 1 && k < std::min(end, depth); ++k)
          sum += static_cast<double>(static_cast<float>(a.view()(i, k))) *
                 static_cast<double>(static_cast<float>(b.view()(k, j)));
        REQUIRE(static_cast<double>(c.view()(i, j)) == sum);
        REQUIRE(static_cast<double>(ct.view()(i, j)) == sum);
      }
  }
}

TEST_CASE("products of loads with masks that end somewhere, also where indices wrap around") {
  Random random;
  INFO("seed " << random.seed);
  Stream stream;
  const std::int64_t rows = 20, columns = 35, depth = 50;
  const auto number = [&](auto, auto) { return static_cast<double>(random.integer(-4, 4)); };
  const auto a = filled<float>(rows, depth, number), b = filled<float>(depth, columns, number);
  const std::int64_t cases[][2] = {{0, 13},
                                   {5, 70},
                                   {-20, 3},
                                   {40, 7},
                                   {INT64_MAX - 20, INT64_MAX},
                                   {INT64_MAX - 20, -5},
                                   {INT64_MIN, 9},
                                   {INT64_MAX, INT64_MIN},
                                   {-7, INT64_MAX}};
  for (const auto& [first, bound] : cases) {
    INFO("from " << first << " to " << bound);
    auto c = Tensor<float, 2>::zeros({rows, columns}), expected = Tensor<float, 2>::zeros({rows, columns});
    const Config config{BM = 16, BN = 32, BK = 64};
    const auto masked = masked_kernel();
    masked.launch(stream, config, a, b, c, first, bound);
    stream.synchronize();
    masked.interpret(config, a, b, expected, first, bound);
    for (std::int64_t i = 0; i < rows * columns; ++i)
      REQUIRE(c.data()[i] == expected.data()[i]);
  }
}
