// Compares the derivatives that are taken while recording with finite differences, in the interpreter.
#include "language_test.h"
#include "random_numbers.h"

#include <kiln/dsl/detail/gradient.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BN);

namespace {

using Block = Tile<double, BN>;
constexpr std::int64_t count = 64;

// Runs result = f(x, other) and slope = d df/dx, for d = 1 + x / 4, and compares the slope with a difference
// quotient. Values of x are drawn from `low` to `high`.
template <class F> void check_derivative(const char* name, double low, double high, const F& f) {
  INFO(name);
  Random random;
  KILN_SEED(random);
  std::vector<double> x(count), other(count), result(count), slope(count), above(count), below(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = random.uniform(low, high), other[i] = random.uniform(0.5, 2);
  const auto kernel = bound(
      [&](View<const double, 1> x, View<const double, 1> other, View<double, 1> result,
          View<double, 1> slope) {
        auto [i] = program_tile(x, BN);
        Block t = x.tile(i).load(), o = other.tile(i).load();
        Block y = f(t, o);
        Block d = t * 0.25 + 1.0;
        result.tile(i).store(y);
        slope.tile(i).store(Block(detail::emit_gradient(y.record(), t.record(), d.record(), "the test")));
      },
      {BN = 16});
  const auto run = [&](std::vector<double>& at, std::vector<double>& values) {
    Arguments()
        .view(at.data(), {count})
        .view(other.data(), {count})
        .view(values.data(), {count})
        .view(slope.data(), {count})
        .run_on(*kernel, {count / 16});
  };
  constexpr double h = 1e-6;
  auto moved = x;
  for (double& v : moved)
    v += h;
  run(moved, above);
  moved = x;
  for (double& v : moved)
    v -= h;
  run(moved, below);
  run(x, result);
  for (std::size_t i = 0; i < count; ++i) {
    const double quotient = (above[i] - below[i]) / (2 * h) * (1 + x[i] / 4);
    INFO("x " << x[i] << ", other " << other[i]);
    CHECK(std::abs(slope[i] - quotient) <= 1e-6 * (1 + std::abs(quotient)));
  }
}

} // namespace

TEST_CASE("each elementwise function has the derivative of its difference quotient") {
#define KILN_CHECK(low, high, expression)                                                                    \
  check_derivative(#expression, low, high, [](const Block& x, const Block& o) -> Block { return expression; })
  KILN_CHECK(-3, 3, -x);
  KILN_CHECK(-3, 3, abs(x));
  KILN_CHECK(-3, 3, exp(x));
  KILN_CHECK(-3, 3, exp2(x));
  KILN_CHECK(-3, 3, expm1(x));
  KILN_CHECK(0.2, 3, log(x));
  KILN_CHECK(0.2, 3, log2(x));
  KILN_CHECK(-0.5, 3, log1p(x));
  KILN_CHECK(-3, 3, sin(x));
  KILN_CHECK(-3, 3, cos(x));
  KILN_CHECK(-1, 1, tan(x));
  KILN_CHECK(-3, 3, tanh(x));
  KILN_CHECK(-3, 3, erf(x));
  KILN_CHECK(-3, 3, sigmoid(x));
  KILN_CHECK(-3, 3, gelu(x));
  KILN_CHECK(-3, 3, silu(x));
  KILN_CHECK(0.2, 3, sqrt(x));
  KILN_CHECK(0.2, 3, rsqrt(x));
  KILN_CHECK(0.1, 0.9, floor(x) + ceil(x) + trunc(x) + round(x * 0.4));
  KILN_CHECK(-3, 3, x + o);
  KILN_CHECK(-3, 3, o - x);
  KILN_CHECK(-3, 3, x * o);
  KILN_CHECK(-3, 3, x / o);
  KILN_CHECK(0.3, 3, o / x);
  KILN_CHECK(0.3, 3, pow(x, o));
  KILN_CHECK(0.3, 3, pow(o, x));
  KILN_CHECK(-3, 3, atan2(x, o));
  KILN_CHECK(-3, 3, atan2(o, x));
  KILN_CHECK(-3, 3, min(x, o));
  KILN_CHECK(-3, 3, max(o, x));
  KILN_CHECK(-3, 3, relu(x) + clamp(x, -1.0, o));
  KILN_CHECK(-3, 3, fma(x, o, x) + fma(o, o, x));
  KILN_CHECK(-3, 3, where(x > o, x * x, sin(x)));
  KILN_CHECK(2.1, 2.9, x % (o * 0.0 + 1.0));
  KILN_CHECK(-3, 3, o + 1.0); // does not depend on x
  KILN_CHECK(-3, 3, x);
  KILN_CHECK(-3, 3, cast<double>(cast<std::int32_t>(o)) * x);
#undef KILN_CHECK
}

TEST_CASE("derivatives of compositions in which values are used several times") {
  check_derivative("soft cap", -30, 30, [](const Block& x, const Block&) { return 20.0 * tanh(x / 20.0); });
  check_derivative("chain", -1, 1, [](const Block& x, const Block& o) {
    Block a = x * o;
    Block b = a * sin(a) + exp(-a * a);
    Block c = where(b > 0.5, b * a, sigmoid(b) + a);
    return Block(c * c / (1.0 + abs(x)) + b);
  });
}

TEST_CASE("a gradient through an operation that is not elementwise is an error with its line") {
  const auto gradient_of = [](const auto& f) {
    return record("test", [&](View<double, 1> x) {
      auto [i] = program_tile(x, BN);
      Block t = x.tile(i).load();
      Block y = f(t);
      x.tile(i).store(Block(detail::emit_gradient(y.record(), t.record(), y.record(), "the score")));
    });
  };
  CHECK_THROWS_WITH(gradient_of([](const Block& t) { return Block(t - sum(t, BN, keep)); }),
                    Catch::Contains("the score has no derivative, because it uses"));
  CHECK_THROWS_WITH(
      gradient_of([](const Block& t) { return for_range(0, 3, 1, t, [&](auto, auto s) { return s * t; }); }),
      Catch::Contains("because it uses for"));
  CHECK_NOTHROW(gradient_of([](const Block& t) { return Block(t * 2.0); }));
}
