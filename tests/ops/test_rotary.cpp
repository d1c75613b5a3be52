// Compares rotary embedding and its gradient with double precision.
#include "strided.h"

#include <kiln/kiln.h>

using namespace kiln;
using namespace kiln::test;

namespace {

struct Rotated {
  std::int64_t width;
  bool interleaved;
  std::function<double(std::int64_t pair, std::int64_t position)> cos, sin;
  double direction = 1;

  // Element e of a head, of which at(i) returns element i.
  template <class F> double operator()(const F& at, std::int64_t position, std::int64_t e) const {
    if (e >= width) return at(e);
    const std::int64_t half = width / 2, pair = interleaved ? e / 2 : e % half;
    const bool second = interleaved ? e % 2 : e >= half;
    const double x = at(interleaved ? 2 * pair : pair), y = at(interleaved ? 2 * pair + 1 : pair + half);
    const double c = cos(pair, position), s = direction * sin(pair, position);
    return second ? y * c + x * s : x * c - y * s;
  }
};

Rotated by_theta(std::int64_t width, bool interleaved, double theta) {
  const auto angle = [=](std::int64_t pair, std::int64_t position) {
    return static_cast<double>(position) *
           std::pow(theta, -2 * static_cast<double>(pair) / static_cast<double>(width));
  };
  return {width, interleaved, [=](auto j, auto p) { return std::cos(angle(j, p)); },
          [=](auto j, auto p) { return std::sin(angle(j, p)); }};
}

} // namespace

TEMPLATE_TEST_CASE("rotary embedding and its gradient, in place too", "", float, bf16, f16, double) {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < (test_device().is_emulated() ? 2 : 6); ++round) {
    const std::int64_t batches = random.integer(1, 3), heads = random.integer(1, 5),
                       tokens = random.integer(1, 40), half = random.integer(1, 40),
                       size = 2 * half + (round % 2 ? random.integer(1, 40) : 0);
    Strided<TestType, 4> x(random, {batches, heads, tokens, size}, uniform(random, -2, 2)),
        y(random, {batches, heads, tokens, size}), back(random, {batches, heads, tokens, size}),
        in_place(random, {batches, heads, tokens, size});
    in_place.fill([&](auto... i) { return x(i...); });
    ops::RotaryOptions options;
    options.pairs = random.integer(0, 1) ? ops::RotaryPairs::halves : ops::RotaryPairs::interleaved;
    options.width = size == 2 * half ? 0 : 2 * half;
    options.theta = random.integer(0, 1) ? 10000 : 500000;
    options.offset = random.integer(0, 1) ? 0 : random.integer(-100, 1000000);
    Rotated rotated = by_theta(2 * half, options.pairs == ops::RotaryPairs::interleaved, options.theta);
    INFO("x " << x.layout() << "; y " << y.layout() << "; offset " << options.offset << ", half " << half);
    on_test_device(
        [&](Stream& s, auto x, auto y, auto back, auto in_place) {
          ops::rotary(s, x, y, options);
          ops::rotary_backward(s, x, back, options);
          ops::rotary(s, in_place, in_place, options);
        },
        x.view, y.view, back.view, in_place.view);
    const auto expected = [&](auto b, auto h, auto t, auto e) {
      return rotated([&](auto i) { return x(b, h, t, i); }, t + options.offset, e);
    };
    // In f64, the angle has the rounding error of a number as large as the position.
    const bool wide = std::is_same_v<TestType, double>;
    const double largest = wide ? static_cast<double>(std::abs(options.offset) + tokens) * 4 : 4;
    y.check(tolerance<TestType>(), expected, largest);
    in_place.check(tolerance<TestType>(), expected, largest);
    rotated.direction = -1;
    back.check(tolerance<TestType>(), expected, largest);
  }
}

TEST_CASE("rotary embedding at positions and with angles from tensors, of any rank") {
  Random random;
  KILN_SEED(random);
  const std::int64_t a = 2, b = 3, h = 4, t = 7, width = 12, size = 17, table = 50;
  Strided<bf16, 5> x(random, {a, b, h, t, size}, uniform(random, -2, 2));
  Strided<float, 5> y(random, {a, b, h, t, size}), by_head(random, {a, b, h, t, size});
  Strided<std::int64_t, 3> positions(random, {b, 1, t}, integers(random, 0, table - 1));
  Strided<std::int32_t, 5> of_heads(random, {1, b, h, t, 1}, integers(random, 0, table - 10));
  Strided<double, 2> c(random, {table, width / 2}, uniform(random, -1, 1));
  Strided<float, 2> s(random, {table, width / 2}, uniform(random, -1, 1));
  on_test_device(
      [&](Stream& stream, auto x, auto y, auto by_head, auto positions, auto of_heads, auto c, auto s) {
        ops::rotary(stream, x, y,
                    {.pairs = ops::RotaryPairs::interleaved,
                     .width = width,
                     .cos = c,
                     .sin = s,
                     .positions = positions});
        ops::rotary(stream, x, by_head,
                    {.width = width, .theta = 100, .positions = of_heads.select(4, 0), .offset = 9});
      },
      x.view, y.view, by_head.view, positions.view, of_heads.view, c.view, s.view);
  const Rotated by_table{width, true, [&](auto j, auto p) { return c(p, j); },
                         [&](auto j, auto p) { return s(p, j); }};
  const Rotated rotated = by_theta(width, false, 100);
  y.check(
      tolerance<float>(),
      [&](auto i, auto j, auto k, auto l, auto e) {
        return by_table([&](auto n) { return x(i, j, k, l, n); },
                        static_cast<std::int64_t>(positions(j, 0, l)), e);
      },
      4);
  by_head.check(
      tolerance<float>(),
      [&](auto i, auto j, auto k, auto l, auto e) {
        return rotated([&](auto n) { return x(i, j, k, l, n); },
                       static_cast<std::int64_t>(of_heads(0, j, k, l, 0)) + 9, e);
      },
      4);
}

TEST_CASE("rotary_backward is the gradient of rotary") {
  Random random;
  KILN_SEED(random);
  const std::int64_t t = 3, size = 10;
  auto x = Tensor<double, 2>::zeros({t, size}), y = Tensor<double, 2>::zeros({t, size}),
       d = Tensor<double, 2>::zeros({t, size}), dx = Tensor<double, 2>::zeros({t, size});
  for (std::int64_t i = 0; i < t * size; ++i)
    x.data()[i] = random.uniform(-1, 1), d.data()[i] = random.uniform(-1, 1);
  Stream stream;
  const ops::RotaryOptions options{.width = 8, .offset = 5};
  const auto loss = [&] { // sum of d * y
    ops::rotary(stream, x, y, options);
    stream.synchronize();
    double sum = 0;
    for (std::int64_t i = 0; i < t * size; ++i)
      sum += d.data()[i] * y.data()[i];
    return sum;
  };
  ops::rotary_backward(stream, d, dx, options);
  stream.synchronize();
  for (std::int64_t i = 0; i < t * size; ++i) {
    const double old = x.data()[i], step = 1e-4;
    x.data()[i] = old + step;
    const double above = loss();
    x.data()[i] = old - step;
    const double below = loss();
    x.data()[i] = old;
    CHECK(dx.data()[i] == Approx((above - below) / (2 * step)).margin(1e-9));
  }
}

TEST_CASE("rotary takes vectors and empty tensors, and refuses widths, tables and aliases that do not fit") {
  Stream stream;
  auto x = Tensor<float, 3>::zeros({2, 4, 10}), y = Tensor<float, 3>::zeros({2, 4, 10});
  auto v = Tensor<float, 1>::zeros({2});
  auto none = Tensor<float, 2>::zeros({0, 8}), c = Tensor<float, 2>::zeros({9, 3});
  auto p = Tensor<float, 1>::zeros({4});
  auto few = Tensor<std::int32_t, 1>::zeros({3});
  v.data()[0] = 1;
  ops::rotary(stream, v, v, {.offset = 2});
  ops::rotary(stream, none, none);
  stream.synchronize();
  CHECK(v.data()[0] == Approx(std::cos(2.0)));
  CHECK(v.data()[1] == Approx(std::sin(2.0)));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.width = 5}), Catch::Contains("must be even"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.width = 12}), Catch::Contains("at most the head size"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.cos = c}), Catch::Contains("give both or none"));
  CHECK_THROWS_WITH(
      ops::rotary(stream, x, y, {.cos = c, .sin = c}),
      Catch::Contains("the columns of cos and half of the width that is rotated differ: 3 != 5"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.theta = 0}), Catch::Contains("theta must be"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.positions = p}),
                    Catch::Contains("positions is of f32; pass i32"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, y, {.positions = few}), Catch::Contains("does not broadcast"));
  CHECK_THROWS_WITH(ops::rotary(stream, x, x.view().slice(2, 0, 8)),
                    Catch::Contains("x has extents {2, 4, 10}"));
  CHECK_THROWS_WITH(ops::rotary(stream, x.view().slice(1, 0, 3), x.view().slice(1, 1, 4)),
                    Catch::Contains("y overlaps x without being the same"));
}
