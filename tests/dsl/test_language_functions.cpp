// Tests elementwise functions, conversions, shapes and reductions of the language on single values.
#include "language_test.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Compares out[i] = f(x[i], y[i]) with `expected`, which is computed on the host.
template <class T, class F, class G>
void check_elementwise(const F& f, const G& expected, double low = -3, double high = 3) {
  auto kernel = bound(
      [&](View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
        auto [i] = program_tile(out, BN);
        out.tile(i).store(cast<T>(f(x.tile(i).load(), y.tile(i).load())));
      },
      {BN = 16});
  std::int64_t n = random_integer(1, 40);
  std::vector<T> x, y, out(at(n));
  std::uniform_real_distribution<double> numbers(low, high);
  for (std::int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<T>(numbers(random_source())));
    y.push_back(static_cast<T>(numbers(random_source())));
  }
  Arguments().view(x.data(), {n}).view(y.data(), {n}).view(out.data(), {n}).run(*kernel);
  for (std::int64_t i = 0; i < n; ++i)
    REQUIRE(static_cast<double>(out[at(i)]) ==
            Approx(static_cast<double>(expected(x[at(i)], y[at(i)]))).epsilon(1e-5).margin(1e-6));
}
} // namespace

#define CHECK_FUNCTION(LOW, HIGH, TILE, HOST)                                                                \
  {                                                                                                          \
    INFO(#TILE);                                                                                             \
    check_elementwise<float>([](auto x, [[maybe_unused]] auto y) { return TILE; },                           \
                             [](double x, [[maybe_unused]] double y) { return HOST; }, LOW, HIGH);           \
  }
#define CHECK_INTEGERS(TILE, HOST)                                                                           \
  {                                                                                                          \
    INFO(#TILE);                                                                                             \
    check_elementwise<std::int32_t>([](auto x, [[maybe_unused]] auto y) { return TILE; },                    \
                                    [](std::int32_t x, [[maybe_unused]] std::int32_t y) { return HOST; },    \
                                    -1000, 1000);                                                            \
  }

TEST_CASE("float functions agree with the host") {
  KILN_RANDOM_SEED();
  CHECK_FUNCTION(-3, 3, exp(x), std::exp(x));
  CHECK_FUNCTION(-3, 3, exp2(x), std::exp2(x));
  CHECK_FUNCTION(-3, 3, expm1(x), std::expm1(x));
  CHECK_FUNCTION(0.1, 9, log(x), std::log(x));
  CHECK_FUNCTION(0.1, 9, log2(x), std::log2(x));
  CHECK_FUNCTION(-0.9, 9, log1p(x), std::log1p(x));
  CHECK_FUNCTION(-3, 3, sin(x), std::sin(x));
  CHECK_FUNCTION(-3, 3, cos(x), std::cos(x));
  CHECK_FUNCTION(-1, 1, tan(x), std::tan(x));
  CHECK_FUNCTION(-3, 3, tanh(x), std::tanh(x));
  CHECK_FUNCTION(-3, 3, erf(x), std::erf(x));
  CHECK_FUNCTION(-3, 3, sigmoid(x), 1 / (1 + std::exp(-x)));
  CHECK_FUNCTION(0, 9, sqrt(x), std::sqrt(x));
  CHECK_FUNCTION(0.1, 9, rsqrt(x), 1 / std::sqrt(x));
  CHECK_FUNCTION(-9, 9, floor(x), std::floor(x));
  CHECK_FUNCTION(-9, 9, ceil(x), std::ceil(x));
  CHECK_FUNCTION(-9, 9, trunc(x), std::trunc(x));
  CHECK_FUNCTION(-9, 9, round(x), std::nearbyint(x));
  CHECK_FUNCTION(0.1, 3, pow(x, y), std::pow(x, y));
  CHECK_FUNCTION(-3, 3, atan2(x, y), std::atan2(x, y));
  CHECK_FUNCTION(-3, 3, fma(x, y, 2.0f), x * y + 2);
  CHECK_FUNCTION(-3, 3, min(x, y), std::min(x, y));
  CHECK_FUNCTION(-3, 3, maximum(x, 0.5f), std::max(x, 0.5));
  CHECK_FUNCTION(-3, 3, clamp(x, -1, 1), std::clamp(x, -1.0, 1.0));
  CHECK_FUNCTION(-3, 3, relu(x), std::max(x, 0.0));
  CHECK_FUNCTION(-3, 3, silu(x), x / (1 + std::exp(-x)));
  CHECK_FUNCTION(-3, 3, gelu(x), 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
  CHECK_FUNCTION(-3, 3, abs(-x), std::fabs(x));
  CHECK_FUNCTION(-3, 3, where(x < y, x, 1), x < y ? x : 1);
  CHECK_FUNCTION(-3, 3, where((!(x < y)) | (x > 1), 2.0f, y), !(x < y) || x > 1 ? 2 : y);
  CHECK_FUNCTION(-3, 3, cast<float>(cast<std::int32_t>(x)), std::trunc(x));
  CHECK_FUNCTION(-3, 3, bitcast<float>(bitcast<std::uint32_t>(x) ^ 0x80000000u), -x);
  CHECK_FUNCTION(-3, 3, where(isnan(x / 0 * 0), 1.0f, 0.0f), 1.0);
  CHECK_FUNCTION(1, 3, where(isinf(x / 0), 1.0f, 0.0f), 1.0);
}

TEST_CASE("integer operators agree with the host") {
  KILN_RANDOM_SEED();
  CHECK_INTEGERS(x + y * 3 - 1, x + y * 3 - 1);
  CHECK_INTEGERS(x / 7, x / 7);
  CHECK_INTEGERS(x % 7, x % 7);
  CHECK_INTEGERS((x & y) | (x ^ 5), (x & y) | (x ^ 5));
  CHECK_INTEGERS(~x, ~x);
  CHECK_INTEGERS(x << 3, static_cast<std::int32_t>(static_cast<std::uint32_t>(x) << 3));
  CHECK_INTEGERS(x >> 2, x >> 2);
  CHECK_INTEGERS(popcount(x), __builtin_popcount(static_cast<unsigned>(x)));
  CHECK_INTEGERS(cdiv(abs(x), 7), (std::abs(x) + 6) / 7);
  CHECK_INTEGERS(
      mul_hi(x * 1000000, y),
      static_cast<std::int32_t>(
          (std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(x) * 1000000u)} * y) >> 32));
  CHECK_INTEGERS(cast<std::int32_t>(x == y) + cast<std::int32_t>(x != y), 1);
  CHECK_INTEGERS((x > 0) + (y >= 0) + (x <= y), (x > 0) + (y >= 0) + (x <= y));
}

TEST_CASE("shapes move elements, reductions remove axes") {
  KILN_RANDOM_SEED();
  auto kernel = bound(
      [](View<const float, 2> x, View<float, 2> out) {
        auto [m, n] = program_tile(x, BM, BN);
        Tile t = x.tile(m, n).load();
        Tile flat = flatten(t);
        Tile back = reshape(flat, BM, BN);
        Tile wide = permute<2, 0, 1>(expand<0>(back)); // [BN, 1, BM]
        Tile again = trans(squeeze<1>(wide));
        Tile scaled = again * expand(sum(again, BN), axis<1>) + max(again, BM, keep) -
                      broadcast(min(again, axis<-2>), BM, BN);
        out.tile(m, n).store(scaled + prod(full(2.0f, BM)) + sum(t));
      },
      {BM = 3, BN = 4});
  auto x = random_values<float>(12);
  std::vector<float> out(12, NAN);
  Arguments().view(x.data(), {3, 4}).view(out.data(), {3, 4}).run(*kernel);
  double total = 0;
  for (float v : x)
    total += v;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) {
      double sum = 0;
      float high = -9, low = 9;
      for (int i = 0; i < 4; ++i)
        sum += x[at(r * 4 + i)];
      for (int i = 0; i < 3; ++i) {
        high = std::max(high, x[at(i * 4 + c)]);
        low = std::min(low, x[at(i * 4 + c)]);
      }
      REQUIRE(out[at(r * 4 + c)] == Approx(x[at(r * 4 + c)] * sum + high - low + 8 + total).margin(1e-5));
    }
}

TEST_CASE("bools: any, all, sums that count, and other for elements outside of the view") {
  auto kernel = bound(
      [](View<const bool, 2> x, View<std::int32_t, 2> out) {
        auto [m] = program_tile(x, BM);
        auto t = x.tile(m, offset(BN, 0)).load_or(true);
        out.tile(m, 0).store(sum(t, BN));
        out.tile(m, 1).store(cast<std::int32_t>(any(t, BN)) + 2 * cast<std::int32_t>(all(t, BN)));
        out.tile(m, 2).store(where(xor_sum(t, BN), 1, 0));
      },
      {BM = 2, BN = 4});
  bool x[] = {true, false, true, false, false, false, true, true, true};
  std::vector<std::int32_t> out(9, -1);
  Arguments().view(x, {3, 3}).view(out.data(), {3, 3}).run(*kernel);
  CHECK(out == std::vector<std::int32_t>{3, 1, 1, 1, 1, 1, 4, 3, 0});
}

TEST_CASE("atomics of every kind on tiles and single elements") {
  auto kernel = bound(
      [](View<std::int32_t, 1> x, View<std::int32_t, 1> old) {
        auto i = offset(BN, 0);
        Tile n = arange(BN);
        old.tile(i).store(x.tile(i).atomic_add(n, n != 1));
        x.tile(i).atomic_min(2);
        x.tile(i).atomic_max(n - 1);
        x.at(3).atomic_exchange(40);
        x.at(n).atomic_or(1, n < 2, {.order = Order::relaxed, .scope = Scope::cta});
        x.tile(i).atomic_and(0xff);
        x.at(0).atomic_xor(6);
        x.at(2).atomic_compare_exchange(2, 77);
      },
      {BN = 8}); // wider than the views
  std::vector<std::int32_t> x{5, 6, 7, 8}, old(4, -1);
  Arguments().view(x.data(), {4}).view(old.data(), {4}).run_on(*kernel, {1});
  CHECK(old == std::vector<std::int32_t>{5, 0, 7, 8});
  CHECK(x == std::vector<std::int32_t>{5, 3, 77, 40});
}

TEST_CASE("gathers and scatters through two views") {
  auto kernel = bound(
      [](View<const float, 2> table, View<const std::int64_t, 1> rows, View<float, 2> out) {
        auto [i, j] = program_tile(out, BM, BN);
        auto row = rows.tile(i).load_or(-1);
        out.at(expand<1>(i + arange(BM)), j + arange(BN))
            .store(table.at(expand<1>(row), j + arange(BN)).load_or(-1.0f));
      },
      {BM = 2, BN = 3});
  std::vector<float> table{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}, out(9, NAN);
  std::vector<std::int64_t> rows{3, 7, 0};
  Arguments().view(table.data(), {4, 3}).view(rows.data(), {3}).view(out.data(), {3, 3}).run(*kernel);
  CHECK(out == std::vector<float>{30, 31, 32, -1, -1, -1, 0, 1, 2});
}

TEST_CASE("a constant dimension is an integer literal as in C++") {
  const auto size = []<std::int64_t N>(Constant<N>) { return N; };
  CHECK(size(1'024_c) == 1024);
  CHECK(size(0x1F_c) == 31);
  CHECK(size(0X10_c) == 16);
  CHECK(size(0b101_c) == 5);
  CHECK(size(0B1'000_c) == 8);
  CHECK(size(010_c) == 8);
  CHECK(size(9'223'372'036'854'775'807_c) == INT64_MAX);
  CHECK(size(7_c) == 7);
}
