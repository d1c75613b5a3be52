// Compares kernels that move, search, count and scan data with plain C++.
#include "language_test.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
} // namespace

TEST_CASE("transpose through a tile") {
  KILN_RANDOM_SEED();
  auto transpose = [](View<const float, 2> x, View<float, 2> y) {
    auto [m, n] = program_tile(x, BM, BN);
    y.tile(n, m).store(trans(x.tile(m, n).load()));
  };
  std::int64_t rows = random_integer(1, 30), cols = random_integer(1, 30);
  auto x = random_values<float>(rows * cols);
  std::vector<float> y(x.size(), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .view(y.data(), {cols, rows})
      .run(*bound(transpose, {BM = 8, BN = 5}));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y[at(c * rows + r)] == x[at(r * cols + c)]);
}

TEST_CASE("argmax and argmin take the first of equal elements and ignore NaN") {
  auto arg = [](View<const float, 2> x, View<std::int32_t, 1> high, View<std::int32_t, 1> low) {
    auto [row] = program_tile(x, BM);
    auto t = x.tile(row, offset(BN, 0)).load();
    high.tile(row).store(argmax(t, BN));
    low.tile(row).store(argmin(t, axis<-1>));
  };
  float nan = NAN;
  std::vector<float> x = {1, 3, 3, 0, 0, nan, 2, -1, nan, -1, nan, nan, nan, nan, nan, 5, 5, 5, 5, 5};
  std::vector<std::int32_t> high(4, 7), low(4, 7);
  Arguments()
      .view(x.data(), {4, 5})
      .view(high.data(), {4})
      .view(low.data(), {4})
      .run(*bound(arg, {BM = 2, BN = 5}));
  CHECK(high == std::vector<std::int32_t>{1, 1, 0, 0});
  CHECK(low == std::vector<std::int32_t>{3, 2, 0, 0});
}

TEST_CASE("cumulative sums along either axis, forwards and backwards") {
  KILN_RANDOM_SEED();
  auto scan = [](View<const std::int32_t, 2> x, View<std::int32_t, 2> rows, View<std::int32_t, 2> cols) {
    auto [m, n] = program_tile(x, BM, BN);
    auto t = x.tile(m, n).load();
    rows.tile(m, n).store(cumsum(t, BN));
    cols.tile(m, n).store(associative_scan(t, BM, [](auto a, auto b) { return a + b; }, {.reverse = true}));
  };
  std::vector<std::int32_t> x, rows(12), cols(12);
  for (int i = 0; i < 12; ++i)
    x.push_back(static_cast<std::int32_t>(random_integer(-9, 9)));
  Arguments()
      .view(x.data(), {3, 4})
      .view(rows.data(), {3, 4})
      .view(cols.data(), {3, 4})
      .run(*bound(scan, {BM = 3, BN = 4}));
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) {
      std::int32_t across = 0, down = 0;
      for (int i = 0; i <= c; ++i)
        across += x[at(r * 4 + i)];
      for (int i = r; i < 3; ++i)
        down += x[at(i * 4 + c)];
      CHECK(rows[at(r * 4 + c)] == across);
      CHECK(cols[at(r * 4 + c)] == down);
    }
}

TEST_CASE("histogram with atomics on single elements") {
  KILN_RANDOM_SEED();
  auto histogram = [](View<const std::int32_t, 1> x, View<std::int32_t, 1> bins) {
    auto [i] = program_tile(x, BN);
    auto bin = x.tile(i).load_or(-1); // elements outside of x belong to no bin
    bins.at(bin).atomic_add(1, {.order = Order::relaxed});
  };
  std::int64_t n = random_integer(1, 300);
  std::vector<std::int32_t> x, bins(8), expected(8);
  for (std::int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<std::int32_t>(random_integer(0, 7)));
    ++expected[at(x.back())];
  }
  Arguments().view(x.data(), {n}).view(bins.data(), {8}).run(*bound(histogram, {BN = 32}));
  CHECK(bins == expected);
}

TEST_CASE("segmented sums: one program per segment, bounds read from memory") {
  KILN_RANDOM_SEED();
  auto segmented = [](View<const float, 1> x, View<const std::int64_t, 1> starts, View<float, 1> sums,
                      View<float, 1> peaks) {
    auto [segment] = program_tile(sums, 1_c);
    Scalar<std::int64_t> s = segment;
    auto begin = starts.tile(s).load(), end = starts.tile(s + 1).load();
    Var<float> total = 0, peak = -INFINITY;
    for_range(BN, range(begin, end), [&](auto i) {
      Tile inside = i + arange(BN) < end;
      auto t = x.tile(i).load(inside, 0.0f);
      total += sum(t);
      peak = max(peak, max(where(inside, t, -INFINITY)));
    });
    sums.tile(s).store(total);
    if_then(begin < end, [&] { peaks.tile(s).store(peak); });
  };
  std::int64_t segments = random_integer(1, 9);
  std::vector<std::int64_t> starts{0};
  for (std::int64_t i = 0; i < segments; ++i)
    starts.push_back(starts.back() + random_integer(0, 30));
  auto x = random_values<float>(starts.back() + 1);
  std::vector<float> sums(at(segments), NAN), peaks(at(segments), -7);
  Arguments()
      .view(x.data(), {starts.back()})
      .view(starts.data(), {segments + 1})
      .view(sums.data(), {segments})
      .sums_terms_of(1)
      .view(peaks.data(), {segments})
      .run(*bound(segmented, {BN = 8}));
  for (std::int64_t s = 0; s < segments; ++s) {
    double total = 0;
    float peak = -7;
    for (std::int64_t i = starts[at(s)]; i < starts[at(s + 1)]; ++i) {
      total += x[at(i)];
      peak = std::max(peak, x[at(i)]);
    }
    REQUIRE(sums[at(s)] == Approx(total).margin(1e-5));
    REQUIRE(peaks[at(s)] == peak);
  }
}

TEST_CASE("segmented scan with a combine over two tiles") {
  auto scan = [](View<const float, 1> x, View<const bool, 1> heads, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    auto [sums, flags] =
        associative_scan(tie(x.tile(i).load(), heads.tile(i).load()), BN, [](auto a, auto b) {
          auto [x, head_x] = a;
          auto [y, head_y] = b;
          return tie(where(head_y, y, x + y), head_x | head_y);
        });
    y.tile(i).store(sums);
  };
  std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6, NAN);
  bool heads[] = {true, false, false, true, false, true};
  Arguments().view(x.data(), {6}).view(heads, {6}).view(y.data(), {6}).run(*bound(scan, {BN = 6}));
  CHECK(y == std::vector<float>{1, 3, 6, 4, 9, 6});
}

TEST_CASE("Welford's mean and variance as a reduction of three tiles") {
  KILN_RANDOM_SEED();
  auto welford = [](View<const float, 2> x, View<float, 2> out) {
    auto [m] = program_tile(x, BM);
    auto t = x.tile(m, offset(BN, 0)).load();
    auto [mean, m2, n] = reduce(tie(t, zeros<float>(BM, BN), ones<float>(BM, BN)), BN, [](auto a, auto b) {
      auto [mean_a, m2_a, n_a] = a;
      auto [mean_b, m2_b, n_b] = b;
      Scalar n = n_a + n_b;
      Scalar delta = mean_b - mean_a;
      return tie(mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n);
    });
    out.tile(m, 0).store(mean);
    out.tile(m, 1).store(m2 / n);
  };
  auto x = random_values<float>(3 * 10);
  std::vector<float> out(6, NAN);
  Arguments()
      .view(x.data(), {3, 10})
      .view(out.data(), {3, 2})
      .sums_terms_of(1)
      .run(*bound(welford, {BM = 2, BN = 10}));
  for (std::int64_t r = 0; r < 3; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < 10; ++c)
      mean += x[at(r * 10 + c)] / 10;
    for (std::int64_t c = 0; c < 10; ++c)
      var += std::pow(x[at(r * 10 + c)] - mean, 2) / 10;
    REQUIRE(out[at(r * 2)] == Approx(mean).margin(1e-6));
    REQUIRE(out[at(r * 2 + 1)] == Approx(var).margin(1e-6));
  }
}

TEST_CASE("while loops and branches: the Collatz length and a root by bisection") {
  auto collatz = [](View<std::int64_t, 1> x, View<std::int64_t, 1> steps, View<double, 1> root) {
    Scalar i = program_id(0);
    auto [n, count] = while_loop(
        state(x.tile(i).load(), std::int64_t{0}), [](auto n, auto) { return n > 1; },
        [](auto n, auto count) {
          auto next = if_else(n % 2 == 0, [&] { return n / 2; }, [&] { return 3 * n + 1; });
          return state(next, count + 1);
        });
    steps.tile(i).store(count);
    Var<double> low = 0, high = cast<double>(x.tile(i).load());
    while_loop(
        std::int64_t{0}, [](auto k) { return k < 60; },
        [&](auto k) {
          Scalar mid = (low + high) * 0.5;
          if_else(mid * mid * mid < cast<double>(x.tile(i).load()), [&] { low = mid; }, [&] { high = mid; });
          return k + 1;
        });
    root.tile(i).store(low);
  };
  std::vector<std::int64_t> x{1, 6, 7, 27}, steps(4, -1);
  std::vector<double> root(4, -1);
  auto kernel = bound(collatz, {});
  Arguments().view(x.data(), {4}).view(steps.data(), {4}).view(root.data(), {4}).run_on(*kernel, {4});
  CHECK(steps == std::vector<std::int64_t>{0, 8, 16, 111});
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(root[i] == Approx(std::cbrt(static_cast<double>(x[i]))));
}

TEST_CASE("raw pointers: a strided gather and an atomic maximum") {
  auto kernel = [](raw::Ptr<const float> in, raw::Ptr<float> out, raw::Ptr<std::int32_t> most,
                   Scalar<std::int32_t> n, Scalar<std::int64_t> stride) {
    auto i = program_id(0) * BN + arange(BN);
    auto mask = i < n;
    auto t = raw::load(in + i * stride, mask, 1.5f);
    raw::store(out + i, t * 2, mask);
    raw::atomic_max(most, cast<std::int32_t>(sum(cast<std::int32_t>(mask))));
  };
  std::vector<float> in(40), out(20, -1);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i);
  std::int32_t most = 0;
  Arguments()
      .pointer(in.data(), 40)
      .pointer(out.data(), 20)
      .pointer(&most)
      .scalar(std::int32_t{13})
      .scalar(std::int64_t{3})
      .run_on(*bound(kernel, {BN = 8}), {2});
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(out[i] == (i < 13 ? 6.0f * static_cast<float>(i) : -1));
  CHECK(most == 8);
}

TEST_CASE("a box stencil by shifted tiles, edges clamped through gathers") {
  KILN_RANDOM_SEED();
  auto blur = [](View<const std::uint8_t, 3> in, View<std::uint8_t, 3> out) { // height x width x channels
    auto [y, x, c] = program_tile(out, BM, BN, 3_c);
    Tile rows = expand<-1>(expand<-1>(y + arange(BM)));
    Tile cols = expand<-1>(x + arange(BN));
    Tile sum = zeros<std::int32_t>(BM, BN, 3_c);
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        sum += cast<std::int32_t>(in.at(clamp(rows + dy, 0, in.extent(0) - 1),
                                        clamp(cols + dx, 0, in.extent(1) - 1), c + arange(3_c))
                                      .load());
    out.tile(y, x, c).store(cast<std::uint8_t>((sum + 4) / 9));
  };
  std::int64_t height = random_integer(1, 12), width = random_integer(1, 12);
  std::vector<std::uint8_t> in, out(at(height * width * 3));
  for (std::size_t i = 0; i < out.size(); ++i)
    in.push_back(static_cast<std::uint8_t>(random_integer(0, 255)));
  Arguments()
      .view(in.data(), {height, width, 3})
      .view(out.data(), {height, width, 3})
      .run(*bound(blur, {BM = 4, BN = 5}));
  auto clamped = [](std::int64_t i, std::int64_t n) { return std::clamp<std::int64_t>(i, 0, n - 1); };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c) {
        int sum = 4;
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx)
            sum += in[at((clamped(y + dy, height) * width + clamped(x + dx, width)) * 3 + c)];
        REQUIRE(int{out[at((y * width + x) * 3 + c)]} == sum / 9);
      }
}
