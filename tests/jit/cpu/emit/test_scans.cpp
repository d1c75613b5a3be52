// Tests scans on the CPU, which share loop nests with their operands and users, and strided lanes.
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

// A matrix with any distance between its rows and columns; elements between them must not change.
template <class T> struct Matrix {
  std::int64_t rows, columns;
  std::vector<T> memory;
  TensorView<T, 2> view;

  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride)
      : rows(rows), columns(columns) {
    const std::int64_t down = (rows - 1) * row_stride, along = (columns - 1) * column_stride;
    memory.assign(static_cast<std::size_t>(std::abs(down) + std::abs(along) + 17), T(-77.0f));
    T* first = memory.data() + 8 - std::min<std::int64_t>(down, 0) - std::min<std::int64_t>(along, 0);
    view = TensorView<T, 2>(first, {rows, columns}, {row_stride, column_stride});
  }
  Matrix(const Matrix&) = delete;
  void fill(std::mt19937_64& random, int values) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        at(i, j) = T(static_cast<float>(random() % static_cast<unsigned>(values)) - 1.0f);
  }
  T& at(std::int64_t i, std::int64_t j) { return view.data()[i * view.stride(0) + j * view.stride(1)]; }
  TensorView<const T, 2> read() const { return view; }
};

// One layout of a matrix in memory.
template <class T>
Matrix<T> any_matrix(std::int64_t rows, std::int64_t columns, test::RandomIntegers number) {
  const std::int64_t gap = number(0, 3);
  switch (number(0, 4)) {
  case 0: return {rows, columns, 1, rows + gap};
  case 1: return {rows, columns, -(columns + gap), 1};
  case 2: return {rows, columns, columns + gap, -1};
  case 3: return {rows, columns, 3 * (columns + gap), 3};
  default: return {rows, columns, columns + gap, 1};
  }
}

// Element (i, j) of a tile's prefixes by the definition; `of` returns the elements of the whole matrix.
template <class Of>
double prefix(Of&& of, std::int64_t i, std::int64_t j, int axis, bool reverse, std::int64_t tile) {
  const std::int64_t at = axis == 0 ? i : j, first = at / tile * tile;
  double sum = 0;
  for (std::int64_t k = reverse ? at : first; k < (reverse ? first + tile : at + 1); ++k)
    sum += axis == 0 ? of(k, j) : of(i, k);
  return sum;
}

template <class T> void sums_as_defined(std::mt19937_64& random) {
  const auto kernel_of = [](auto axis, bool reverse) {
    return kernel("prefixes", [=](View<const T, 2> x, View<T, 2> y) {
      auto [m, n] = program_tile(y, BM, BN);
      y.tile(m, n).store(cast<T>(cumsum(x.tile(m, n).load(), axis, {.reverse = reverse})));
    });
  };
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{8, 64}, {16, 16}, {64, 8}, {1, 128}, {128, 1}, {5, 30}, {33, 7}, {1, 1}})
    for (int axis : {0, 1})
      for (bool reverse : {false, true}) {
        const std::int64_t rows = number(1, 140), columns = number(1, 140);
        CAPTURE(bm, bn, axis, reverse, rows, columns);
        Matrix<T> x = any_matrix<T>(rows, columns, number), y = any_matrix<T>(rows, columns, number);
        x.fill(random, 4);
        const auto beside = std::count(y.memory.begin(), y.memory.end(), T(-77.0f));
        const Config config{BM = bm, BN = bn};
        if (axis == 0)
          kernel_of(kiln::axis<0>, reverse).launch(stream, config, x.read(), y.view);
        else
          kernel_of(kiln::axis<1>, reverse).launch(stream, config, x.read(), y.view);
        stream.synchronize();
        auto of = [&](std::int64_t i, std::int64_t j) {
          return i < rows && j < columns ? static_cast<double>(float(x.at(i, j))) : 0.;
        };
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            if (static_cast<double>(float(y.at(i, j))) !=
                prefix(of, i, j, axis, reverse, axis == 0 ? bm : bn))
              FAIL("row " << i << ", column " << j << " is " << float(y.at(i, j)));
        CHECK(std::count(y.memory.begin(), y.memory.end(), T(-77.0f)) == beside - rows * columns);
      }
}

} // namespace

TEST_CASE("prefixes of every element type agree with their definition, for any layout") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SECTION("f32") { sums_as_defined<float>(random); }
  SECTION("f64") { sums_as_defined<double>(random); }
  SECTION("bf16") { sums_as_defined<bf16>(random); }
  SECTION("f16") { sums_as_defined<f16>(random); }
  SECTION("i32") { sums_as_defined<std::int32_t>(random); }
  SECTION("i64") { sums_as_defined<std::int64_t>(random); }
}

TEST_CASE("uses of prefixes, in their nest or after it, see all of them") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (auto [bm, bn] : {std::pair{16, 64}, {64, 16}, {7, 33}}) {
    CAPTURE(bm, bn);
    Matrix<float> x(bm, bn, bn, 1), y(bm, bn, bn + 3, 1), z(bm, bn, bn, 1);
    x.fill(random, 4);
    const Config config{BM = bm, BN = bn};
    auto of = [&](std::int64_t i, std::int64_t j) { return static_cast<double>(x.at(i, j)); };
    auto down = [&](std::int64_t i, std::int64_t j) { return prefix(of, i, j, 0, false, bm); };
    auto along = [&](std::int64_t i, std::int64_t j) { return prefix(of, i, j, 1, false, bn); };
    auto expect = [&](Matrix<float>& matrix, auto&& value) {
      stream.synchronize();
      for (std::int64_t i = 0; i < bm; ++i)
        for (std::int64_t j = 0; j < bn; ++j)
          if (matrix.at(i, j) != value(i, j)) FAIL("row " << i << ", column " << j);
    };

    kernel("stored twice", [](View<const float, 2> x, View<float, 2> y, View<float, 2> z) {
      auto [m, n] = program_tile(y, BM, BN);
      Tile t = x.tile(m, n).load();
      Tile s = cumsum(t, BM);
      y.tile(m, n).store(s * 2.0f + t);
      z.tile(m, n).store(s);
    }).launch(stream, config, x.read(), y.view, z.view);
    expect(y, [&](auto i, auto j) { return 2 * down(i, j) + of(i, j); });
    expect(z, down);

    kernel("summed", [](View<const float, 2> x, View<float, 2> y) {
      auto [m, n] = program_tile(y, BM, BN);
      Tile s = cumsum(x.tile(m, n).load(), BN);
      Tile rows = sum(s, BN, keep);
      y.tile(m, n).store(s + rows);
    }).launch(stream, config, x.read(), y.view);
    expect(y, [&](auto i, auto j) {
      double sum = 0;
      for (std::int64_t k = 0; k < bn; ++k)
        sum += along(i, k);
      return along(i, j) + sum;
    });

    kernel("of prefixes", [](View<const float, 2> x, View<float, 2> y) {
      auto [m, n] = program_tile(y, BM, BN);
      y.tile(m, n).store(cumsum(cumsum(x.tile(m, n).load(), BM), BM));
    }).launch(stream, config, x.read(), y.view);
    expect(y, [&](auto i, auto j) { return prefix(down, i, j, 0, false, bm); });

    kernel("both axes", [](View<const float, 2> x, View<float, 2> y) {
      auto [m, n] = program_tile(y, BM, BN);
      y.tile(m, n).store(cumsum(cumsum(x.tile(m, n).load(), BM), BN));
    }).launch(stream, config, x.read(), y.view);
    expect(y, [&](auto i, auto j) { return prefix(down, i, j, 1, false, bn); });

    kernel("both ways", [](View<const float, 2> x, View<float, 2> y) {
      auto [m, n] = program_tile(y, BM, BN);
      Tile t = x.tile(m, n).load();
      y.tile(m, n).store(cumsum(t, BN) - cumsum(t, BN, {.reverse = true}));
    }).launch(stream, config, x.read(), y.view);
    expect(y, [&](auto i, auto j) { return along(i, j) - prefix(of, i, j, 1, true, bn); });

    Matrix<float> turned(bn, bm, bm, 1);
    kernel("transposed", [](View<const float, 2> x, View<float, 2> y) {
      auto [m, n] = program_tile(x, BM, BN);
      y.tile(n, m).store(trans(cumsum(x.tile(m, n).load(), BM)));
    }).launch(stream, config, x.read(), turned.view);
    stream.synchronize();
    for (std::int64_t i = 0; i < bm; ++i)
      for (std::int64_t j = 0; j < bn; ++j)
        REQUIRE(turned.at(j, i) == down(i, j));

    Matrix<float> carried(3 * bm - 2, bn, bn, 1), sums(3 * bm - 2, bn, bn, 1);
    carried.fill(random, 4);
    kernel("carried", [](View<const float, 2> x, View<float, 2> y) {
      auto n = offset(BN, 0);
      for_range(BM, x.rows(), zeros<float>(BN), [&](auto m, auto so_far) {
        Tile t = x.tile(m, n).load();
        y.tile(m, n).store(cumsum(t, BM) + expand<0>(so_far));
        return so_far + sum(t, BM);
      });
    }).launch(stream, config, Grid{1}, carried.read(), sums.view);
    stream.synchronize();
    auto of_carried = [&](std::int64_t i, std::int64_t j) { return static_cast<double>(carried.at(i, j)); };
    for (std::int64_t i = 0; i < carried.rows; ++i)
      for (std::int64_t j = 0; j < bn; ++j)
        REQUIRE(sums.at(i, j) == prefix(of_carried, i, j, 0, false, carried.rows));
  }
}

TEST_CASE("linear recurrences return both of their tiles, in either direction, for any tile size") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  const auto combine = [](auto earlier, auto later) {
    auto [a, b] = earlier;
    auto [c, d] = later;
    return state(a * c, b * c + d);
  };
  for (bool reverse : {false, true})
    for (bool product : {false, true})
      for (auto [bm, bn] : {std::pair{8, 32}, {32, 8}, {6, 21}}) {
        const std::int64_t rows = number(1, 40), columns = number(1, 40);
        CAPTURE(reverse, product, bm, bn, rows, columns);
        Matrix<std::int32_t> a(rows, columns, columns, 1), b(rows, columns, columns, 1),
            h(rows, columns, columns, 1), p(rows, columns, columns, 1);
        a.fill(random, 3), b.fill(random, 3);
        const auto along = kernel("along", [&](View<const std::int32_t, 2> a, View<const std::int32_t, 2> b,
                                               View<std::int32_t, 2> h, View<std::int32_t, 2> p) {
          auto [m, n] = program_tile(h, BM, BN);
          auto [factor, value] = associative_scan(state(a.tile(m, n).load_or(1), b.tile(m, n).load()), BN,
                                                  combine, {.reverse = reverse});
          h.tile(m, n).store(value);
          if (product) p.tile(m, n).store(factor);
        });
        along.launch(stream, {BM = bm, BN = bn}, a.read(), b.read(), h.view, p.view);
        stream.synchronize();
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t first = 0; first < columns; first += bn) {
            const std::int64_t last = std::min<std::int64_t>(first + bn, columns) - 1;
            std::int64_t factor = 1, value = 0;
            for (std::int64_t k = 0; k <= last - first; ++k) {
              const std::int64_t j = reverse ? last - k : first + k;
              value = value * a.at(i, j) + b.at(i, j);
              factor *= a.at(i, j);
              REQUIRE(h.at(i, j) == static_cast<std::int32_t>(value));
              if (product) REQUIRE(p.at(i, j) == static_cast<std::int32_t>(factor));
            }
          }
      }
}

TEST_CASE("prefixes are computed from the memory before any of them is stored") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const auto down = kernel("down", [](View<const float, 2> x, View<float, 2> y) {
    auto m = offset(BM, 0);
    auto n = offset(BN, 0);
    y.tile(m, n).store(cumsum(x.tile(m, n).load(), BM));
  });
  const auto along = kernel("along", [](View<const float, 2> x, View<float, 2> y) {
    auto m = offset(BM, 0);
    auto n = offset(BN, 0);
    y.tile(m, n).store(cumsum(x.tile(m, n).load(), BN) + 1.0f);
  });
  const auto in_place = kernel("in place", [](View<float, 2> x) {
    auto m = offset(BM, 0);
    auto n = offset(BN, 0);
    x.tile(m, n).store(cumsum(x.tile(m, n).load(), BN, {.reverse = true}));
  });
  const auto read_later =
      kernel("read later", [](View<const float, 2> x, View<float, 2> y, View<float, 2> z) {
        auto m = offset(BM, 0);
        auto n = offset(BN, 0);
        Tile t = x.tile(m, n).load();
        y.tile(m, n).store(cumsum(t, BN));
        z.tile(m, n).store(t);
      });
  constexpr std::int64_t rows = 20, columns = 50, stride = 64;
  for (std::int64_t shift : {0, 1, -1, 16, -16, 64, -64, 65, 20 * 64}) {
    CAPTURE(shift);
    std::vector<float> memory(64 * 64);
    for (float& x : memory)
      x = static_cast<float>(random() % 4);
    const auto before = memory;
    float* first = memory.data() + 20 * stride;
    const TensorView<const float, 2> x(first, {rows, columns}, {stride, 1});
    const TensorView<float, 2> y(first + shift, {rows, columns}, {stride, 1});
    auto expect = [&](int axis, bool reverse, float added, std::int64_t to) {
      stream.synchronize();
      auto of = [&](std::int64_t i, std::int64_t j) {
        return i < rows && j < columns
                   ? static_cast<double>(before[static_cast<std::size_t>((20 + i) * stride + j)])
                   : 0.;
      };
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          if (static_cast<double>(first[to + i * stride + j]) !=
              prefix(of, i, j, axis, reverse, 64) + static_cast<double>(added))
            FAIL("row " << i << ", column " << j << " of axis " << axis);
      memory = before;
    };
    down.launch(stream, {BM = 64, BN = 64}, Grid{1}, x, y);
    expect(0, false, 0, shift);
    along.launch(stream, {BM = 64, BN = 64}, Grid{1}, x, y);
    expect(1, false, 1, shift);
    Matrix<float> kept(rows, columns, columns, 1);
    read_later.launch(stream, {BM = 64, BN = 64}, Grid{1}, x, y, kept.view);
    expect(1, false, 0, shift);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        REQUIRE(kept.at(i, j) == before[static_cast<std::size_t>((20 + i) * stride + j)]);
    in_place.launch(stream, {BM = 64, BN = 64}, Grid{1},
                    TensorView<float, 2>(first, {rows, columns}, {stride, 1}));
    expect(1, true, 0, 0);
  }
}

TEST_CASE("operands of a scan can be read outside of its nest") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  constexpr std::int64_t rows = 16, columns = 32;
  const auto either =
      kernel("either", [](View<const float, 2> x, View<float, 2> z, Scalar<std::int64_t> sum) {
        auto m = offset(BM, 0);
        auto n = offset(BN, 0);
        Tile t = trans(x.tile(n, m).load());
        Tile s = if_else(
            sum > 0,
            [&] {
              Tile r = cumsum(t, BN);
              return r;
            },
            [&] {
              Tile r = zeros<float>(BM, BN);
              return r;
            });
        z.tile(m, n).store(s + t * 2.0f);
      });
  Matrix<float> x(columns, rows, rows, 1), z(rows, columns, columns, 1);
  x.fill(random, 4);
  auto of = [&](std::int64_t i, std::int64_t j) { return static_cast<double>(x.at(j, i)); };
  for (bool sum : {false, true}) {
    either.launch(stream, {BM = rows, BN = columns}, Grid{1}, x.read(), z.view, std::int64_t{sum});
    stream.synchronize();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        REQUIRE(z.at(i, j) == 2 * of(i, j) + (sum ? prefix(of, i, j, 1, false, columns) : 0));
  }
}

TEST_CASE("a combine function may use a sum of the elements that it combines") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const auto capped = kernel("capped", [](View<const float, 1> x, View<float, 1> y, View<float, 1> z) {
    auto n = offset(BN, 0);
    Tile t = x.tile(n).load();
    Scalar<float> most = max(t, BN);
    auto add = [&](auto a, auto b) { return min(a + b, most); };
    y.tile(n).store(associative_scan(t, BN, add));
    z.tile(n).store(zeros<float>(BN) + reduce(t, BN, add));
  });
  constexpr std::int64_t count = 70;
  std::vector<float> x(count), y(count), z(count);
  for (float& v : x)
    v = static_cast<float>(random() % 8);
  capped.launch(stream, {BN = 128}, Grid{1}, TensorView<const float, 1>(x.data(), {count}),
                TensorView<float, 1>(y.data(), {count}), TensorView<float, 1>(z.data(), {count}));
  stream.synchronize();
  const float most = *std::max_element(x.begin(), x.end());
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum = std::min(sum + x[i], most);
    REQUIRE(y[i] == sum);
  }
  CHECK(z == std::vector<float>(count, sum));
}

TEST_CASE("rows of any stride are read and written in place, and nothing else is accessed") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  const auto doubled = kernel("doubled", [](View<const std::int16_t, 1> x, View<std::int16_t, 1> y) {
    auto [n] = program_tile(y, BN);
    y.tile(n).store(x.tile(n).load() * std::int16_t{2});
  });
  for (std::int64_t from : {-7, -1, 0, 1, 2, 5})
    for (std::int64_t to : {-3, -1, 1, 2, 9}) {
      const std::int64_t count = number(1, 700);
      CAPTURE(from, to, count);
      Matrix<std::int16_t> x(1, count, count, from), y(1, count, count, to);
      x.fill(random, 100);
      const auto beside = std::count(y.memory.begin(), y.memory.end(), std::int16_t{-77});
      doubled.launch(stream, {BN = 128}, TensorView<const std::int16_t, 1>(x.view.data(), {count}, {from}),
                     TensorView<std::int16_t, 1>(y.view.data(), {count}, {to}));
      stream.synchronize();
      for (std::int64_t j = 0; j < count; ++j)
        REQUIRE(y.at(0, j) == 2 * x.at(0, j));
      CHECK(std::count(y.memory.begin(), y.memory.end(), std::int16_t{-77}) == beside - count);
    }
}
