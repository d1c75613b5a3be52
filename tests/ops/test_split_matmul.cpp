// Compares products with few result tiles and a long K, which is divided into parts, with double precision.
#include "exact_gelu.h"
#include "left_out.h"
#include "op_test.h"

using namespace kiln;
using namespace kiln::test;
using Catch::Contains;

namespace {

// Long enough to be divided, with a last part that is short.
std::int64_t long_k(Random& random) {
  return test_device().is_cpu() ? random.integer(16384, 18000) : random.integer(2048, 2300);
}

// Elements are small, so that the sums are of the order of one.
template <class T> Matrix<T>& fill(Matrix<T>& matrix, Random& random, std::int64_t k) {
  const double most = 1.5 / std::sqrt(std::sqrt(static_cast<double>(k)));
  return matrix.fill(random, -most, most);
}

template <class T> double exact(const Matrix<T>& a, const Matrix<T>& b, std::int64_t r, std::int64_t c) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.cols(); ++k)
    sum += wide(a(r, k)) * wide(b(k, c));
  return sum;
}

Rehearsal rehearsed(std::int64_t m, std::int64_t n, std::int64_t k, const ops::MatmulOptions& options) {
  const auto a = stand_in<float>({m, k}), b = stand_in<float>({k, n}), c = stand_in<float>({m, n});
  return rehearse([&] {
    Stream stream(test_device());
    ops::matmul(stream, a, b, c, options);
  });
}

} // namespace

TEMPLATE_TEST_CASE("products of a long K have every epilogue", "", float, double, bf16, f16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds(3); ++i) {
    const std::int64_t m = random.integer(1, 40), n = random.integer(1, 40), k = long_k(random);
    const auto lie = [&] { return all_lies[random.integer(0, 3)]; };
    Matrix<T> a(m, k, lie()), b(k, n, lie()), c(m, n, lie()), before(m, n), times(m, n), residual(m, n),
        bias(1, n);
    fill(a, random, k), fill(b, random, k), c.fill(random), times.fill(random), residual.fill(random),
        bias.fill(random);
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t q = 0; q < n; ++q)
        before(r, q) = c(r, q);
    const bool has_bias = random.integer(0, 1), has_times = random.integer(0, 1),
               has_residual = random.integer(0, 1), gelu = random.integer(0, 1);
    const double alpha = random.integer(0, 1) ? 1 : 0.75, beta = random.integer(0, 1);
    INFO(m << " x " << n << " x " << k << ", bias " << has_bias << ", times " << has_times << ", residual "
           << has_residual << ", gelu " << gelu << ", alpha " << alpha << ", beta " << beta);
    on_test_device(
        [&](Stream& s, auto a, auto b, auto c, auto bias, auto times, auto residual) {
          ops::MatmulOptions options{.activation = gelu ? ops::Activation::gelu : ops::Activation::none,
                                     .alpha = alpha,
                                     .beta = beta,
                                     .batch_invariant = random.integer(0, 1) == 1};
          if (has_bias) options.bias = bias;
          if (has_times) options.times = times;
          if (has_residual) options.residual = residual;
          ops::matmul(s, a, b, c, options);
        },
        a.view(), b.view(), c.view(), bias.view().select(0, 0), times.view(), residual.view());
    const double error = relative_error(c, [&](auto r, auto q) {
      double x = alpha * exact(a, b, r, q) + (has_bias ? wide(bias(0, q)) : 0);
      if (gelu) x = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      if (has_times) x *= wide(times(r, q));
      return x + (has_residual ? wide(residual(r, q)) : 0) + beta * wide(before(r, q));
    });
    CHECK(error <= tolerance<T>(k));
    CHECK(c.surroundings_untouched());
  }
}

TEST_CASE("products of bytes with a long K are exact") {
  Random random;
  KILN_SEED(random);
  const std::int64_t m = random.integer(1, 40), n = random.integer(1, 40), k = long_k(random);
  auto a = Tensor<std::int8_t, 2>::zeros({m, k}), b = Tensor<std::int8_t, 2>::zeros({k, n});
  auto c = Tensor<std::int32_t, 2>::zeros({m, n});
  for (auto* x : {&a, &b})
    for (std::int8_t& element : *x)
      element = static_cast<std::int8_t>(random.integer(-128, 127));
  c.fill(5);
  on_test_device([&](Stream& s, auto... v) { ops::matmul(s, v..., {.beta = 1}); }, a.view(), b.view(),
                 c.view());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      std::int32_t sum = 5;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a.view()(i, p) * b.view()(p, j);
      wrong += c.view()(i, j) != sum;
    }
  CHECK(wrong == 0);
}

TEST_CASE("an epilogue of the user's own works on products of a long K") {
  Random random;
  KILN_SEED(random);
  const std::int64_t m = random.integer(1, 40), n = random.integer(1, 40), k = long_k(random);
  Matrix<float> a(m, k), b(k, n), c(m, n, Lie::padded_rows), bias(1, n);
  fill(a, random, k), fill(b, random, k), bias.fill(random), c.poison();
  on_test_device(
      [&](Stream& s, auto a, auto b, auto c, auto bias) {
        ops::matmul(
            s, a, b, c, {.batch_invariant = true},
            [](auto sum, auto at, auto bias) { return relu(sum + 2.0f * bias.tile(at.n).load()); }, bias);
      },
      a.view(), b.view(), c.view(), bias.read_only().select(0, 0));
  const double error = relative_error(
      c, [&](auto r, auto q) { return std::max(0.0, exact(a, b, r, q) + 2 * wide(bias(0, q))); });
  CHECK(error <= tolerance<float>(k));
  CHECK(c.surroundings_untouched());
}

TEST_CASE("which products are divided does not depend on the rows if they are batch-invariant") {
  const std::int64_t k = test_device().is_cpu() ? 20000 : 2500;
  for (const std::int64_t m : {1, 7, 300000}) {
    CAPTURE(m);
    const Rehearsal r = rehearsed(m, 48, k, {.batch_invariant = true});
    REQUIRE(r.notes.size() == 1);
    CHECK_THAT(r.notes[0], Contains("divides a K of " + std::to_string(k) + " into 5 parts"));
    CHECK(r.launches.size() == 2);
    CHECK(rehearsed(m, 48, 2000, {.batch_invariant = true}).notes.empty());
    CHECK(rehearsed(m, 1000, k, {.batch_invariant = true}).notes.empty());
    const bool one_thread = test_device().is_cpu() && test_device().properties().num_threads == 1;
    CHECK(rehearsed(m, 48, k, {}).notes.empty() == (m == 300000 || one_thread));
  }
}
