// Tests reshapes: pairs that are split and interleaved, and elements a few apart, in guarded memory.
#include "dsl/guarded_memory.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

using test::GuardedMemory;

// A matrix with gaps between its rows, or with any strides, at the end or the start of its pages.
template <class T> class Matrix {
public:
  Matrix(std::int64_t rows, std::int64_t columns, std::mt19937_64& random)
      : rows_(rows), columns_(columns), stride_(columns + std::int64_t(random() % 3)),
        elements_(rows > 0 ? (rows - 1) * stride_ + columns : 0),
        memory_(static_cast<std::size_t>(elements_) * sizeof(T),
                random() % 2 ? GuardedMemory::Place::AtEnd : GuardedMemory::Place::AtStart, alignof(T)) {
    for (std::int64_t i = 0; i < elements_; ++i)
      new (data() + i) T(static_cast<float>(random() % 16));
  }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  TensorView<T, 2> view() { return {data(), {rows_, columns_}, {stride_, 1}}; }
  float operator()(std::int64_t i, std::int64_t j) { return static_cast<float>(data()[i * stride_ + j]); }

private:
  std::int64_t rows_, columns_, stride_, elements_;
  GuardedMemory memory_;
};

// Sums and differences of pairs, and of pairs of pairs, stored where the operands were.
template <class T> void check_pairs(std::mt19937_64& random) {
  const auto pairs = kernel("pairs", [](View<const T, 2> x, View<const T, 2> w, View<T, 2> y) {
    auto m = program_id(0) * BM;
    auto n = program_id(1) * BN;
    auto both = offset(BN * 2_c, n * 2);
    auto [a, b] = split(reshape(x.tile(m, both).load(), BM, BN, 2_c));
    Tile c = w.tile(m, n).load();
    y.tile(m, both).store(interleave(a + c, b + b));
  });
  const auto fours = kernel("fours", [](View<const T, 2> x, View<T, 2> y, View<T, 2> z) {
    auto m = program_id(0) * BM;
    auto n = program_id(1) * BN;
    auto all = offset(BN * 4_c, n * 4);
    auto [even, odd] = split(reshape(x.tile(m, all).load(), BM, BN, 2_c, 2_c)); // each is [BM, BN, 2]
    auto [a, c] = split(even);
    auto [b, d] = split(odd);
    y.tile(m, all).store(interleave(interleave(d, b), interleave(c, a)));
    z.tile(m, n).store(a + b + c + d);
  });
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{1, 64}, {4, 16}, {2, 128}, {8, 4}, {3, 24}, {1, 1}, {4, 2}, {2, 37}}) {
    const std::int64_t m = number(1, 9), n = number(1, 150);
    const Grid grid{(m + bm - 1) / bm, (n + bn - 1) / bn};
    CAPTURE(bm, bn, m, n);
    // Whole pairs, or a last pair that is cut in half.
    const std::int64_t columns = 2 * n - number(0, 1), wide = 4 * n - number(0, 3);
    Matrix<T> x(m, columns, random), w(m, n, random), y(m, columns, random);
    pairs.launch(stream, {BM = bm, BN = bn}, grid, x.view(), w.view(), y.view());
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        REQUIRE(y(i, j) == (j % 2 ? 2 * x(i, j) : x(i, j) + w(i, j / 2)));

    Matrix<T> from(m, wide, random), turned(m, wide, random), sums(m, n, random);
    fours.launch(stream, {BM = bm, BN = bn}, grid, from.view(), turned.view(), sums.view());
    stream.synchronize();
    auto at = [&](std::int64_t i, std::int64_t j) { return j < wide ? from(i, j) : 0; };
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < wide; ++j)
        REQUIRE(turned(i, j) == at(i, j / 4 * 4 + 3 - j % 4));
      for (std::int64_t j = 0; j < n; ++j)
        REQUIRE(sums(i, j) ==
                float(T(at(i, 4 * j) + at(i, 4 * j + 1) + at(i, 4 * j + 2) + at(i, 4 * j + 3))));
    }
  }
}

// Columns that are `step` apart, from views and through pointers, with a mask and without.
template <class T, int step> void check_steps(std::mt19937_64& random) {
  const auto apart = kernel(
      "apart", [](View<const T, 2> x, Scalar<std::int64_t> first, View<T, 2> seen, View<T, 2> pointed) {
        auto [m, n] = program_tile(seen, BM, BN);
        Tile columns = n + arange(BN);
        Tile place = expand<0>(first + columns * std::int64_t(step));
        Tile rows = expand<1>(m + arange(BM));
        seen.tile(m, n).store(x.at(rows, place).load_or(7));
        auto inside = (rows < x.rows()) & (place >= 0) & (place < x.cols());
        auto start = x.data() + rows * x.stride(0);
        pointed.tile(m, n).store(raw::load(start + place, inside));
      });
  // Whole tiles, all of whose elements exist.
  const auto within =
      kernel("within", [](View<const T, 2> x, Scalar<std::int64_t> first, View<T, 2> pointed) {
        auto [m, n] = program_tile(pointed, BM, BN);
        Tile place = expand<0>(first + (n + arange(BN)) * std::int64_t(step));
        pointed.tile(m, n).store(raw::load(x.data() + expand<1>(m + arange(BM)) * x.stride(0) + place));
      });
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{1, 64}, {2, 16}, {3, 24}}) {
    std::int64_t m = number(1, 7), n = number(1, 200), columns = number(1, 300);
    const std::int64_t first = number(-20, columns + 20);
    CAPTURE(step, bm, bn, m, n, columns, first);
    Matrix<T> x(m, columns, random), seen(m, n, random), pointed(m, n, random);
    apart.launch(stream, {BM = bm, BN = bn}, x.view(), first, seen.view(), pointed.view());
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t place = first + step * j;
        const bool inside = place >= 0 && place < columns;
        REQUIRE(seen(i, j) == (inside ? x(i, place) : 7));
        REQUIRE(pointed(i, j) == (inside ? x(i, place) : 0));
      }

    m = bm, n = 2 * bn;
    const std::int64_t span = std::abs(step) * (n - 1) + 1, begin = step < 0 ? span - 1 : 0;
    Matrix<T> exact(m, span, random), all(m, n, random);
    within.launch(stream, {BM = bm, BN = bn}, exact.view(), begin, all.view());
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        REQUIRE(all(i, j) == exact(i, begin + step * j));
  }
}

// Sums and maxima of groups of `group` neighbours, where elements above 7 count as 0 in maxima, and maxima of
// squares of two rows and two columns.
template <class T, int group> void check_groups(std::mt19937_64& random) {
  const auto groups = kernel("groups", [](View<const T, 2> x, View<T, 2> sums, View<T, 2> largest) {
    constexpr Constant<group> size;
    auto [m, n] = program_tile(sums, BM, BN);
    Tile grouped = reshape(x.tile(m, offset(BN * size, n * std::int64_t(group))).load(), BM, BN, size);
    sums.tile(m, n).store(sum(grouped, axis<2>));
    largest.tile(m, n).store(max(where(grouped > cast<T>(7), grouped - grouped, grouped), axis<2>));
  });
  const auto squares = kernel("squares", [](View<const T, 2> x, View<T, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile square = reshape(x.tile(offset(BM * 2_c, m * 2), offset(BN * 2_c, n * 2)).load(), BM, 2_c, BN, 2_c);
    y.tile(m, n).store(max(max(square, axis<3>), axis<1>));
  });
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{1, 64}, {4, 16}, {3, 24}, {8, 2}}) {
    const std::int64_t m = number(1, 9), n = number(1, 150), columns = n * group - number(0, group - 1);
    CAPTURE(group, bm, bn, m, n, columns);
    Matrix<T> x(m, columns, random), sums(m, n, random), largest(m, n, random);
    groups.launch(stream, {BM = bm, BN = bn}, x.view(), sums.view(), largest.view());
    stream.synchronize();
    auto at = [&](std::int64_t i, std::int64_t j) { return j < columns ? x(i, j) : 0; };
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0, most = 0;
        for (std::int64_t k = 0; k < group; ++k) {
          sum += at(i, j * group + k);
          if (at(i, j * group + k) <= 7) most = std::max(most, at(i, j * group + k));
        }
        REQUIRE(sums(i, j) == sum);
        REQUIRE(largest(i, j) == most);
      }

    Matrix<T> from(2 * m, 2 * n, random), pooled(m, n, random);
    squares.launch(stream, {BM = bm, BN = bn}, from.view(), pooled.view());
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        REQUIRE(pooled(i, j) == std::max({from(2 * i, 2 * j), from(2 * i, 2 * j + 1), from(2 * i + 1, 2 * j),
                                          from(2 * i + 1, 2 * j + 1)}));
  }
}

} // namespace

TEMPLATE_TEST_CASE("pairs are split and interleaved exactly, whatever the tiles and edges", "", float, double,
                   bf16, std::uint8_t) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_pairs<TestType>(random);
}

TEMPLATE_TEST_CASE("elements a constant few apart are read exactly, and nothing else is accessed", "", float,
                   double, bf16, std::uint8_t) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_steps<TestType, 1>(random);
  check_steps<TestType, 2>(random);
  check_steps<TestType, 3>(random);
  check_steps<TestType, 4>(random);
  check_steps<TestType, 5>(random);
  check_steps<TestType, -1>(random);
  check_steps<TestType, -2>(random);
  check_steps<TestType, -3>(random);
}

TEMPLATE_TEST_CASE("rows of any length become one row: loaded, transposed, scanned, and by broadcasts", "",
                   float, double, bf16, std::int8_t) {
  using T = TestType;
  const auto joined = kernel("joined", [](View<const T, 2> x, View<T, 1> y, View<T, 1> z, View<T, 1> w) {
    program_id(0);
    Tile v = x.tile(offset(BM, 0), offset(BN, 0)).load();
    auto all = offset(BK, 0);
    y.tile(all).store(reshape(v + v, BK));
    z.tile(all).store(reshape(trans(v), BK));
    w.tile(all).store(reshape(cumsum(v, axis<0>) + x.tile(0, offset(BN, 0)).load(), BK));
  });
  std::mt19937_64 random(test::fresh_seed());
  test::RandomIntegers number{random};
  Stream stream;
  for (int round = 0; round < 8; ++round) {
    const std::int64_t m = number(1, 24), n = round % 2 ? number(17, 70) : number(1, 300), all = m * n;
    CAPTURE(m, n);
    std::vector<T> x(static_cast<std::size_t>(all));
    for (T& e : x)
      e = T(static_cast<float>(number(0, 3)));
    const bool transposed = number(0, 1) != 0;
    const TensorView<const T, 2> view(x.data(), {m, n}, {transposed ? 1 : n, transposed ? m : 1});
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return static_cast<float>(x[static_cast<std::size_t>(transposed ? j * m + i : i * n + j)]);
    };
    std::vector<std::vector<T>> outputs(3, std::vector<T>(static_cast<std::size_t>(all)));
    const auto flat = [&](std::size_t i) { return TensorView<T, 1>(outputs[i].data(), {all}); };
    joined.launch(stream, {BM = m, BN = n, BK = all}, Grid{1}, view, flat(0), flat(1), flat(2));
    stream.synchronize();
    std::int64_t wrong = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t i = 0; i < m; ++i) {
        sum += at(i, j);
        const auto by_rows = static_cast<std::size_t>(i * n + j),
                   by_columns = static_cast<std::size_t>(j * m + i);
        wrong += static_cast<float>(outputs[0][by_rows]) != 2 * at(i, j);
        wrong += static_cast<float>(outputs[1][by_columns]) != at(i, j);
        wrong += static_cast<float>(outputs[2][by_rows]) != sum + at(0, j);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("rows that are split by themselves are computed where their indices are") {
  const auto rows = kernel("rows", [](View<const float, 1> x, View<float, 3> y) {
    Tile repeated = broadcast(expand<1>(x.tile(offset(BM * 2_c, 0)).load()), BM * 2_c, BN);
    y.tile(offset(BM, 0), offset(2_c, 0), offset(BN, 0)).store(reshape(repeated, BM, 2_c, BN));
  });
  auto x = Tensor<float, 1>::empty({8});
  auto y = Tensor<float, 3>::empty({4, 2, 64});
  std::iota(x.begin(), x.end(), 1.f);
  Stream stream;
  rows.launch(stream, {BM = 4, BN = 64}, Grid{1}, x, y);
  stream.synchronize();
  for (std::int64_t i = 0; i < y.size(); ++i)
    REQUIRE(y.data()[i] == static_cast<float>(1 + i / 64));
}

TEST_CASE("weights of four bits are unpacked as operands of a product") {
  const auto product =
      kernel("int4", [](View<const float, 2> x, View<const std::uint8_t, 2> w, View<float, 2> y) {
        auto [m, n] = program_tile(y, BM, BN);
        auto sum = for_range(BK, w.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
          Tile pairs = w.tile(n, k).load();
          Tile weights = interleave(cast<float>(pairs & 15) - 8.0f, cast<float>(pairs >> 4) - 8.0f);
          return dot(x.tile(m, offset(BK * 2_c, k * 2)).load(), trans(weights), sum);
        });
        y.tile(m, n).store(sum);
      });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn, bk] : {std::array{1, 2, 8}, {16, 32, 16}, {4, 8, 1}, {32, 16, 64}}) {
    const std::int64_t m = number(1, 70), n = number(1, 70), k = number(1, 90);
    CAPTURE(bm, bn, bk, m, n, k);
    Matrix<float> x(m, 2 * k, random), y(m, n, random);
    Matrix<std::uint8_t> w(n, k, random);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < k; ++j)
        w.view()(i, j) = static_cast<std::uint8_t>(random());
    product.launch(stream, {BM = bm, BN = bn, BK = bk}, x.view(), w.view(), y.view());
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float expected = 0;
        for (std::int64_t c = 0; c < 2 * k; ++c) {
          const int pair = w.view()(j, c / 2);
          expected += x(i, c) * static_cast<float>((c % 2 ? pair >> 4 : pair & 15) - 8);
        }
        REQUIRE(y(i, j) == expected);
      }
  }
}

// Both would take minutes to compile if each level were evaluated once for every path to it.
TEST_CASE("long chains of pairs, and halving down to one column, compile in time") {
  const auto chain = kernel("chain", [](View<const float, 2> x, View<float, 2> y) {
    Tile t = x.tile(offset(BM, 0), offset(BN * 2_c, 0)).load();
    for (int level = 0; level < 20; ++level) {
      auto [a, b] = split(reshape(t, BM, BN, 2_c));
      t = t * 0.5f + interleave(b, a) * 0.5f;
    }
    y.tile(offset(BM, 0), offset(BN * 2_c, 0)).store(t);
  });
  const auto halves = kernel("halves", [](View<const float, 2> x, View<float, 1> y) {
    auto halve = [](auto t, auto extent) {
      auto [a, b] = split(reshape(t, BM, extent, 2_c));
      return detail::recorded(a + b);
    };
    Tile t = x.tile(offset(BM, 0), offset(256_c, 0)).load();
    Tile by_16 = halve(halve(halve(halve(t, 128_c), 64_c), 32_c), 16_c);
    Tile by_1 = halve(halve(halve(halve(by_16, 8_c), 4_c), 2_c), 1_c);
    y.tile(offset(BM, 0)).store(squeeze<1>(by_1));
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Matrix<float> x(16, 256, random), y(16, 256, random);
  auto sums = Tensor<float, 1>::empty({16});
  Stream stream;
  chain.launch(stream, {BM = 16, BN = 128}, Grid{1}, x.view(), y.view());
  halves.launch(stream, {BM = 16}, Grid{1}, x.view(), sums);
  stream.synchronize();
  for (std::int64_t i = 0; i < 16; ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < 256; ++j) {
      REQUIRE(y(i, j) == (x(i, j) + x(i, j ^ 1)) / 2);
      sum += x(i, j);
    }
    REQUIRE(sums.data()[i] == sum);
  }
}

TEST_CASE("a mask in the memory that is stored to is read before it is overwritten") {
  const auto clear = kernel("clear", [](View<const float, 1> x, View<float, 2> y) {
    y.tile(offset(BM, 0), offset(BN, 0))
        .store(zeros<float>(BM, BN), expand<1>(x.tile(offset(BM, 0)).load() > 0.5f));
  });
  std::vector<float> memory(16 * 64, 1.f);
  Stream stream;
  clear.launch(stream, {BM = 16, BN = 64}, Grid{1}, TensorView<const float, 1>(memory.data() + 20, {16}, {1}),
               TensorView<float, 2>(memory.data(), {16, 64}, {64, 1}));
  stream.synchronize();
  CHECK(std::count(memory.begin(), memory.end(), 0.f) == 16 * 64);
}

TEMPLATE_TEST_CASE("groups of a few neighbours are reduced exactly, whatever the tiles and edges", "", float,
                   bf16, std::uint8_t) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_groups<TestType, 2>(random);
  check_groups<TestType, 4>(random);
  check_groups<TestType, 8>(random);
}
