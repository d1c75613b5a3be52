// Compares the fused elementwise ops with double precision and with the interpreter.
#include "op_test.h"

#include <kiln/ops/dims.h>

using namespace kiln;
using namespace kiln::test;

namespace {
double exact(ops::Activation activation, double x) {
  switch (activation) {
  case ops::Activation::relu: return std::max(x, 0.0);
  case ops::Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case ops::Activation::silu: return x / (1 + std::exp(-x));
  case ops::Activation::none: break;
  }
  return x;
}
constexpr ops::Activation activations[] = {ops::Activation::none, ops::Activation::relu,
                                           ops::Activation::gelu, ops::Activation::silu};
} // namespace

TEMPLATE_TEST_CASE("activations of matrices of any extents and strides", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 8; ++i) {
    std::int64_t rows = random.integer(1, 40), cols = random.integer(1, i < 4 ? 5000 : 60);
    ops::Activation activation = activations[i % 4];
    Lie of_x = all_lies[random.integer(0, 3)], of_y = all_lies[random.integer(0, 3)];
    INFO(rows << " x " << cols << ", layouts " << int(of_x) << int(of_y) << ", " << ops::name(activation));
    Matrix<TestType> x(rows, cols, of_x), up(rows, cols, of_y), y(rows, cols, of_y), z(rows, cols, of_x);
    x.fill(random, -6, 6), up.fill(random), y.poison(), z.poison();
    on_test_device([&](Stream& s, auto... v) { ops::activation(s, v..., activation); }, x.view(), y.view());
    on_test_device([&](Stream& s, auto... v) { ops::activation_mul(s, v..., activation); }, x.view(),
                   up.view(), z.view());
    auto of = [&](auto r, auto c) { return exact(activation, wide(x(r, c))); };
    CHECK(relative_error(y, of) <= tolerance<TestType>());
    CHECK(relative_error(z, [&](auto r, auto c) { return of(r, c) * wide(up(r, c)); }) <=
          tolerance<TestType>());
    CHECK(y.surroundings_untouched());
    CHECK(z.surroundings_untouched());
  }
}

namespace {
KILN_DIM(BM);
KILN_DIM(BN);

// A number, NaN, infinities and zeros, at random places.
template <class T> void fill_special(Random& random, Matrix<T>& x) {
  const double special[] = {NAN, NAN, INFINITY, -INFINITY, -0.0, 0.0};
  x.fill(random, -6, 6);
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.cols(); ++c)
      if (random.integer(0, 3) == 0)
        x(r, c) = T(static_cast<float>(special[static_cast<std::size_t>(random.integer(0, 5))]));
}
bool same(double found, double expected) {
  return std::isnan(expected) ? std::isnan(found) : found == expected; // zeros of either sign
}
// NaN if one of them is.
double clamped(double x, double low, double high) {
  if (std::isnan(x) || std::isnan(low) || std::isnan(high)) return NAN;
  return std::min(std::max(x, low), high);
}
} // namespace

TEMPLATE_TEST_CASE("relu and clamp keep NaN", "", float, double, bf16, f16) {
  using T = TestType;
  const auto limited = kernel("limited", [](View<const T, 2> x, View<const T, 2> low, View<T, 2> positive,
                                            View<T, 2> constant, View<T, 2> loaded, Scalar<float> top) {
    auto [m, n] = program_tile(x, BM, BN);
    Tile t = x.tile(m, n).load();
    positive.tile(m, n).store(relu(t));
    constant.tile(m, n).store(clamp(t, -1, 2.5f));
    loaded.tile(m, n).store(cast<T>(clamp(cast<float>(t), cast<float>(low.tile(m, n).load()), top)));
  });
  Random random;
  KILN_SEED(random);
  const std::int64_t rows = random.integer(1, 9), cols = random.integer(1, 100);
  Matrix<T> x(rows, cols, Lie::padded_rows), low(rows, cols), positive(rows, cols), constant(rows, cols),
      loaded(rows, cols);
  fill_special(random, x), fill_special(random, low), positive.poison(), constant.poison(), loaded.poison();
  auto check = [&] {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        INFO("(" << r << ", " << c << "): " << wide(x(r, c)) << ", " << wide(low(r, c)));
        REQUIRE(same(wide(positive(r, c)), clamped(wide(x(r, c)), 0, INFINITY)));
        REQUIRE(same(wide(constant(r, c)), clamped(wide(x(r, c)), -1, 2.5)));
        REQUIRE(same(wide(loaded(r, c)),
                     wide(T(static_cast<float>(clamped(static_cast<float>(wide(x(r, c))),
                                                       static_cast<float>(wide(low(r, c))), 3))))));
      }
  };
  const Config config = {BM = 4, BN = random.integer(1, 32)};
  on_test_device([&](Stream& s, auto... v) { limited.launch(s, config, v...); }, x.read_only(),
                 low.read_only(), positive.view(), constant.view(), loaded.view(), 3.0f);
  check();
  positive.poison(), constant.poison(), loaded.poison();
  limited.interpret(config, x.read_only(), low.read_only(), positive.view(), constant.view(), loaded.view(),
                    3.0f);
  check();
  positive.poison(), constant.poison(), loaded.poison();
  on_test_device(
      [&](Stream& s, auto x_of, auto low_of, auto positive_of, auto constant_of, auto loaded_of) {
        assign(s, positive_of, relu(x_of));
        assign(s, constant_of, clamp(x_of, -1, 2.5f));
        assign(s, loaded_of, cast<T>(clamp(cast<float>(x_of), cast<float>(low_of), 3.0f)));
      },
      x.read_only(), low.read_only(), positive.view(), constant.view(), loaded.view());
  check();
}

TEMPLATE_TEST_CASE("relu after a product and as an op keeps NaN", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  const std::int64_t rows = random.integer(1, 40), cols = random.integer(1, 70);
  Matrix<T> x(rows, 8), weight(8, cols), bias(1, cols), y(rows, cols), z(rows, 8);
  x.fill(random), weight.fill(random), bias.fill(random), y.poison(), z.poison();
  const std::int64_t row = random.integer(0, rows - 1), column = random.integer(0, cols - 1);
  x(row, 3) = T(NAN);
  bias(0, column) = T(NAN);
  on_test_device([&](Stream& s, auto... v) { ops::linear(s, v..., {.activation = ops::Activation::relu}); },
                 x.view(), weight.view(), bias.view().select(0, 0), y.view());
  on_test_device([&](Stream& s, auto... v) { ops::activation(s, v..., ops::Activation::relu); }, x.view(),
                 z.view());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      INFO("(" << r << ", " << c << ")");
      REQUIRE(std::isnan(wide(y(r, c))) == (r == row || c == column));
      if (r != row && c != column) REQUIRE(wide(y(r, c)) >= 0);
    }
    for (std::int64_t c = 0; c < 8; ++c)
      REQUIRE(same(wide(z(r, c)), clamped(wide(x(r, c)), 0, INFINITY)));
  }
}
