// Tests corner cases of the language on the CPU and in the interpreter: division rounded up, small floats of
// the host as operands, loops without iterations, and the tail of gelu.
#include "exact_gelu.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

using namespace kiln;

KILN_DIM(BN);

namespace {

std::mt19937_64& random_source(std::uint64_t seed) {
  static std::mt19937_64 source;
  source.seed(seed);
  return source;
}

// Runs a kernel with inputs x..., on the CPU and in the interpreter, and returns both results.
template <class Y, class K, class... X>
std::vector<std::vector<Y>> both(const K& kernel, std::vector<X>&... x) {
  const std::size_t n = std::min({x.size()...});
  std::vector<Y> launched(n), interpreted(n);
  Stream stream;
  kernel.launch(stream, {BN = 8}, TensorView<const X, 1>(x)..., TensorView(launched));
  stream.synchronize();
  kernel.interpret({BN = 8}, TensorView<const X, 1>(x)..., TensorView(interpreted));
  return {launched, interpreted};
}

template <class T> long double ceiling(T a, T b) {
  if (b == 0) return 0;
  long double quotient = std::ceil(static_cast<long double>(a) / static_cast<long double>(b));
  return quotient;
}

template <class T> std::vector<T> mixed(std::mt19937_64& source, std::size_t n) {
  std::uniform_int_distribution<int> small(std::is_signed_v<T> ? -9 : 0, 9);
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i)
    values.push_back(i % 4 == 3 ? static_cast<T>(source() % 1'000'000'007) : static_cast<T>(small(source)));
  return values;
}

template <class T> void check_cdiv(std::mt19937_64& source) {
  const auto divide = kernel("divide", [](View<const T, 1> a, View<const T, 1> b, View<T, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(cdiv(a.tile(i).load(), b.tile(i).load()));
  });
  const auto by_four = kernel("by_four", [](View<const T, 1> a, View<T, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(cdiv(a.tile(i).load(), 4));
  });
  auto a = mixed<T>(source, 203), b = mixed<T>(source, 203);
  for (const auto& out : both<T>(divide, a, b))
    for (std::size_t i = 0; i < out.size(); ++i) {
      CAPTURE(+a[i], +b[i]);
      REQUIRE(out[i] == static_cast<T>(ceiling(a[i], b[i])));
    }
  for (const auto& out : both<T>(by_four, a))
    for (std::size_t i = 0; i < out.size(); ++i) {
      CAPTURE(+a[i]);
      REQUIRE(out[i] == static_cast<T>(ceiling(a[i], T{4})));
    }
}

} // namespace

TEST_CASE("cdiv rounds up, whatever the signs") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  auto& source = random_source(seed);
  check_cdiv<std::int8_t>(source);
  check_cdiv<std::int32_t>(source);
  check_cdiv<std::int64_t>(source);
  check_cdiv<std::uint8_t>(source);
  check_cdiv<std::uint64_t>(source);
  std::vector<std::int32_t> a = {-7, 7, -7, 7, -1, 1, -6, 6, -8, 5}, b = {2, -2, -2, 2, 3, -3, 4, -4, 2, 0};
  const auto divide = kernel(
      "divide", [](View<const std::int32_t, 1> x, View<const std::int32_t, 1> y, View<std::int32_t, 1> out) {
        auto [i] = program_tile(out, BN);
        out.tile(i).store(cdiv(x.tile(i).load(), y.tile(i).load()));
      });
  for (const auto& out : both<std::int32_t>(divide, a, b))
    REQUIRE(out == std::vector<std::int32_t>{-3, -3, 4, 4, 0, 0, -1, -1, -4, 0});
}

TEMPLATE_TEST_CASE("small floats of the host can be operands", "", f16, bf16, f8e4m3, f8e5m2) {
  using T = TestType;
  const auto uses = kernel("uses", [](View<const T, 1> x, View<T, 1> y) {
    auto [i] = program_tile(y, BN);
    auto t = x.tile(i).load_or(T(0));
    Scalar<T> two = T(2);
    Var<T> one = T(1);
    // No intermediate sum needs more than the three significant bits of f8e5m2.
    auto sum =
        max(t * T(2), T(0)) + full(T(1), BN) + where(t > T(0.5f), t, T(0)) + where(t > T(2), T(1), T(0));
    auto more = sum + two + one + T(1) * clamp(t, t, T(7)) - T(1) + full<T>(T(1), BN);
    y.tile(i).store(more);
    if_then(x.size() < 0, [&] { y.tile(i).store(T(1)); });
  });
  std::vector<T> x(21, T(1));
  for (const auto& y : both<T>(uses, x))
    for (T v : y)
      REQUIRE(v == T(8));
}

TEST_CASE("a small float of the host keeps its own rounded value next to a wider tile") {
  const auto scale = kernel("scale", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * bf16(0.3f) + f8e4m3(0.3f));
  });
  std::vector<float> x(9, 2);
  for (const auto& y : both<float>(scale, x))
    REQUIRE(y ==
            std::vector<float>(9, 2 * static_cast<float>(bf16(0.3f)) + static_cast<float>(f8e4m3(0.3f))));
}

TEST_CASE("small floats of the host are assigned and compared") {
  std::vector<f16> y(20, f16(1));
  TensorView<f16, 1> v(y);
  Stream stream;
  assign(stream, v, f16(2.5f));
  assign(stream, v, v * f16(2));
  stream.synchronize();
  REQUIRE(y == std::vector<f16>(20, f16(5)));
  REQUIRE(static_cast<double>(y[0]) == 5.0);
  REQUIRE(f16(1) < f16(2));
  REQUIRE(bf16(-1) >= bf16(-2));
  REQUIRE(f8e5m2(0.0f) == f8e5m2(-0.0f));
  REQUIRE_FALSE(f8e4m3(NAN) == f8e4m3(NAN));
  REQUIRE(f16(NAN) != f16(NAN));
}

TEST_CASE("a loop whose step is not positive has no iterations") {
  for (std::int64_t step : {0, -1, -4}) {
    const auto loop = kernel("loop", [step](View<const std::int64_t, 1> x, View<std::int64_t, 1> y) {
      auto count = [](auto, auto n) { return n + 1; };
      Scalar<std::int64_t> zero = 0, first = x.at(0).load();
      y.at(0).store(for_range(0, x.size(), x.at(1).load(), zero, count));     // known at run time
      y.at(1).store(for_range(0, x.size(), step, zero, count));               // known while recording
      y.at(2).store(for_range(x.size(), 0, x.at(1).load(), zero + 7, count)); // an empty range in addition
      y.at(3).store(for_range(first, first + 5, 2, zero, count));             // a valid loop
    });
    std::vector<std::int64_t> x = {3, step, 0, 0}, y(4, -1), z(4, -1);
    Stream stream;
    loop.launch(stream, {}, Grid{1}, TensorView<const std::int64_t, 1>(x), TensorView(y));
    stream.synchronize();
    loop.interpret({}, Grid{1}, TensorView<const std::int64_t, 1>(x), TensorView(z));
    REQUIRE(y == std::vector<std::int64_t>{0, 0, 7, 3});
    REQUIRE(z == y);
  }
}

TEMPLATE_TEST_CASE("gelu is accurate relative to its value, also in the tail", "", float, double) {
  using T = TestType;
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  auto& source = random_source(seed);
  const auto activate = kernel("gelu", [](View<const T, 1> x, View<T, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(gelu(x.tile(i).load()));
  });
  const bool wide = sizeof(T) == 8;
  std::uniform_real_distribution<T> values(wide ? -39 : -15, wide ? 39 : 15), near(-1, 1);
  std::vector<T> x = {
      0, T(-0.0), INFINITY, NAN, std::numeric_limits<T>::max(), -std::numeric_limits<T>::max(), -INFINITY};
  for (int i = 0; i < 4000; ++i)
    x.push_back(i % 4 ? values(source) : near(source) * std::exp2(static_cast<T>(-(i % 40))));
  constexpr int digits = std::numeric_limits<T>::digits;
  for (const auto& y : both<T>(activate, x)) {
    REQUIRE(y[0] == 0);
    REQUIRE(std::signbit(y[1]));
    REQUIRE(y[2] == INFINITY);
    REQUIRE(std::isnan(y[3]));
    REQUIRE(y[4] == x[4]);
    REQUIRE(y[5] == 0);
    REQUIRE((y[6] == 0 && std::signbit(y[6])));
    for (std::size_t i = 7; i < x.size(); ++i) {
      const long double v = x[i];
      // erfc of long double has more digits than needed.
      const long double expected = test::exact_gelu(v);
      const int exponent = std::max(std::ilogb(expected), std::numeric_limits<T>::min_exponent - 1);
      CAPTURE(x[i], y[i], expected);
      REQUIRE(std::fabs(y[i] - expected) <= 8 * std::ldexp(1.0L, exponent + 1 - digits));
    }
  }
}

TEMPLATE_TEST_CASE("gelu and silu of small floats round once", "", f16, bf16) {
  using T = TestType;
  const auto activate = kernel("activate", [](View<const T, 1> x, View<const bool, 1> gated, View<T, 1> y) {
    auto [i] = program_tile(y, BN);
    auto t = x.tile(i).load();
    y.tile(i).store(where(gated.tile(i).load(), silu(t), gelu(t)));
  });
  std::vector<T> x;
  for (float v = -9; v < 9; v += 0.0371f)
    x.insert(x.end(), 2, T(v));
  const std::size_t n = x.size();
  const std::unique_ptr<bool[]> gated(new bool[n]);
  for (std::size_t i = 0; i < n; ++i)
    gated[i] = i % 2;
  TensorView<const bool, 1> gates(gated.get(), {static_cast<std::int64_t>(n)});
  for (bool launched : {true, false}) {
    std::vector<T> y(n);
    Stream stream;
    TensorView<const T, 1> in(x);
    TensorView<T, 1> out(y);
    if (launched)
      activate.launch(stream, {BN = 16}, in, gates, out);
    else
      activate.interpret({BN = 16}, in, gates, out);
    stream.synchronize();
    for (std::size_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]);
      const double expected = gated[i] ? v / (1 + std::exp(-v)) : v * 0.5 * std::erfc(-v / std::sqrt(2.0));
      const T above(static_cast<float>(expected * (1 + 1e-6))),
          below(static_cast<float>(expected * (1 - 1e-6)));
      CAPTURE(v, static_cast<double>(y[i]), expected);
      REQUIRE((y[i] == above || y[i] == below));
    }
  }
}
