// Compares dropout and the gradients of activations with double precision.
#include "strided.h"

#include <kiln/kiln.h>

#include <vector>

using namespace kiln;
using namespace kiln::test;

namespace {

template <class T, class U> struct Pair {
  using in = T;
  using out = U;
  static constexpr double tolerance = std::is_same_v<U, bf16>                                  ? 0x1p-7
                                      : std::is_same_v<U, f16>                                 ? 0x1p-9
                                      : std::is_same_v<U, double> && std::is_same_v<T, double> ? 1e-13
                                                                                               : 2e-5;
};
#define KILN_PAIRS                                                                                           \
  (Pair<float, float>), (Pair<bf16, float>), (Pair<float, bf16>), (Pair<f16, f16>), (Pair<double, double>)

bool emulated() { return test_device().is_emulated(); }

// The activation of x, and by finite differences its derivative.
double activated(ops::Activation f, double x) {
  switch (f) {
  case ops::Activation::relu: return std::max(x, 0.0);
  case ops::Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case ops::Activation::silu: return x / (1 + std::exp(-x));
  case ops::Activation::none: break;
  }
  return x;
}
double derivative(ops::Activation f, double x) {
  if (f == ops::Activation::relu) return x > 0;
  const double h = 1e-3; // Richardson's extrapolation, whose error is of the order h^4
  const auto slope = [&](double step) {
    return (activated(f, x + step) - activated(f, x - step)) / (2 * step);
  };
  return (4 * slope(h / 2) - slope(h)) / 3;
}

std::array<std::int64_t, 4> random_extents(Random& random) {
  return {random.integer(1, 4), random.integer(1, 4), random.integer(1, 5),
          random.integer(1, emulated() ? 100 : 700)};
}

} // namespace

TEMPLATE_TEST_CASE("gradients of activations, and of gated ones", "", KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  const double tolerance = std::max(P::tolerance, 1e-10); // of the differences
  for (int i = 0; i < 4; ++i) {
    const auto f = static_cast<ops::Activation>(i);
    const auto e = random_extents(random);
    Strided<typename P::in, 4> gate(random, e, uniform(random, -4, 4)), dy(random, e, uniform(random, -1, 1));
    Strided<float, 4> up(random, e, uniform(random, -2, 2));
    Strided<typename P::out, 4> dx(random, e), dgate(random, e), dup(random, e);
    INFO(ops::name(f) << ", " << gate.layout() << "; " << dy.layout() << "; " << dgate.layout());
    on_test_device([&](Stream& s, auto x, auto dy, auto dx) { ops::activation_backward(s, x, dy, dx, f); },
                   gate.view, dy.view, dx.view);
    dx.check(tolerance, [&](auto... at) { return dy(at...) * derivative(f, gate(at...)); });
    const bool to_gate = random.integer(0, 3) > 0, to_up = random.integer(0, 3) > 0 || !to_gate;
    on_test_device(
        [&](Stream& s, auto gate, auto up, auto dy, auto dgate, auto dup) {
          ops::activation_mul_backward(s, gate, up, dy, to_gate ? ops::Output(dgate) : ops::Output(),
                                       to_up ? ops::Output(dup) : ops::Output(), f);
        },
        gate.view, up.view, dy.view, dgate.view, dup.view);
    if (to_gate)
      dgate.check(tolerance, [&](auto... at) { return dy(at...) * up(at...) * derivative(f, gate(at...)); });
    if (to_up) dup.check(tolerance, [&](auto... at) { return dy(at...) * activated(f, gate(at...)); });
  }
}

TEST_CASE("the gradients of a gated activation replace its arguments") {
  Random random;
  KILN_SEED(random);
  Strided<float, 2> gate(random, {5, 300}, uniform(random, -4, 4)),
      up(random, {5, 300}, uniform(random, -1, 1)), dy(random, {5, 300}, uniform(random, -1, 1));
  std::vector<double> of_gate, of_up;
  gate.each([&](auto... at) {
    of_gate.push_back(dy(at...) * up(at...) * derivative(ops::Activation::silu, gate(at...)));
    of_up.push_back(dy(at...) * activated(ops::Activation::silu, gate(at...)));
  });
  on_test_device(
      [](Stream& s, auto gate, auto up, auto dy) { ops::activation_mul_backward(s, gate, up, dy, gate, up); },
      gate.view, up.view, dy.view);
  gate.check(2e-5, [&](auto r, auto c) { return of_gate[static_cast<std::size_t>(300 * r + c)]; });
  up.check(2e-5, [&](auto r, auto c) { return of_up[static_cast<std::size_t>(300 * r + c)]; });
}

TEST_CASE("relu has the derivative 0 at 0") {
  std::vector<float> x = {-1, 0, -0.0f, 2}, dx(4);
  TensorView<const float, 1> of_x(x);
  on_test_device(
      [](Stream& s, auto x, auto dx) { ops::activation_backward(s, x, x, dx, ops::Activation::relu); }, of_x,
      TensorView<float, 1>(dx));
  CHECK(dx == std::vector<float>{0, 0, 0, 2});
}

TEMPLATE_TEST_CASE("dropout depends on the seed and the number of the element alone", "", KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < 2; ++i) {
    const auto e = random_extents(random);
    const double p = i == 0 ? 0.25 : random.uniform(0, 1);
    const std::uint64_t seed =
        i == 0 ? 0xfedcba9876543210 : static_cast<std::uint64_t>(random.integer(0, 1 << 20));
    Strided<typename P::in, 4> x(random, e, uniform(random, 1, 2));
    Strided<typename P::out, 4> y(random, e);
    INFO("probability " << p << ", seed " << seed << ", " << x.layout() << "; " << y.layout());
    on_test_device(
        [&](Stream& s, auto x, auto y) { ops::dropout(s, x, y, {.probability = p, .seed = seed}); }, x.view,
        y.view);
    // The random numbers by a whole-tensor expression of the language.
    const std::int64_t size = e[0] * e[1] * e[2] * e[3];
    std::vector<std::int64_t> number(static_cast<std::size_t>(size));
    std::iota(number.begin(), number.end(), 0);
    std::vector<float> u(number.size());
    static const auto numbers = kernel(
        "numbers", [](View<const std::int64_t, 1> number, Scalar<std::int64_t> seed, View<float, 1> u) {
          auto [at] = program_tile(u, ops::BN);
          u.tile(at).store(rand(seed, number.tile(at).load()));
        });
    numbers.interpret({ops::BN = 64}, TensorView<const std::int64_t, 1>(number),
                      static_cast<std::int64_t>(seed), TensorView<float, 1>(u));
    std::int64_t zeros = 0;
    y.check(P::tolerance, [&](auto a, auto b, auto c, auto d) {
      const auto index = static_cast<std::size_t>(((a * e[1] + b) * e[2] + c) * e[3] + d);
      const bool dropped = u[index] < static_cast<float>(p);
      return dropped ? 0 : x(a, b, c, d) / (1 - p);
    });
    y.each([&](auto... at) { zeros += y(at...) == 0; });
    const double deviation = std::sqrt(p * (1 - p) * static_cast<double>(size));
    CHECK(std::abs(static_cast<double>(zeros) - p * static_cast<double>(size)) <= 6 * deviation + 1);
  }
}

TEST_CASE("dropout with probability 0 copies, and with 1 gives zeros") {
  Random random;
  KILN_SEED(random);
  Strided<float, 2> x(random, {7, 30}, uniform(random, 1, 2)), y(random, {7, 30});
  for (const double p : {0.0, 1.0}) {
    on_test_device([&](Stream& s, auto x, auto y) { ops::dropout(s, x, y, {.probability = p}); }, x.view,
                   y.view);
    y.check(0, [&](auto... at) { return p == 0 ? x(at...) : 0; });
  }
}

TEST_CASE("dropout of a part of a tensor drops the elements that dropout of the whole tensor drops") {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 2; ++i) {
    const auto e = random_extents(random);
    Strided<float, 4> x(random, e, uniform(random, 1, 2)), whole(random, e), rows(random, e),
        columns(random, e);
    const std::int64_t row = random.integer(0, static_cast<int>(e[0])),
                       column = i == 0 ? 1 : random.integer(0, static_cast<int>(e[3]));
    INFO("row " << row << ", column " << column << ", " << x.layout() << "; " << columns.layout());
    on_test_device(
        [&](Stream& s, auto x, auto whole, auto rows, auto columns) {
          const ops::DropoutOptions options{.probability = 0.4, .seed = 17};
          ops::dropout(s, x, whole, options);
          const auto part = [&](auto x, auto y, std::int64_t first, std::int64_t whole_columns) {
            ops::DropoutOptions of_part = options;
            of_part.first = first, of_part.whole_columns = whole_columns;
            ops::dropout(s, x, y, of_part);
          };
          for (const auto& [begin, end] : {std::pair{std::int64_t{0}, row}, {row, e[0]}})
            part(x.slice(0, begin, end), rows.slice(0, begin, end), begin * e[1] * e[2] * e[3], 0);
          for (const auto& [begin, end] : {std::pair{std::int64_t{0}, column}, {column, e[3]}})
            part(x.slice(3, begin, end), columns.slice(3, begin, end), begin, e[3]);
        },
        x.view, whole.view, rows.view, columns.view);
    rows.check(0, [&](auto... at) { return whole(at...); });
    columns.check(0, [&](auto... at) { return whole(at...); });
  }
}

TEST_CASE("elementwise gradients and dropout refuse arguments that do not fit, and name them") {
  Stream stream;
  auto x = Tensor<float, 2>::zeros({4, 5}), y = Tensor<float, 2>::zeros({4, 5}),
       z = Tensor<float, 2>::zeros({4, 6});
  const auto says = [](const auto& call, const char* text) {
    CHECK_THROWS_WITH(call(), Catch::Contains(text));
  };
  const auto late = TensorView<float, 2>(x.data() + 1, {3, 5}),
             early = TensorView<float, 2>(x.data(), {3, 5});
  says([&] { ops::activation_backward(stream, x, z, y, ops::Activation::relu); },
       "ops::activation_backward: dy, {4, 6}, does not broadcast to dx, {4, 5}");
  says([&] { ops::activation_mul_backward(stream, x, z, x, y, {}); },
       "ops::activation_mul_backward: gate has extents {4, 5} and up {4, 6}");
  says([&] { ops::activation_mul_backward(stream, x, x, x, {}, {}); },
       "no result is given; pass dgate or dup");
  says([&] { ops::activation_mul_backward(stream, x, x, x, y, y); }, "dup overlaps dgate");
  says([&] { ops::activation_mul_backward(stream, early, early, early, late, {}); },
       "dgate overlaps gate without being the same");
  says([&] { ops::dropout(stream, x, z); }, "ops::dropout: x has extents {4, 5} and y {4, 6}");
  says([&] { ops::dropout(stream, early, late); }, "y overlaps x without being the same");
  says([&] { ops::dropout(stream, x, y, {.probability = 1.5}); }, "the probability must be from 0 to 1");
  says([&] { ops::dropout(stream, x, y, {.probability = NAN}); }, "the probability must be from 0 to 1");
  says([&] { ops::dropout(stream, x, y, {.first = -1}); }, "first is negative");
  says([&] { ops::dropout(stream, x, y, {.whole_columns = 4}); }, "whole_columns is less than x's columns");
  stream.synchronize();
}
