// Tests products in loops over K, as users write them, with any tile sizes and in any grouping by the back
// ends.
#include "left_out.h"
#include "strided.h"

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

// The sizes of a product, and tiles that fit the shared memory of any GPU with elements of `element_bytes`.
struct Sizes {
  std::int64_t m, n, k;
  Config config;

  explicit Sizes(Random& random, std::size_t element_bytes = sizeof(float)) {
    auto one_of = [&](std::initializer_list<std::int64_t> values) {
      return values.begin()[random.integer(0, static_cast<std::int64_t>(values.size()) - 1)];
    };
    const bool quick = test_device().is_cpu(); // emulated GPUs are slow
    m = random.integer(1, quick ? 130 : 40), n = random.integer(1, quick ? 150 : 50);
    k = quick ? one_of({0, 1, 2, 31, 64, 130, 513, 601, 1024, 1029}) : one_of({0, 1, 2, 31, 64, 70});
    config = {BM = one_of({1, 2, 5, 8, 16, 32, 48, 64}), BN = one_of({8, 16, 24, 32, 64, 128}),
              BK = element_bytes > sizeof(float) ? one_of({1, 8, 16, 24, 32, 64})
                                                 : one_of({1, 8, 16, 24, 32, 64, 128})};
  }
  std::string text() const {
    return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ", " +
           config.to_string();
  }
};

template <class A, class B>
double product(const A& a, const B& b, std::int64_t i, std::int64_t j, std::int64_t k) {
  double s = 0;
  for (std::int64_t p = 0; p < k; ++p)
    s += a(i, p) * b(p, j);
  return s;
}

// The tile of the product a b at these rows and columns.
template <class M, class N>
auto sums(const View<const float, 2>& a, const View<const float, 2>& b, const M& m, const N& n) {
  return for_range(BK, a.cols(), zeros<float>(BM, BN),
                   [&](auto k, auto sum) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum); });
}

// Draws small integers, for which sums of products are exact in every order.
auto small(Random& random) { return integers(random, -4, 4); }

} // namespace

TEMPLATE_TEST_CASE("a product of any sizes and tiles is exact where its sums are", "", float, double, bf16,
                   f16, std::int8_t, std::uint8_t) {
  using T = TestType;
  using A = std::conditional_t<std::is_integral_v<T>, std::int32_t,
                               std::conditional_t<std::is_same_v<T, double>, double, float>>;
  const auto multiply = kernel("product", [](View<const T, 2> a, View<const T, 2> b, View<A, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    c.tile(m, n).store(for_range(BK, a.cols(), zeros<A>(BM, BN), [&](auto k, auto sum) {
      return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum);
    }));
  });
  const auto transposed = kernel("transposed", [](View<const T, 2> a, View<const T, 2> b, View<A, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    c.tile(m, n).store(for_range(BK, a.rows(), zeros<A>(BM, BN), [&](auto k, auto sum) {
      return dot(trans(a.tile(k, m).load()), trans(b.tile(n, k).load()), sum);
    }));
  });
  Random random;
  KILN_SEED(random);
  const int low = std::is_unsigned_v<T> ? 0 : -4;
  for (int round = 0; round < rounds(4); ++round) {
    const Sizes s(random, sizeof(T));
    INFO(s.text());
    Strided<T, 2> a(random, {s.m, s.k}, integers(random, low, 4)),
        b(random, {s.k, s.n}, integers(random, low, 4));
    Strided<A, 2> c(random, {s.m, s.n}), again(random, {s.m, s.n});
    const Run run{false};
    run(multiply, s.config, a.view, b.view, c.view);
    c.check(0, [&](auto i, auto j) { return product(a, b, i, j, s.k); });
    run(transposed, s.config, a.view.transpose(), b.view.transpose(), again.view);
    again.check(0, [&](auto i, auto j) { return c(i, j); });
  }
}

TEMPLATE_TEST_CASE("operands that are computed step by step", "", float, bf16) {
  using T = TestType;
  const auto multiply =
      kernel("dequantise", [](View<const T, 2> x, View<const std::int8_t, 2> w, View<const float, 1> scales,
                              View<const float, 1> rows, View<float, 2> y) {
        auto [m, n] = program_tile(y, BM, BN);
        Tile scale = scales.tile(n).load();
        y.tile(m, n).store(for_range(BK, x.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
          Tile weights = cast<float>(w.tile(k, n).load()) * scale;
          Tile scaled = cast<float>(x.tile(m, k).load()) * expand<1>(rows.tile(m).load());
          return dot(scaled, weights, sum);
        }));
      });
  const auto half = kernel("half", [](View<const T, 2> x, View<const std::int8_t, 2> w, View<float, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    y.tile(m, n).store(for_range(BK, x.cols(), full(1.0f, BM, BN), [&](auto k, auto sum) {
      return dot(x.tile(m, k).load(), cast<T>(w.tile(k, n).load()), sum);
    }));
  });
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(4); ++round) {
    const Sizes s(random);
    INFO(s.text());
    Strided<T, 2> x(random, {s.m, s.k}, small(random));
    Strided<std::int8_t, 2> w(random, {s.k, s.n}, small(random));
    Strided<float, 1> scales(random, {s.n}, small(random)), rows(random, {s.m}, small(random));
    Strided<float, 2> y(random, {s.m, s.n}), z(random, {s.m, s.n});
    const Run run{false};
    run(multiply, s.config, x.view, w.view, scales.view, rows.view, y.view);
    y.check(0, [&](auto i, auto j) { return rows(i) * scales(j) * product(x, w, i, j, s.k); });
    run(half, s.config, x.view, w.view, z.view);
    z.check(0, [&](auto i, auto j) { return 1 + product(x, w, i, j, s.k); });
  }
}

TEST_CASE("loops over a part of K, sums that continue, and epilogues that use the whole tile") {
  const auto part = kernel("part", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
                                      View<float, 2> most, Scalar<std::int64_t> first) {
    auto [m, n] = program_tile(c, BM, BN);
    auto start = max(first, 0);
    Tile before = c.tile(m, n).load();
    Tile total = for_range(BK, max(a.cols() - start, 0), before, [&](auto k, auto sum) {
      return dot(a.tile(m, k + start).load(), b.tile(k + start, n).load(), sum);
    });
    c.tile(m, n).store(total);
    Tile inside = expand<1>(m + arange(BM) < c.rows()) & expand<0>(n + arange(BN) < c.cols());
    Scalar<std::int64_t> i = m / BM, j = n / BN;
    most.at(i, j).store(max(where(inside, total, -1e30f)));
  });
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(4); ++round) {
    const Sizes s(random);
    INFO(s.text());
    const std::int64_t bm = *s.config.get("BM"), bn = *s.config.get("BN"),
                       first = random.integer(-3, s.k + 2);
    Strided<float, 2> a(random, {s.m, s.k}, small(random)), b(random, {s.k, s.n}, small(random)),
        c(random, {s.m, s.n}, [](auto i, auto j) { return static_cast<double>((i + 2 * j) % 5); }),
        most(random, {(s.m + bm - 1) / bm, (s.n + bn - 1) / bn});
    Run{false}(part, s.config, a.view, b.view, c.view, most.view, first);
    c.check(0, [&](auto i, auto j) {
      double sum = static_cast<double>((i + 2 * j) % 5);
      for (std::int64_t k = std::max<std::int64_t>(first, 0); k < s.k; ++k)
        sum += a(i, k) * b(k, j);
      return sum;
    });
    most.check(0, [&](auto i, auto j) {
      double largest = -1e30;
      for (std::int64_t r = i * bm; r < std::min(s.m, (i + 1) * bm); ++r)
        for (std::int64_t q = j * bn; q < std::min(s.n, (j + 1) * bn); ++q)
          largest = std::max(largest, c(r, q));
      return largest;
    });
  }
}

TEST_CASE("sums stored without an epilogue, to views of other extents and to the memory of their operands") {
  const auto multiply =
      kernel("product", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        c.tile(m, n).store(sums(a, b, m, n));
      });
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(4); ++round) {
    const Sizes s(random);
    INFO(s.text());
    Strided<float, 2> a(random, {s.m, s.k}, small(random)), b(random, {s.k, s.n}, small(random));
    const std::int64_t rows = random.integer(1, 2 * s.m), columns = random.integer(1, 2 * s.n);
    INFO("stored to " << rows << " x " << columns);
    Strided<float, 2> c(random, {rows, columns});
    Run{false}(multiply, s.config, a.view, b.view, c.view);
    c.check(0, [&](auto i, auto j) { return i < s.m && j < s.n ? product(a, b, i, j, s.k) : 0.0; });
  }
  // A single program reads its operands completely before it stores, so it may overwrite one or both of them.
  for (const std::int64_t offset : {0, 1, 700, 1024, 1500}) {
    INFO("c begins at " << offset);
    std::vector<float> memory(3 * 1024);
    for (float& x : memory)
      x = static_cast<float>(random.integer(-4, 4));
    const std::vector<float> before = memory;
    auto at = [&](std::int64_t first) { return TensorView<float, 2>(memory.data() + first, {32, 32}); };
    TensorView<const float, 2> a = at(0), b = at(1024);
    Stream stream;
    multiply.launch(stream, {BM = 32, BN = 32, BK = 8}, a, b, at(offset));
    stream.synchronize();
    for (std::int64_t i = 0; i < 32; ++i)
      for (std::int64_t j = 0; j < 32; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < 32; ++k)
          sum += before[i * 32 + k] * before[1024 + k * 32 + j];
        REQUIRE(memory[offset + i * 32 + j] == sum);
      }
  }
}

TEST_CASE("programs that concurrently store the same sums to the same elements") {
  // The last tile is moved back so that it fits; an axis of the grid is not used; tiles begin at every half
  // of a tile.
  const auto clamped =
      kernel("clamped", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        Scalar<std::int64_t> rows = dim_size(BM);
        auto m = offset(BM, max(min(program_id(0) * rows, c.rows() - rows), 0));
        auto n = program_id(1) * BN;
        c.tile(m, n).store(sums(a, b, m, n));
      });
  const auto unused = kernel("unused", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    auto m = program_id(1) * BM;
    auto n = program_id(2) * BN;
    c.tile(m, n).store(sums(a, b, m, n));
  });
  const auto halves = kernel("halves", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    Scalar<std::int64_t> half = dim_size(BM) / 2;
    auto m = offset(BM, program_id(0) * half);
    auto n = program_id(1) * BN;
    c.tile(m, n).store(sums(a, b, m, n));
  });
  Random random;
  KILN_SEED(random);
  const bool quick = test_device().is_cpu();
  for (const std::int64_t bm : {4, 16}) {
    const std::int64_t m = random.integer(bm + 1, 3 * bm), n = random.integer(17, 100), k = quick ? 1300 : 40;
    const Config config{BM = bm, BN = 16, BK = 8};
    const std::int64_t down = (m + bm - 1) / bm, across = (n + 15) / 16;
    INFO(m << " x " << n << " x " << k << ", " << config.to_string());
    Strided<float, 2> a(random, {m, k}, small(random)), b(random, {k, n}, small(random));
    auto check = [&](const auto& multiply, Grid grid) {
      for (int round = 0; round < (quick ? rounds(20) : 1); ++round) {
        Strided<float, 2> c(random, {m, n});
        on_test_device([&](Stream& stream, auto... v) { multiply.launch(stream, config, grid, v...); },
                       a.view, b.view, c.view);
        c.check(0, [&](auto i, auto j) { return product(a, b, i, j, k); });
      }
    };
    check(clamped, Grid{down, across});
    check(unused, Grid{3, down, across});
    check(halves, Grid{2 * down, across});
  }
}

TEST_CASE("batched products, and products of programs that are numbered by the launch's grid") {
  const auto batched =
      kernel("batched", [](View<const float, 3> a, View<const float, 3> b, View<float, 3> c) {
        auto [i, m, n] = program_tile(c, 1_c, BM, BN);
        c.tile(i, m, n).store(for_range(BK, a.extent(2), zeros<float>(1_c, BM, BN), [&](auto k, auto sum) {
          return dot(a.tile(i, m, k).load(), b.tile(i, k, n).load(), sum);
        }));
      });
  // Consecutive programs go down a column of tiles, and then to the next column.
  const auto numbered =
      kernel("numbered", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        Scalar<std::int64_t> down = cdiv(c.rows(), BM);
        auto m = program_id(0) % down * BM;
        auto n = program_id(0) / down * BN;
        c.tile(m, n).store(sums(a, b, m, n));
      });
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(3); ++round) {
    const Sizes s(random);
    INFO(s.text());
    Strided<float, 3> a(random, {3, s.m, s.k}, small(random)), b(random, {3, s.k, s.n}, small(random)),
        c(random, {3, s.m, s.n});
    Run{false}(batched, s.config, a.view, b.view, c.view);
    c.check(0, [&](auto i, auto r, auto q) {
      double sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k)
        sum += a(i, r, k) * b(i, k, q);
      return sum;
    });
    Strided<float, 2> x(random, {s.m, s.k}, small(random)), y(random, {s.k, s.n}, small(random)),
        z(random, {s.m, s.n});
    const std::int64_t bm = *s.config.get("BM"), bn = *s.config.get("BN");
    const Grid grid{((s.m + bm - 1) / bm) * ((s.n + bn - 1) / bn)};
    on_test_device([&](Stream& stream, auto... v) { numbered.launch(stream, s.config, grid, v...); }, x.view,
                   y.view, z.view);
    z.check(0, [&](auto i, auto j) { return product(x, y, i, j, s.k); });
  }
}
