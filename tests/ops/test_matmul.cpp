// Compares matmul and linear with double precision (dtypes, extents, strides, epilogues) and with the
// interpreter.
#include "left_out.h"
#include "op_test.h"

#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/dims.h>

using namespace kiln;
using namespace kiln::test;

namespace {

double activated(ops::Activation activation, double x) {
  switch (activation) {
  case ops::Activation::relu: return std::max(x, 0.0);
  case ops::Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case ops::Activation::silu: return x / (1 + std::exp(-x));
  case ops::Activation::none: break;
  }
  return x;
}

template <class T> double exact(const Matrix<T>& a, const Matrix<T>& b, std::int64_t r, std::int64_t c) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.cols(); ++k)
    sum += wide(a(r, k)) * wide(b(k, c));
  return sum;
}

} // namespace

TEMPLATE_TEST_CASE("matmul multiplies matrices of any extents and strides", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds(12); ++i) {
    std::int64_t m = random.integer(1, 150), n = random.integer(1, 150), k = random.integer(1, 150);
    Lie of_a = all_lies[random.integer(0, 3)], of_b = all_lies[random.integer(0, 3)],
        of_c = all_lies[random.integer(0, 3)];
    INFO(m << " x " << n << " x " << k << ", layouts " << int(of_a) << int(of_b) << int(of_c));
    Matrix<TestType> a(m, k, of_a), b(k, n, of_b), c(m, n, of_c);
    a.fill(random), b.fill(random), c.poison();
    on_test_device([&](Stream& s, auto... v) { ops::matmul(s, v...); }, a.view(), b.view(), c.view());
    CHECK(relative_error(c, [&](auto r, auto q) { return exact(a, b, r, q); }) <= tolerance<TestType>(k));
    CHECK(c.surroundings_untouched());
  }
}

TEMPLATE_TEST_CASE("linear adds the bias and applies the activation", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (auto activation :
       {ops::Activation::none, ops::Activation::relu, ops::Activation::gelu, ops::Activation::silu}) {
    std::int64_t m = random.integer(1, 90), n = random.integer(1, 90), k = random.integer(1, 90);
    INFO(m << " x " << n << " x " << k << ", " << ops::name(activation));
    Matrix<TestType> x(m, k), weight(n, k), bias(1, n), y(m, n, Lie::padded_rows);
    x.fill(random), weight.fill(random), bias.fill(random, -3, 3), y.poison();
    on_test_device([&](Stream& s, auto... v) { ops::linear(s, v..., {activation}); }, x.view(),
                   weight.view().transpose(), bias.view().select(0, 0), y.view());
    double error = relative_error(y, [&](auto r, auto c) {
      double sum = wide(bias(0, c));
      for (std::int64_t l = 0; l < k; ++l)
        sum += wide(x(r, l)) * wide(weight(c, l));
      return activated(activation, sum);
    });
    CHECK(error <= tolerance<TestType>(k));
    CHECK(y.surroundings_untouched());
  }
}

TEMPLATE_TEST_CASE("matmul on the CPU agrees with the interpreter under any config", "", float, double, bf16,
                   f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 3; ++i) {
    std::int64_t m = random.integer(1, 40), n = random.integer(1, 40), k = random.integer(1, 40);
    Config config = {ops::BM = random.integer(1, 24), ops::BN = random.integer(1, 24),
                     ops::BK = random.integer(1, 24)};
    INFO(m << " x " << n << " x " << k << ", " << config.to_string());
    Matrix<TestType> a(m, k), b(k, n), bias(1, n), c(m, n), interpreted(m, n);
    a.fill(random), b.fill(random), bias.fill(random), c.poison(), interpreted.poison();
    const ops::detail::OpVariant biased_relu{std::is_same_v<TestType, double> ? DType::F64 : DType::F32,
                                             ops::detail::matmul_bias |
                                                 static_cast<std::uint32_t>(ops::Activation::relu)};
    const auto arguments = [](const ops::Input& a, const ops::Input& b, const ops::Input& bias,
                              const ops::Output& c, const auto& run) { run({a, b, bias, c}); };
    on_test_device(
        [&](Stream& s, auto... v) {
          arguments(v..., [&](const ops::detail::OpArguments& list) {
            ops::detail::matmul_kernel.launch(s, config, biased_relu, list);
          });
        },
        a.read_only(), b.read_only(), bias.read_only().select(0, 0), c.view());
    arguments(a.read_only(), b.read_only(), bias.read_only().select(0, 0), interpreted.view(),
              [&](const ops::detail::OpArguments& list) {
                ops::detail::matmul_kernel.interpret(config, biased_relu, list);
              });
    CHECK(relative_error(c, [&](auto r, auto q) { return wide(interpreted(r, q)); }) <=
          tolerance<TestType>(k));
  }
}

TEST_CASE("matmul with an inner extent of 0 gives zeros, and without rows it does nothing") {
  Matrix<float> a(3, 0), b(0, 4), c(3, 4), none(0, 4);
  c.poison();
  on_test_device([&](Stream& s, auto... v) { ops::matmul(s, v...); }, a.view(), b.view(), c.view());
  CHECK(relative_error(c, [](auto, auto) { return 0.0; }) == 0);
  on_test_device([&](Stream& s, auto... v) { ops::matmul(s, v...); }, Matrix<float>(0, 5).view(),
                 Matrix<float>(5, 4).view(), none.view());
}

TEST_CASE("matmul names the extents that do not match") {
  Stream stream;
  Matrix<float> a(3, 5), b(6, 4), c(3, 4);
  CHECK_THROWS_WITH(ops::matmul(stream, a.view(), b.view(), c.view()),
                    Catch::Contains("a's columns and b's rows") && Catch::Contains("5") &&
                        Catch::Contains("6"));
}

TEST_CASE("matmul's config fits the product") {
  Device cpu;
  for (std::int64_t m : {1, 7, 100, 2048, 100000})
    for (std::int64_t n : {1, 64, 1000, 14336})
      for (DType dtype : {DType::F32, DType::F64, DType::BF16}) {
        Config config = ops::matmul_config(cpu, dtype, m, n, 4096);
        std::int64_t bm = *config.get("BM"), bn = *config.get("BN");
        CHECK(bm < std::max<std::int64_t>(2 * m, 9));
        CHECK(bn < std::max<std::int64_t>(2 * n, 65));
        CHECK(bm * bn * (dtype == DType::F64 ? 8 : 4) <= (512 << 10));
        const std::int64_t share = m / std::max(1, cpu.properties().num_threads);
        CHECK(bm <= std::max<std::int64_t>(64, share + 1)); // the threads can divide m
      }
}

TEST_CASE("precision tf32 rounds f32 factors where a device has instructions for it") {
  constexpr std::int64_t n = 48;
  const float fine = 1 + 0x1p-14f; // tf32 has 10 bits of mantissa
  for (const Device& device : {Device::cpu(), Device::emulated("sm_80"), Device::emulated("sm_90a")}) {
    auto factor = Tensor<float, 2>::zeros({n, n}), unit = Tensor<float, 2>::zeros({n, n});
    factor.fill(fine);
    for (int i = 0; i < n; ++i)
      unit.data()[i * (n + 1)] = 1;
    const auto a = factor.to(device), b = unit.to(device);
    auto exact = Tensor<float, 2>::zeros(device, {n, n}), fast = Tensor<float, 2>::zeros(device, {n, n});
    Stream stream(device);
    ops::matmul(stream, a, b, exact);
    ops::matmul(stream, a, b, fast, {.precision = Precision::tf32});
    stream.synchronize();
    CAPTURE(to_string(device));
    for (const float x : exact.to(Device::cpu()))
      REQUIRE(x == fine);
    for (const float x : fast.to(Device::cpu()))
      REQUIRE(x == (device.is_cpu() ? fine : 1));
  }
}
