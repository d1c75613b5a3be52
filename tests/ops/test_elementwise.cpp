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

TEMPLATE_TEST_CASE("activation_mul agrees with the interpreter", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 70);
  Config config = {ops::BM = random.integer(1, 8), ops::BN = random.integer(1, 70)};
  INFO(rows << " x " << cols << ", " << config.to_string());
  Matrix<TestType> gate(rows, cols), up(rows, cols), y(rows, cols), interpreted(rows, cols);
  gate.fill(random, -6, 6), up.fill(random), y.poison(), interpreted.poison();
  const auto& kernel = ops::activation_mul_kernel<TestType>(ops::Activation::gelu);
  on_test_device([&](Stream& s, auto... v) { kernel.launch(s, config, v...); }, gate.read_only(),
                 up.read_only(), y.view());
  kernel.interpret(config, gate.read_only(), up.read_only(), interpreted.view());
  CHECK(relative_error(y, [&](auto r, auto c) { return wide(interpreted(r, c)); }) <= tolerance<TestType>());
}
