// Tests numerical kernels, written as a user would, with the public interface only.
#include "strided.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);

TEST_CASE("outside: the Mandelbrot set, with a loop that ends when all pixels of the tile have") {
  const auto mandelbrot = kernel("mandelbrot", [](View<std::int32_t, 2> image, Scalar<std::int32_t> limit) {
    auto [m, n] = program_tile(image, BM, BN);
    Tile cy = expand<1>(cast<float>(m + arange(BM)) * (2.5f / 64) - 1.25f);
    Tile cx = expand<0>(cast<float>(n + arange(BN)) * (3.0f / 64) - 2.0f);
    auto zero = zeros<float>(BM, BN);
    auto start = state(zero, zero, zeros<std::int32_t>(BM, BN), Scalar<std::int32_t>(0));
    auto [x, y, steps, round] = while_loop(
        start, [&](auto x, auto y, auto, auto round) { return (round < limit) & any(x * x + y * y <= 4.0f); },
        [&](auto x, auto y, auto steps, auto round) {
          Tile inside = x * x + y * y <= 4.0f;
          return state(where(inside, x * x - y * y + cx, x), where(inside, 2 * x * y + cy, y),
                       steps + cast<std::int32_t>(inside), round + 1);
        });
    image.tile(m, n).store(steps);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 64), cols = random.integer(1, 64);
  Strided<std::int32_t, 2> image(random, {rows, cols});
  run(mandelbrot, {BM = 8, BN = 16}, image.view, 50);
  image.check(0, [&](auto r, auto c) {
    const float cy = static_cast<float>(r) * (2.5f / 64) - 1.25f,
                cx = static_cast<float>(c) * (3.0f / 64) - 2.0f;
    float x = 0, y = 0;
    int steps = 0;
    // The variables are volatile, so that the compiler contracts nothing to fma here.
    while (steps < 50) {
      volatile float xx = x * x, yy = y * y, xy = 2 * x * y;
      volatile float norm = xx + yy, real = xx - yy;
      if (!(norm <= 4.0f)) break;
      x = real + cx, y = xy + cy;
      ++steps;
    }
    return static_cast<double>(steps);
  });
}

TEMPLATE_TEST_CASE("outside: option prices by Black and Scholes", "", float, double) {
  using T = TestType;
  const auto prices =
      kernel("black_scholes", [](View<const T, 1> spot, View<const T, 1> strike, View<const T, 1> years,
                                 View<T, 1> call, View<T, 1> put, Scalar<T> rate, Scalar<T> volatility) {
        auto [i] = program_tile(spot, BN);
        Tile s = spot.tile(i).load_or(1), k = strike.tile(i).load_or(1), t = years.tile(i).load_or(1);
        auto normal = [](const auto& x) { return 0.5 * (1 + erf(x * 0.70710678118654752440)); };
        Tile d1 = (log(s / k) + (rate + volatility * volatility / 2) * t) / (volatility * sqrt(t));
        Tile d2 = d1 - volatility * sqrt(t);
        Tile discounted = k * exp(-rate * t);
        call.tile(i).store(s * normal(d1) - discounted * normal(d2));
        put.tile(i).store(discounted * normal(-d2) - s * normal(-d1));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 1000);
  Strided<T, 1> spot(random, {n}, uniform(random, 10, 100)), strike(random, {n}, uniform(random, 10, 100)),
      years(random, {n}, uniform(random, 0.2, 5)), call(random, {n}), put(random, {n});
  run(prices, {BN = 256}, spot.view, strike.view, years.view, call.view, put.view, static_cast<T>(0.05),
      static_cast<T>(0.2));
  auto price = [&](std::int64_t i, double sign) {
    const double s = spot(i), k = strike(i), t = years(i), r = to_double(static_cast<T>(0.05)),
                 v = to_double(static_cast<T>(0.2));
    auto normal = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
    const double d1 = (std::log(s / k) + (r + v * v / 2) * t) / (v * std::sqrt(t)),
                 d2 = d1 - v * std::sqrt(t);
    return sign * (s * normal(sign * d1) - k * std::exp(-r * t) * normal(sign * d2));
  };
  // The value of an option far out of the money is a small difference of two amounts of up to 100.
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-13;
  call.check(tolerance, [&](auto i) { return price(i, 1); }, 100);
  put.check(tolerance, [&](auto i) { return price(i, -1); }, 100);
}

TEST_CASE("outside: a linear recurrence as a non-commutative scan, with a state carried across tiles") {
  // h[t] = a[t] * h[t - 1] + b[t]
  const auto recurrence =
      kernel("recurrence", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> h) {
        auto [m] = program_tile(h, BM);
        Var carried = zeros<float>(BM);
        for_range(BN, h.cols(), [&](auto n) {
          auto [factor, sum_here] =
              associative_scan(tie(a.tile(m, n).load_or(1), b.tile(m, n).load()), BN, [](auto p, auto q) {
                auto [a1, b1] = p;
                auto [a2, b2] = q;
                return tie(a1 * a2, a2 * b1 + b2);
              });
          Tile t = factor * expand<1>(carried) + sum_here;
          h.tile(m, n).store(t);
          carried = sum(where(arange(BN) == dim_size(BN) - 1, t, 0), BN);
        });
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 12), cols = random.integer(1, 200);
  Strided<float, 2> a(random, {rows, cols}, uniform(random, 0.5, 1)),
      b(random, {rows, cols}, uniform(random, -1, 1)), h(random, {rows, cols});
  run(recurrence, {BM = 4, BN = 32}, a.view, b.view, h.view);
  h.check(1e-4, [&](auto r, auto c) {
    double s = 0;
    for (std::int64_t t = 0; t <= c; ++t)
      s = a(r, t) * s + b(r, t);
    return s;
  });
}

TEST_CASE("outside: a sparse matrix times a vector, rows of any length") {
  const auto spmv =
      kernel("spmv", [](View<const float, 1> values, View<const std::int32_t, 1> cols,
                        View<const std::int64_t, 1> starts, View<const float, 1> x, View<float, 1> y) {
        auto [row] = program_tile(y, BM); // each program takes BM rows
        Tile begin = starts.tile(row).load();
        Tile end = starts.at(row + arange(BM) + 1).load();
        auto longest = max(end - begin);
        Var sums = zeros<float>(BM);
        for_range(BN, longest, [&](auto k) {
          Tile i = expand<1>(begin) + (k + arange(BN));
          Tile mask = i < expand<1>(end);
          sums += sum(values.at(i).load(mask) * x.at(cols.at(i).load(mask)).load(mask), BN);
        });
        y.tile(row).store(sums);
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 50), width = random.integer(1, 60);
  Strided<std::int64_t, 1> starts(random, {rows + 1});
  std::int64_t total = 0;
  for (std::int64_t i = 0; i <= rows; ++i) {
    starts.view(i) = total;
    if (i < rows) total += random.integer(0, 25);
  }
  Strided<float, 1> values(random, {total}, uniform(random, -1, 1)),
      x(random, {width}, uniform(random, -1, 1)), y(random, {rows});
  Strided<std::int32_t, 1> cols(random, {total}, integers(random, 0, width - 1));
  run(spmv, {BM = 4, BN = 8}, values.view, cols.view, starts.view, x.view, y.view);
  y.check(1e-5, [&](auto r) {
    double s = 0;
    for (std::int64_t i = starts.view(r); i < starts.view(r + 1); ++i)
      s += values(i) * x(cols.view(i));
    return s;
  });
}

TEMPLATE_TEST_CASE("outside: rows quantised to 8-bit floats with a scale, and back", "", f8e4m3, f8e5m2) {
  using Q = TestType;
  const float largest = std::is_same_v<Q, f8e4m3> ? 448.0f : 57344.0f;
  const auto quantise =
      kernel("quantise", [largest](View<const bf16, 2> x, View<Q, 2> q, View<float, 1> scales) {
        auto [m] = program_tile(x, BM);
        Tile high = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto high) {
          return max(high, max(abs(cast<float>(x.tile(m, n).load())), BN));
        });
        Tile scale = where(high > 0, high / largest, 1);
        scales.tile(m).store(scale);
        for_range(BN, x.cols(), [&](auto n) {
          q.tile(m, n).store(cast<Q>(cast<float>(x.tile(m, n).load()) / expand<1>(scale)));
        });
      });
  const auto restore =
      kernel("restore", [](View<const Q, 2> q, View<const float, 1> scales, View<float, 2> y) {
        auto [m, n] = program_tile(y, BM, BN);
        y.tile(m, n).store(cast<float>(q.tile(m, n).load()) * expand<1>(scales.tile(m).load()));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 100);
  Strided<bf16, 2> x(random, {rows, cols}, uniform(random, -3, 3));
  x.view(0, 0) = bf16(0.0f);
  Strided<Q, 2> q(random, {rows, cols});
  Strided<float, 1> scales(random, {rows});
  Strided<float, 2> y(random, {rows, cols});
  run(quantise, {BM = 4, BN = 32}, x.view, q.view, scales.view);
  run(restore, {BM = 8, BN = 16}, q.view, scales.view, y.view);
  scales.check(1e-6, [&](auto r) {
    double high = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      high = std::max(high, std::abs(x(r, c)));
    return high > 0 ? high / largest : 1;
  });
  q.check(0, [&](auto r, auto c) { return to_double(Q(static_cast<float>(x(r, c)) / scales.view(r))); });
  y.check(1e-6, [&](auto r, auto c) { return q(r, c) * scales(r); });
}

TEST_CASE("outside: the stages hint of a loop does not change its results") {
  const auto sums = kernel("sums", [](View<const float, 2> x, View<float, 1> y, View<float, 1> z) {
    auto [m] = program_tile(x, BM);
    y.tile(m).store(for_range(BN, x.cols(), zeros<float>(BM),
                              [&](auto n, auto acc) { return acc + sum(x.tile(m, n).load(), BN); },
                              {.stages = 4}));
    Var total = full(cast<float>(1), BM);
    for_range(0, x.cols(), 1, [&](auto n) { total += where(isfinite(x.tile(m, n).load()), 1, 0); },
              {.stages = 2});
    z.tile(m).store(total);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 9), cols = random.integer(1, 40);
  Strided<float, 2> x(random, {rows, cols}, uniform(random, -1, 1));
  Strided<float, 1> y(random, {rows}), z(random, {rows});
  run(sums, {BM = 4, BN = 16}, x.view, y.view, z.view);
  y.check(1e-5, [&](auto r) {
    double s = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      s += x(r, c);
    return s;
  });
  x.view(rows - 1, 0) = INFINITY;
  x.view(0, cols - 1) = NAN;
  run(sums, {BM = 4, BN = 16}, x.view, y.view, z.view);
  z.check(0, [&](auto r) {
    double n = 1;
    for (std::int64_t c = 0; c < cols; ++c)
      n += std::isfinite(x.view(r, c));
    return n;
  });
}

TEMPLATE_TEST_CASE("outside: the remainder of floats is that of the C library, to the bit", "", float, double,
                   f16, bf16) {
  using T = TestType;
  const auto remainders = kernel("remainders", [](View<const T, 1> x, View<const T, 1> y, View<T, 1> z) {
    auto [m] = program_tile(z, BM);
    z.tile(m).store(x.tile(m).load() % y.tile(m).load());
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = 300;
  Strided<T, 1> x(random, {n}, uniform(random, -9, 9)), y(random, {n}, uniform(random, -9, 9)),
      z(random, {n});
  const double special[] = {0.0, -0.0, 1, 0.1, 5, 1.0 / 3, INFINITY, NAN, 1e-7, -3e4};
  for (std::int64_t i = 0; i < 100; ++i) {
    x.view(i) = from_double<T>(special[i / 10]), y.view(i) = from_double<T>(special[i % 10]);
    const double scale =
        std::ldexp(1.0, static_cast<int>(random.integer(0, 14))); // for quotients of many bits
    x.view(100 + i) = from_double<T>(to_double(x.view(100 + i)) * scale);
    y.view(200 + i) = from_double<T>(to_double(y.view(200 + i)) / scale);
  }
  run(remainders, {BM = 64}, x.view, y.view, z.view);
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = to_double(x.view(i)), b = to_double(y.view(i)), expected = std::fmod(a, b),
                 found = to_double(z.view(i));
    CAPTURE(a, b, found, expected);
    REQUIRE((expected != expected ? found != found
                                  : found == expected && std::signbit(found) == std::signbit(expected)));
  }
}
