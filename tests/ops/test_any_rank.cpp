// Tests ops on tensors of any rank, with strides that merge and that do not, and of different dtypes.
#include "strided.h"

#include <kiln/kiln.h>

#include <map>

using namespace kiln;
using namespace kiln::test;

namespace {

template <class T, class U> struct Pair {
  using in = T;
  using out = U;
  static constexpr double tolerance = std::is_same_v<U, bf16>  ? 0x1p-7
                                      : std::is_same_v<U, f16> ? 0x1p-9
                                                               : 2e-5;
};
#define KILN_PAIRS                                                                                           \
  (Pair<float, float>), (Pair<bf16, float>), (Pair<float, bf16>), (Pair<f16, f16>), (Pair<double, float>)

using Four = std::array<std::int64_t, 4>;

// An emulated GPU takes fewer and smaller problems.
int rounds(int most) { return test_device().is_emulated() ? 2 : most; }
std::int64_t width(std::int64_t most) {
  return test_device().is_emulated() ? std::min<std::int64_t>(most, 200) : most;
}

Four random_extents(Random& random, std::int64_t last) {
  return {random.integer(1, 4), random.integer(1, 4), random.integer(1, 5), random.integer(1, last)};
}

// The softmax along the last axis, by indices of the first three.
template <class X>
double softmax_at(const X& x, std::int64_t n, std::int64_t a, std::int64_t b, std::int64_t c,
                  std::int64_t d) {
  double most = -INFINITY, total = 0;
  for (std::int64_t i = 0; i < n; ++i)
    most = std::max(most, x(a, b, c, i));
  for (std::int64_t i = 0; i < n; ++i)
    total += std::exp(x(a, b, c, i) - most);
  return std::exp(x(a, b, c, d) - most) / total;
}

} // namespace

TEMPLATE_TEST_CASE("softmax works along any axis of tensors of any strides", "", KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < rounds(6); ++i) {
    const Four extents = random_extents(random, 90);
    Strided<typename P::in, 4> x(random, extents, uniform(random, -4, 4));
    Strided<typename P::out, 4> y(random, extents), log_y(random, extents);
    const auto n = extents[3];
    on_test_device([](Stream& s, auto x, auto y) { ops::softmax(s, x, y); }, x.view, y.view);
    y.check(P::tolerance, [&](auto... at) { return softmax_at(x, n, at...); });
    on_test_device([](Stream& s, auto x, auto y) { ops::log_softmax(s, x, y); }, x.view, log_y.view);
    log_y.check(P::tolerance, [&](auto... at) { return std::log(softmax_at(x, n, at...)); });

    const int axis = static_cast<int>(random.integer(-4, 3));
    Four order{};
    for (int from = 0, to = 0; from < 4; ++from)
      if (from != (axis + 4) % 4) order[static_cast<std::size_t>(from)] = to++;
    order[static_cast<std::size_t>((axis + 4) % 4)] = 3;
    auto moved = [&](auto view) { return view.permute({order[0], order[1], order[2], order[3]}); };
    Strided<typename P::out, 4> z(random, extents);
    on_test_device([&](Stream& s, auto x, auto z) { ops::softmax(s, moved(x), moved(z), {.axis = axis}); },
                   x.view, z.view);
    z.check(P::tolerance, [&](auto... at) { return softmax_at(x, n, at...); });
  }
}

TEMPLATE_TEST_CASE("the gradient of softmax", "", KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < rounds(4); ++i) {
    const Four extents = random_extents(random, width(300));
    const auto n = extents[3];
    Strided<typename P::in, 4> y(random, extents, uniform(random, 0, 1)),
        dy(random, extents, uniform(random, -1, 1));
    Strided<typename P::out, 4> dx(random, extents), log_dx(random, extents);
    on_test_device([](Stream& s, auto... v) { ops::softmax_backward(s, v...); }, y.view, dy.view, dx.view);
    dx.check(
        P::tolerance,
        [&](auto a, auto b, auto c, auto d) {
          double total = 0;
          for (std::int64_t k = 0; k < n; ++k)
            total += y(a, b, c, k) * dy(a, b, c, k);
          return y(a, b, c, d) * (dy(a, b, c, d) - total);
        },
        10);
    on_test_device([](Stream& s, auto... v) { ops::log_softmax_backward(s, v...); }, y.view, dy.view,
                   log_dx.view);
    log_dx.check(
        P::tolerance,
        [&](auto a, auto b, auto c, auto d) {
          double total = 0;
          for (std::int64_t k = 0; k < n; ++k)
            total += dy(a, b, c, k);
          return dy(a, b, c, d) - std::exp(y(a, b, c, d)) * total;
        },
        50);
  }
}

TEMPLATE_TEST_CASE("norms of tensors of any strides, with and without gamma, beta and a residual", "",
                   KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < rounds(8); ++i) {
    const Four extents = random_extents(random, width(i % 2 ? 3000 : 90));
    const auto n = extents[3];
    Strided<typename P::in, 4> x(random, extents, uniform(random, -1, 3)),
        residual(random, extents, uniform(random, -1, 1));
    Strided<typename P::in, 1> gamma(random, {n}, uniform(random, -2, 2));
    Strided<float, 1> beta(random, {n}, uniform(random, -2, 2));
    Strided<typename P::out, 4> y(random, extents), z(random, extents), sum(random, extents);
    const bool scaled = random.integer(0, 1), adds = random.integer(0, 1),
               sums = adds && random.integer(0, 1);
    INFO("gamma " << scaled << ", residual " << adds << ", sum " << sums);
    const auto run = [&](auto op) {
      on_test_device(
          [&](Stream& s, auto x, auto residual, auto gamma, auto beta, auto y, auto sum) {
            ops::NormOptions options{.eps = 0.01};
            if (adds) options.residual = residual;
            if (sums) options.sum = sum;
            op(s, x, scaled ? ops::Input(gamma) : ops::Input(), beta, y, options);
          },
          x.view, residual.view, gamma.view, beta.view, (sums ? z : y).view, sum.view);
    };
    // What is normalised: with a sum, as it was stored.
    const auto t = [&](auto... at) {
      return sums ? sum(at...) : adds ? x(at...) + residual(at...) : x(at...);
    };
    // Returns a function of the indices of a row: the mean of of(element). It is computed once for each row.
    const auto mean = [&](auto of) {
      return
          [&, of, known = std::map<std::array<std::int64_t, 3>, double>()](auto a, auto b, auto c) mutable {
            const auto [found, is_new] = known.try_emplace({a, b, c}, 0);
            for (std::int64_t k = 0; is_new && k < n; ++k)
              found->second += of(t(a, b, c, k), a, b, c) / static_cast<double>(n);
            return found->second;
          };
    };
    const auto g = [&](auto d) { return scaled ? gamma(d) : 1.0; };
    const auto& out = sums ? z : y;
    run([](Stream& s, auto x, auto gamma, auto beta, auto y, const auto& options) {
      ops::layernorm(s, x, gamma, beta, y, options);
    });
    if (sums) sum.check(P::tolerance, [&](auto... at) { return x(at...) + residual(at...); });
    auto m = mean([](double v, auto...) { return v; });
    auto variance = mean([&](double v, auto... row) { return (v - m(row...)) * (v - m(row...)); });
    out.check(
        P::tolerance,
        [&](auto a, auto b, auto c, auto d) {
          return (t(a, b, c, d) - m(a, b, c)) / std::sqrt(variance(a, b, c) + 0.01) * g(d) + beta(d);
        },
        20);
    run([](Stream& s, auto x, auto gamma, auto, auto y, const auto& options) {
      ops::rmsnorm(s, x, gamma, y, options);
    });
    auto square = mean([](double v, auto...) { return v * v; });
    out.check(P::tolerance, [&](auto a, auto b, auto c, auto d) {
      return t(a, b, c, d) / std::sqrt(square(a, b, c) + 0.01) * g(d);
    });
  }
}

TEST_CASE("rmsnorm adds to the residual in place") {
  Random random;
  KILN_SEED(random);
  for (const std::int64_t n : {7, 64, 20000}) {
    Strided<float, 2> x(random, {5, n}, uniform(random, -1, 1)),
        residual(random, {5, n}, uniform(random, -1, 1)), y(random, {5, n});
    std::vector<double> sums;
    x.each([&](auto... at) { sums.push_back(x(at...) + residual(at...)); });
    const auto sum = [&](auto r, auto c) { return sums[static_cast<std::size_t>(r * n + c)]; };
    on_test_device([](Stream& s, auto x, auto residual,
                      auto y) { ops::rmsnorm(s, x, {}, y, {.residual = residual, .sum = residual}); },
                   x.view, residual.view, y.view);
    std::vector<double> scales(5);
    for (std::size_t i = 0; i < sums.size(); ++i)
      scales[i / static_cast<std::size_t>(n)] += sums[i] * sums[i] / static_cast<double>(n);
    for (double& s : scales)
      s = 1 / std::sqrt(s + 1e-5);
    residual.check(1e-6, sum);
    y.check(2e-5, [&](auto r, auto c) { return sum(r, c) * scales[static_cast<std::size_t>(r)]; });
  }
}

TEMPLATE_TEST_CASE("products of batches broadcast, and their epilogue is in the stated order", "",
                   KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < rounds(8); ++i) {
    const auto m = random.integer(1, 40), n = random.integer(1, 40), k = random.integer(0, 40),
               outer = random.integer(1, 3), inner = random.integer(1, 3);
    const bool shared_outer = random.integer(0, 1), shared_inner = random.integer(0, 1);
    Strided<typename P::in, 4> a(random, {shared_outer ? 1 : outer, inner, m, k}, uniform(random, -1, 1));
    Strided<typename P::in, 3> b(random, {shared_inner ? 1 : inner, k, n}, uniform(random, -1, 1));
    Strided<float, 1> bias(random, {n}, uniform(random, -1, 1));
    Strided<typename P::in, 4> times(random, {outer, inner, m, n}, uniform(random, -1, 1));
    Strided<float, 4> residual(random, {outer, inner, m, n}, uniform(random, -1, 1));
    Strided<typename P::out, 4> c(random, {outer, inner, m, n}, uniform(random, -1, 1));
    std::vector<double> before;
    c.each([&](auto... at) { before.push_back(c(at...)); });
    const bool biased = random.integer(0, 1), multiplied = random.integer(0, 1), added = random.integer(0, 1),
               scaled = random.integer(0, 1), accumulated = random.integer(0, 1);
    INFO(m << " x " << n << " x " << k << ", " << a.layout() << "; " << b.layout() << "; " << c.layout()
           << "; bias " << biased << ", times " << multiplied << ", residual " << added << ", alpha "
           << scaled << ", beta " << accumulated);
    on_test_device(
        [&](Stream& s, auto a, auto b, auto bias, auto times, auto residual, auto c) {
          ops::MatmulOptions options{.activation = ops::Activation::relu};
          if (biased) options.bias = bias;
          if (multiplied) options.times = times;
          if (added) options.residual = residual;
          if (scaled) options.alpha = 0.75;
          if (accumulated) options.beta = -0.5;
          ops::matmul(s, a, b, c, options);
        },
        a.view, b.view, bias.view, times.view, residual.view, c.view);
    std::size_t index = 0;
    c.check(
        P::tolerance,
        [&](auto o, auto in, auto r, auto q) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += a(shared_outer ? 0 : o, in, r, l) * b(shared_inner ? 0 : in, l, q);
          double t = std::max(0.0, (scaled ? 0.75 : 1) * sum + (biased ? bias(q) : 0));
          if (multiplied) t *= times(o, in, r, q);
          if (added) t += residual(o, in, r, q);
          if (accumulated) t -= 0.5 * before[index % before.size()];
          ++index;
          return t;
        },
        20);
  }
}

TEMPLATE_TEST_CASE("products with an epilogue of the user", "", (Pair<float, float>), (Pair<bf16, float>),
                   (Pair<f16, bf16>), (Pair<double, double>)) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < rounds(4); ++i) {
    const auto m = random.integer(1, 40), n = random.integer(1, 70), k = random.integer(1, 40);
    Strided<typename P::in, 4> a(random, {2, 3, m, k}, uniform(random, -1, 1));
    Strided<typename P::in, 2> b(random, {k, n}, uniform(random, -1, 1));
    Strided<float, 1> bias(random, {n}, uniform(random, -1, 1));
    Strided<typename P::in, 3> more(random, {6, m, n}, uniform(random, -1, 1));
    Strided<typename P::out, 4> c(random, {2, 3, m, n});
    on_test_device(
        [&](Stream& s, auto a, auto b, auto bias, auto more, auto c) {
          ops::matmul(
              s, a, b, c,
              [](auto sum, auto at, auto bias, auto more) {
                using A = kiln::detail::element_t<decltype(sum)>;
                Tile x = cast<A>(more.tile(at.batch, at.m, at.n).load());
                Tile row = cast<A>(expand<1>(at.m + arange(ops::BM)));
                return where(x > 0.5f, A(0), tanh(sum + bias.tile(at.n).load()) * x + row);
              },
              bias, more);
        },
        a.view, b.view, bias.view, more.view, c.view);
    c.check(P::tolerance, [&](auto o, auto in, auto r, auto q) {
      double sum = bias(q);
      for (std::int64_t l = 0; l < k; ++l)
        sum += a(o, in, r, l) * b(l, q);
      const double x = more(3 * o + in, r, q);
      return x > 0.5 ? 0 : std::tanh(sum) * x + static_cast<double>(r);
    });
  }
}

TEST_CASE("an epilogue that does more than compute each element is refused, and nothing runs") {
  Stream stream;
  auto a = Tensor<float, 2>::zeros({4, 4}), c = Tensor<float, 2>::zeros({4, 4});
  CHECK_THROWS_WITH(
      ops::matmul(stream, a, a, c, [](auto sum, auto) { return sum - max(sum, ops::BN, keep); }),
      Catch::Contains("test_any_rank.cpp") && Catch::Contains("ops::matmul: the epilogue uses reduce"));
}

TEST_CASE("an epilogue together with options that are part of it is refused, and nothing is written") {
  Stream stream;
  auto a = Tensor<float, 2>::zeros({4, 4}), c = Tensor<float, 2>::zeros({4, 4});
  auto bias = Tensor<float, 1>::zeros({4});
  c.fill(7);
  for (const ops::MatmulOptions& options :
       {ops::MatmulOptions{.alpha = 2}, ops::MatmulOptions{.bias = bias}, ops::MatmulOptions{.residual = a}})
    CHECK_THROWS_WITH(
        ops::matmul(stream, a, a, c, options, [](auto sum, auto) { return sum; }),
        Catch::Contains("test_any_rank.cpp") &&
            Catch::Contains("ops::matmul: an epilogue is given together with options that are "
                            "part of it; of the options, only precision and batch_invariant may "
                            "be given, so compute the others in the epilogue"));
  stream.synchronize();
  CHECK(std::all_of(c.begin(), c.end(), [](float x) { return x == 7; }));
}

TEST_CASE("products of integers are exact") {
  Random random;
  KILN_SEED(random);
  const auto whole = [&] { return static_cast<double>(random.integer(-128, 127)); };
  Strided<std::int8_t, 3> a(random, {2, 9, 70}, whole), b(random, {2, 70, 11}, whole);
  Strided<std::int32_t, 3> c(random, {2, 9, 11}, [&] { return 5.0; });
  on_test_device([](Stream& s, auto... v) { ops::matmul(s, v..., {.beta = 1}); }, a.view, b.view, c.view);
  c.check(0, [&](auto z, auto r, auto q) {
    double sum = 5;
    for (std::int64_t l = 0; l < 70; ++l)
      sum += a(z, r, l) * b(z, l, q);
    return sum;
  });
}

TEST_CASE("activations broadcast, and convert between dtypes") {
  Random random;
  KILN_SEED(random);
  Strided<bf16, 4> gate(random, {2, 3, 4, 50}, uniform(random, -4, 4));
  Strided<f16, 2> up(random, {4, 1}, uniform(random, -4, 4));
  Strided<float, 4> y(random, {2, 3, 4, 50});
  on_test_device([](Stream& s, auto... v) { ops::activation_mul(s, v..., ops::Activation::silu); }, gate.view,
                 up.view, y.view);
  y.check(2e-5, [&](auto a, auto b, auto c, auto d) {
    const double x = gate(a, b, c, d);
    return x / (1 + std::exp(-x)) * up(c, 0);
  });
}

TEST_CASE("ops refuse ranks, axes and dtypes that do not fit, and name them") {
  Stream stream;
  auto x = Tensor<float, 3>::zeros({2, 3, 4}), y = Tensor<float, 3>::zeros({2, 3, 4}),
       z = Tensor<float, 3>::zeros({5, 3, 4});
  auto m = Tensor<float, 2>::zeros({4, 6});
  auto n = Tensor<std::int32_t, 3>::zeros({2, 3, 4});
  auto v = Tensor<float, 1>::zeros({4});
  CHECK_THROWS_WITH(ops::softmax(stream, x, y, {.axis = 3}),
                    Catch::Contains("ops::softmax: there is no axis 3 of x, which has 3; pass -3 to 2"));
  CHECK_THROWS_WITH(ops::softmax(stream, n, y),
                    Catch::Contains("ops::softmax: x is of i32; pass f32, f64, bf16"));
  CHECK_THROWS_WITH(ops::matmul(stream, v, m, y),
                    Catch::Contains("ops::matmul: a has 1 axes and needs at least 2"));
  CHECK_THROWS_WITH(ops::matmul(stream, x, m, Tensor<float, 3>::zeros({5, 3, 6}).view()),
                    Catch::Contains("the batch axes of a, {2}, do not broadcast to those of c, {5}"));
  CHECK_THROWS_WITH(ops::rmsnorm(stream, x, {}, y, {.sum = z}),
                    Catch::Contains("sum is given without residual"));
  CHECK_THROWS_WITH(ops::matmul(stream, n, n, n), Catch::Contains("ops::matmul:"));
}
