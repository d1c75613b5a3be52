// Compares the gradients of products with double precision and with finite differences.
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

double derivative(ops::Activation f, double x) {
  const double s = 1 / (1 + std::exp(-x));
  switch (f) {
  case ops::Activation::relu: return x > 0;
  case ops::Activation::gelu:
    return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  case ops::Activation::silu: return s * (1 + x * (1 - s));
  case ops::Activation::none: break;
  }
  return 1;
}

} // namespace

TEMPLATE_TEST_CASE("gradients of products sum over the batches that share an operand", "", KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  using In = typename P::in;
  using Out = typename P::out;
  for (int i = 0; i < (emulated() ? 3 : 6); ++i) {
    const std::int64_t most = emulated() ? 20 : 50;
    const auto m = random.integer(1, most), n = random.integer(1, most), k = random.integer(1, most),
               outer = random.integer(1, 3), inner = random.integer(1, 3);
    // Which batch axes a and b have.
    const std::int64_t a_outer = random.integer(0, 1) ? 1 : outer, a_inner = random.integer(0, 1) ? 1 : inner,
                       b_inner = random.integer(0, 1) ? 1 : inner;
    Strided<In, 4> a(random, {a_outer, a_inner, m, k}, uniform(random, -1, 1)),
        dc(random, {outer, inner, m, n}, uniform(random, -1, 1));
    Strided<In, 3> b(random, {b_inner, k, n}, uniform(random, -1, 1));
    Strided<float, 4> before(random, {outer, inner, m, n}, uniform(random, -2, 2));
    Strided<Out, 4> da(random, {a_outer, a_inner, m, k}, uniform(random, -1, 1));
    Strided<Out, 3> db(random, {b_inner, k, n}, uniform(random, -1, 1));
    Strided<Out, 1> dbias(random, {n}, uniform(random, -1, 1));
    std::vector<double> old_a, old_b, old_bias;
    da.each([&](auto... at) { old_a.push_back(da(at...)); });
    db.each([&](auto... at) { old_b.push_back(db(at...)); });
    dbias.each([&](auto... at) { old_bias.push_back(dbias(at...)); });
    const auto activation = static_cast<ops::Activation>(random.integer(0, 3));
    const bool scaled = random.integer(0, 1), accumulate = random.integer(0, 1),
               to_a = random.integer(0, 3) > 0, to_b = random.integer(0, 3) > 0,
               to_bias = random.integer(0, 1) || !(to_a || to_b);
    INFO(m << " x " << n << " x " << k << ", activation " << ops::name(activation) << ", alpha " << scaled
           << ", accumulate " << accumulate << ", da " << to_a << ", db " << to_b << ", dbias " << to_bias);
    INFO("a: " << a.layout() << "; b: " << b.layout() << "; dc: " << dc.layout());
    on_test_device(
        [&](Stream& s, auto a, auto b, auto dc, auto before, auto da, auto db, auto dbias) {
          ops::MatmulBackwardOptions options{.activation = activation, .accumulate = accumulate};
          if (activation != ops::Activation::none) options.before = before;
          if (scaled) options.alpha = 0.75;
          if (to_bias) options.dbias = dbias;
          ops::matmul_backward(s, a, b, dc, to_a ? ops::Output(da) : ops::Output(),
                               to_b ? ops::Output(db) : ops::Output(), options);
        },
        a.view, b.view, dc.view, before.view, da.view, db.view, dbias.view);

    // The gradient of the sum, which is rounded to the dtype of dc with an activation.
    const auto dz = [&](auto o, auto in, auto r, auto c) {
      const double x = dc(o, in, r, c);
      if (activation == ops::Activation::none) return x;
      return to_double(from_double<In>(x * derivative(activation, before(o, in, r, c))));
    };
    const double alpha = scaled ? 0.75 : 1;
    // That rounding may go the other way in a tie.
    const double tolerance = P::tolerance + (activation != ops::Activation::none ? test::tolerance<In>() : 0);
    const auto old = [&](const std::vector<double>& values, std::size_t index) {
      return accumulate ? values[index] : 0;
    };
    std::size_t index = 0;
    if (to_a)
      da.check(
          tolerance,
          [&](auto o, auto in, auto r, auto q) {
            double sum = 0;
            for (std::int64_t x = a_outer == 1 ? 0 : o; x < (a_outer == 1 ? outer : o + 1); ++x)
              for (std::int64_t y = a_inner == 1 ? 0 : in; y < (a_inner == 1 ? inner : in + 1); ++y)
                for (std::int64_t c = 0; c < n; ++c)
                  sum += dz(x, y, r, c) * b(b_inner == 1 ? 0 : y, q, c);
            return alpha * sum + old(old_a, index++ % old_a.size());
          },
          20);
    index = 0;
    if (to_b)
      db.check(
          tolerance,
          [&](auto in, auto q, auto c) {
            double sum = 0;
            for (std::int64_t x = 0; x < outer; ++x)
              for (std::int64_t y = b_inner == 1 ? 0 : in; y < (b_inner == 1 ? inner : in + 1); ++y)
                for (std::int64_t r = 0; r < m; ++r)
                  sum += a(a_outer == 1 ? 0 : x, a_inner == 1 ? 0 : y, r, q) * dz(x, y, r, c);
            return alpha * sum + old(old_b, index++ % old_b.size());
          },
          50);
    if (to_bias)
      dbias.check(
          tolerance,
          [&](auto c) {
            double sum = 0;
            for (std::int64_t x = 0; x < outer; ++x)
              for (std::int64_t y = 0; y < inner; ++y)
                for (std::int64_t r = 0; r < m; ++r)
                  sum += dz(x, y, r, c);
            return sum + old(old_bias, static_cast<std::size_t>(c));
          },
          50);
  }
}

TEST_CASE("gradients of products are the finite differences of the forward ops") {
  Random random;
  KILN_SEED(random);
  const auto activation = GENERATE(ops::Activation::none, ops::Activation::gelu, ops::Activation::silu);
  Strided<double, 3> x(random, {2, 3, 5}, uniform(random, -1, 1)), y(random, {2, 3, 4}), z(random, {2, 3, 4}),
      dy(random, {2, 3, 4}, uniform(random, -1, 1)), dx(random, {2, 3, 5});
  Strided<double, 2> weight(random, {5, 4}, uniform(random, -1, 1)), dweight(random, {5, 4});
  Strided<double, 1> bias(random, {4}, uniform(random, -1, 1)), dbias(random, {4});
  const auto forward = [&](ops::Activation f, auto& to) {
    on_test_device([&](Stream& s, auto x, auto weight, auto bias,
                       auto y) { ops::linear(s, x, weight, bias, y, {.activation = f}); },
                   x.view, weight.view, bias.view, to.view);
  };
  forward(ops::Activation::none, z);
  on_test_device(
      [&](Stream& s, auto x, auto weight, auto dy, auto z, auto dx, auto dweight, auto dbias) {
        ops::MatmulBackwardOptions options{.activation = activation, .dbias = dbias};
        if (activation != ops::Activation::none) options.before = z;
        ops::linear_backward(s, x, weight, dy, dx, dweight, options);
      },
      x.view, weight.view, dy.view, z.view, dx.view, dweight.view, dbias.view);
  const auto slope = [&](double& at) {
    const double before = at, step = 1e-5;
    double losses[2] = {};
    for (int i = 0; i < 2; ++i) {
      at = before + (i ? step : -step);
      forward(activation, y);
      y.each([&](auto... j) { losses[i] += y(j...) * dy(j...); });
    }
    at = before;
    return (losses[1] - losses[0]) / (2 * step);
  };
  for (int i = 0; i < 3; ++i) {
    const auto b = random.integer(0, 1), r = random.integer(0, 2), k = random.integer(0, 4),
               c = random.integer(0, 3);
    CHECK(dx(b, r, k) == Approx(slope(x.view(b, r, k))).margin(1e-7));
    CHECK(dweight(k, c) == Approx(slope(weight.view(k, c))).margin(1e-7));
    CHECK(dbias(c) == Approx(slope(bias.view(c))).margin(1e-7));
  }
}

TEST_CASE("the gradient of a bias sums any number of rows, with the same bits in each run") {
  Random random;
  KILN_SEED(random);
  const std::int64_t n = 19, rows = emulated() ? 40 : 3000;
  Strided<float, 4> dc(random, {2, 3, rows, n}, uniform(random, -1, 1));
  auto a = Tensor<float, 4>::zeros({2, 3, rows, 1});
  auto b = Tensor<float, 2>::zeros({1, n});
  const TensorView<const float, 4> of_a = a.view();
  const TensorView<const float, 2> of_b = b.view();
  std::vector<float> first;
  for (int i = 0; i < 3; ++i) {
    std::vector<float> sums(n, NAN);
    TensorView<float, 1> dbias(sums);
    on_test_device([](Stream& s, auto a, auto b, auto dc,
                      auto dbias) { ops::matmul_backward(s, a, b, dc, {}, {}, {.dbias = dbias}); },
                   of_a, of_b, dc.view, dbias);
    if (i == 0) first = sums;
    CHECK(sums == first);
  }
  for (std::int64_t c = 0; c < n; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < 6 * rows; ++r)
      sum += dc(r / rows / 3, r / rows % 3, r % rows, c);
    CHECK(first[static_cast<std::size_t>(c)] == Approx(sum).margin(1e-3));
  }
}

TEST_CASE("gradients of products without rows, columns or batches are zero") {
  Random random;
  KILN_SEED(random);
  const auto [batches, m, n] = GENERATE(std::tuple{0, 2, 3}, std::tuple{2, 0, 3}, std::tuple{2, 2, 0});
  const bool accumulate = GENERATE(false, true);
  const auto five = [] { return 5.0; };
  Strided<float, 3> a(random, {batches, m, 4}, five), dc(random, {batches, m, n}, five),
      da(random, {batches, m, 4}, five);
  Strided<float, 2> b(random, {4, n}, five), db(random, {4, n}, five);
  Strided<float, 1> dbias(random, {n}, five);
  on_test_device(
      [&](Stream& s, auto a, auto b, auto dc, auto da, auto db, auto dbias) {
        ops::matmul_backward(s, a, b, dc, da, db, {.dbias = dbias, .accumulate = accumulate});
      },
      a.view, b.view, dc.view, da.view, db.view, dbias.view);
  const auto expected = [&](auto...) { return accumulate ? 5.0 : 0.0; };
  da.check(0, expected);
  db.check(0, expected);
  dbias.check(0, expected);
}

TEST_CASE("gradients of products refuse arguments that do not fit, and name them") {
  Stream stream;
  auto a = Tensor<float, 3>::zeros({2, 4, 5}), da = Tensor<float, 3>::zeros({2, 4, 5});
  auto b = Tensor<float, 2>::zeros({5, 6}), db = Tensor<float, 2>::zeros({5, 6});
  auto dc = Tensor<float, 3>::zeros({2, 4, 6}), other = Tensor<float, 3>::zeros({3, 4, 6});
  auto bias = Tensor<float, 1>::zeros({5});
  auto whole = Tensor<std::int32_t, 2>::zeros({5, 6});
  const auto says = [](const auto& call, const char* text) {
    CHECK_THROWS_WITH(call(), Catch::Contains(text));
  };
  says([&] { ops::matmul_backward(stream, a, b, dc, {}, {}); },
       "ops::matmul_backward: no result is given; pass a gradient to compute");
  says([&] { ops::matmul_backward(stream, a, a, dc, da, {}); }, "a's columns and b's rows differ: 5 != 4");
  says([&] { ops::matmul_backward(stream, a, b, a, da, {}); }, "b's columns and dc's columns differ: 6 != 5");
  says([&] { ops::matmul_backward(stream, a, b, other, da, {}); },
       "the batch axes of a, {2}, do not broadcast to those of dc, {3}");
  says([&] { ops::matmul_backward(stream, a, b, dc, dc, {}); }, "a has extents {2, 4, 5} and da {2, 4, 6}");
  says([&] { ops::matmul_backward(stream, a, b, dc, a, {}); }, "da overlaps a");
  says([&] { ops::matmul_backward(stream, a, b, dc, da, b); }, "db overlaps b");
  says([&] { ops::matmul_backward(stream, a, b, dc, da, db, {.dbias = bias}); },
       "dbias's size and dc's columns differ: 5 != 6");
  says([&] { ops::matmul_backward(stream, a, b, dc, da, db, {.dbias = db.view().select(0, 0)}); },
       "dbias overlaps db");
  says([&] { ops::matmul_backward(stream, a, b, dc, da, db, {.activation = ops::Activation::relu}); },
       "activation and before belong together");
  says([&] { ops::linear_backward(stream, a, a, dc, da, {}); },
       "ops::linear_backward: x's columns and weight's rows differ: 5 != 4");
  says([&] { ops::matmul_backward(stream, a, b, dc, da, whole); }, "db is of i32; pass f32, f64");
  stream.synchronize();
}
