// Compares the gradients of layernorm and rmsnorm with double precision and with finite differences.
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
                                                                                               : 3e-5;
};
#define KILN_PAIRS                                                                                           \
  (Pair<float, float>), (Pair<bf16, float>), (Pair<float, bf16>), (Pair<f16, f16>), (Pair<double, double>)

using Four = std::array<std::int64_t, 4>;
constexpr double eps = 0.01;

bool emulated() { return test_device().is_emulated(); }

// The gradients by the chain rule, in double.
struct Expected {
  std::int64_t n;
  std::vector<double> dx, dgamma, dbeta; // dx in row-major order

  // t, g and d are functions of (row, column) and of (column): what was normalised, gamma and dy.
  template <class T, class G, class D>
  Expected(bool centred, std::int64_t rows, std::int64_t columns, const T& t, const G& g, const D& d)
      : n(columns), dx(static_cast<std::size_t>(rows * n)), dgamma(static_cast<std::size_t>(n)),
        dbeta(static_cast<std::size_t>(n)) {
    const auto count = static_cast<double>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 0, variance = 0, of_w = 0, of_normal = 0;
      for (std::int64_t c = 0; centred && c < n; ++c)
        mean += t(r, c) / count;
      for (std::int64_t c = 0; c < n; ++c)
        variance += (t(r, c) - mean) * (t(r, c) - mean) / count;
      const double scale = 1 / std::sqrt(variance + eps);
      const auto normal = [&](std::int64_t c) { return (t(r, c) - mean) * scale; };
      for (std::int64_t c = 0; c < n; ++c) {
        const auto at = static_cast<std::size_t>(c);
        dgamma[at] += d(r, c) * normal(c), dbeta[at] += d(r, c);
        of_w += d(r, c) * g(c) / count, of_normal += d(r, c) * g(c) * normal(c) / count;
      }
      for (std::int64_t c = 0; c < n; ++c)
        dx[static_cast<std::size_t>(r * n + c)] =
            (d(r, c) * g(c) - (centred ? of_w : 0) - normal(c) * of_normal) * scale;
    }
  }
};

} // namespace

TEMPLATE_TEST_CASE("gradients of norms of tensors of any strides, with any of their arguments", "",
                   KILN_PAIRS) {
  Random random;
  KILN_SEED(random);
  using P = TestType;
  for (int i = 0; i < (emulated() ? 2 : 4); ++i) {
    const std::int64_t most = emulated() ? 150 : i % 3 == 2 ? 3000 : i % 3 == 1 ? 200 : 20;
    const Four e = {random.integer(1, 4), random.integer(1, 4), random.integer(1, emulated() ? 5 : 20),
                    random.integer(1, most)};
    const std::int64_t n = e[3], rows = e[0] * e[1] * e[2];
    Strided<typename P::in, 4> x(random, e, uniform(random, -1, 3)), dy(random, e, uniform(random, -1, 1)),
        residual(random, e, uniform(random, -1, 1));
    Strided<float, 4> dsum(random, e, uniform(random, -1, 1));
    Strided<float, 1> gamma(random, {n}, uniform(random, -2, 2));
    Strided<typename P::out, 4> dx(random, e);
    Strided<typename P::out, 1> dgamma(random, {n}, uniform(random, -1, 1)),
        dbeta(random, {n}, uniform(random, -1, 1));
    const auto maybe = [&] { return random.integer(0, 2) > 0; };
    const bool centred = random.integer(0, 1), scaled = maybe(), adds = maybe(), sums = maybe(),
               to_x = maybe(), to_gamma = maybe() || !to_x, to_beta = centred && maybe(),
               accumulate = maybe();
    INFO("centred " << centred << ", gamma " << scaled << ", residual " << adds << ", dsum " << sums
                    << ", dx " << to_x << ", dgamma " << to_gamma << ", dbeta " << to_beta << ", accumulate "
                    << accumulate);
    INFO(x.layout() << "; " << dy.layout() << "; " << dx.layout());
    std::vector<double> old_gamma, old_beta;
    dgamma.each([&](auto c) { old_gamma.push_back(dgamma(c)), old_beta.push_back(dbeta(c)); });
    on_test_device(
        [&](Stream& s, auto x, auto dy, auto residual, auto dsum, auto gamma, auto dx, auto dgamma,
            auto dbeta) {
          ops::NormBackwardOptions options{.eps = eps, .accumulate = accumulate};
          if (adds) options.residual = residual;
          if (sums) options.dsum = dsum;
          const ops::Input g = scaled ? ops::Input(gamma) : ops::Input();
          const ops::Output of_x = to_x ? ops::Output(dx) : ops::Output(),
                            of_gamma = to_gamma ? ops::Output(dgamma) : ops::Output(),
                            of_beta = to_beta ? ops::Output(dbeta) : ops::Output();
          if (centred)
            ops::layernorm_backward(s, x, g, dy, of_x, of_gamma, of_beta, options);
          else
            ops::rmsnorm_backward(s, x, g, dy, of_x, of_gamma, options);
        },
        x.view, dy.view, residual.view, dsum.view, gamma.view, dx.view, dgamma.view, dbeta.view);

    const auto at = [&](const auto& tensor, std::int64_t r, std::int64_t c) {
      return tensor(r / e[2] / e[1], r / e[2] % e[1], r % e[2], c);
    };
    const Expected expected(
        centred, rows, n, [&](auto r, auto c) { return at(x, r, c) + (adds ? at(residual, r, c) : 0); },
        [&](auto c) { return scaled ? gamma(c) : 1.0; }, [&](auto r, auto c) { return at(dy, r, c); });
    if (to_x)
      dx.check(
          P::tolerance,
          [&](auto a, auto b, auto c, auto d) {
            const auto row = (a * e[1] + b) * e[2] + c;
            return expected.dx[static_cast<std::size_t>(row * n + d)] + (sums ? dsum(a, b, c, d) : 0);
          },
          30);
    const auto check = [&](const auto& got, const std::vector<double>& sum, const std::vector<double>& old) {
      got.check(
          P::tolerance,
          [&](auto c) {
            const auto k = static_cast<std::size_t>(c);
            return sum[k] + (accumulate ? old[k] : 0);
          },
          static_cast<double>(4 * rows));
    };
    if (to_gamma) check(dgamma, expected.dgamma, old_gamma);
    if (to_beta) check(dbeta, expected.dbeta, old_beta);
  }
}

TEST_CASE("gradients of norms in place, of rows that fit a tile and of wider ones") {
  Random random;
  KILN_SEED(random);
  const std::int64_t n = GENERATE(300, emulated() ? 9000 : 140000), rows = emulated() ? 2 : 19;
  for (const bool centred : {true, false}) {
    Strided<float, 2> x(random, {rows, n}, uniform(random, -1, 2)),
        dy(random, {rows, n}, uniform(random, -1, 1));
    Strided<bf16, 1> gamma(random, {n}, uniform(random, -2, 2));
    Strided<float, 1> dgamma(random, {n}), dbeta(random, {n});
    const Expected expected(
        centred, rows, n, [&](auto r, auto c) { return x(r, c); }, [&](auto c) { return gamma(c); },
        [&](auto r, auto c) { return dy(r, c); });
    Strided<float, 2>& dx = random.integer(0, 1) ? x : dy;
    on_test_device(
        [&](Stream& s, auto x, auto gamma, auto dy, auto dx, auto dgamma, auto dbeta) {
          if (centred)
            ops::layernorm_backward(s, x, gamma, dy, dx, dgamma, dbeta, {.eps = eps});
          else
            ops::rmsnorm_backward(s, x, gamma, dy, dx, dgamma, {.eps = eps});
        },
        x.view, gamma.view, dy.view, dx.view, dgamma.view, dbeta.view);
    dx.check(3e-5, [&](auto r, auto c) { return expected.dx[static_cast<std::size_t>(r * n + c)]; }, 10);
    dgamma.check(3e-5, [&](auto c) { return expected.dgamma[static_cast<std::size_t>(c)]; }, 50);
    if (centred) dbeta.check(3e-5, [&](auto c) { return expected.dbeta[static_cast<std::size_t>(c)]; }, 50);
  }
}

TEST_CASE("gradients of norms of tensors of one axis and of eight") {
  Random random;
  KILN_SEED(random);
  std::vector<float> x(24 * 7), dy(x.size()), dx(x.size()), expected(x.size()), dgamma(7), of_gamma(7);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(random.uniform(-1, 1)), dy[i] = static_cast<float>(random.uniform(-1, 1));
  const auto run = [](const auto& x, const auto& dy, const auto& dx, std::vector<float>& dgamma) {
    on_test_device([](Stream& s, auto x, auto dy, auto dx,
                      auto dgamma) { ops::layernorm_backward(s, x, {}, dy, dx, dgamma, {}); },
                   x, dy, dx, TensorView<float, 1>(dgamma));
  };
  const auto as_matrix = [](std::vector<float>& v) { return TensorView<float, 2>(v.data(), {24, 7}); };
  const auto as_eight = [](std::vector<float>& v) {
    return TensorView<float, 8>(v.data(), {2, 1, 3, 1, 2, 2, 1, 7});
  };
  const auto as_vector = [](std::vector<float>& v) { return TensorView<float, 1>(v.data(), {7}); };
  run(as_matrix(x), as_matrix(dy), as_matrix(expected), of_gamma);
  run(as_eight(x), as_eight(dy), as_eight(dx), dgamma);
  CHECK(dx == expected);
  CHECK(dgamma == of_gamma);
  std::fill(dx.begin(), dx.end(), NAN);
  run(as_vector(x), as_vector(dy), as_vector(dx), dgamma);
  for (std::size_t i = 0; i < 7; ++i)
    CHECK(dx[i] == Approx(expected[i]).margin(1e-5));
  CHECK(std::isnan(dx[7]));
}

TEST_CASE("gradients of norms are the finite differences of the forward ops") {
  Random random;
  KILN_SEED(random);
  const std::int64_t rows = 3, n = 13;
  const bool centred = GENERATE(true, false);
  Strided<double, 2> x(random, {rows, n}, uniform(random, -1, 2)),
      dy(random, {rows, n}, uniform(random, -1, 1)), y(random, {rows, n}), dx(random, {rows, n});
  Strided<double, 1> gamma(random, {n}, uniform(random, -2, 2)), beta(random, {n}, uniform(random, -2, 2)),
      dgamma(random, {n}), dbeta(random, {n});
  const auto loss = [&] {
    on_test_device(
        [&](Stream& s, auto x, auto gamma, auto beta, auto y) {
          if (centred)
            ops::layernorm(s, x, gamma, beta, y, {.eps = eps});
          else
            ops::rmsnorm(s, x, gamma, y, {.eps = eps});
        },
        x.view, gamma.view, beta.view, y.view);
    double total = 0;
    y.each([&](auto r, auto c) { total += y(r, c) * dy(r, c); });
    return total;
  };
  on_test_device(
      [&](Stream& s, auto x, auto gamma, auto dy, auto dx, auto dgamma, auto dbeta) {
        if (centred)
          ops::layernorm_backward(s, x, gamma, dy, dx, dgamma, dbeta, {.eps = eps});
        else
          ops::rmsnorm_backward(s, x, gamma, dy, dx, dgamma, {.eps = eps});
      },
      x.view, gamma.view, dy.view, dx.view, dgamma.view, dbeta.view);
  const auto slope = [&](double& at) {
    const double before = at, step = 1e-5;
    at = before + step;
    const double above = loss();
    at = before - step;
    const double below = loss();
    at = before;
    return (above - below) / (2 * step);
  };
  for (int i = 0; i < 4; ++i) {
    const auto r = random.integer(0, rows - 1), c = random.integer(0, n - 1);
    CHECK(dx(r, c) == Approx(slope(x.view(r, c))).margin(1e-7));
    CHECK(dgamma(c) == Approx(slope(gamma.view(c))).margin(1e-7));
    if (centred) CHECK(dbeta(c) == Approx(slope(beta.view(c))).margin(1e-7));
  }
}

TEST_CASE("sums over many rows have the same bits in each run, and none without rows") {
  Random random;
  KILN_SEED(random);
  const std::int64_t rows = emulated() ? 70 : 5000, n = 37;
  Strided<float, 2> x(random, {rows, n}, uniform(random, -1, 2)),
      dy(random, {rows, n}, uniform(random, -1, 1));
  std::vector<float> first;
  for (int i = 0; i < 3; ++i) {
    std::vector<float> dgamma(n, NAN), dbeta(n, NAN);
    on_test_device([](Stream& s, auto x, auto dy, auto dgamma,
                      auto dbeta) { ops::layernorm_backward(s, x, {}, dy, {}, dgamma, dbeta); },
                   x.view, dy.view, TensorView<float, 1>(dgamma), TensorView<float, 1>(dbeta));
    dgamma.insert(dgamma.end(), dbeta.begin(), dbeta.end());
    if (i == 0) first = dgamma;
    CHECK(dgamma == first);
  }
  Strided<float, 2> none(random, {0, n});
  Strided<float, 1> dgamma(random, {n}, [] { return 5.0; }), dbeta(random, {n}, [] { return 5.0; });
  const auto run = [&](bool accumulate) {
    on_test_device(
        [&](Stream& s, auto none, auto dgamma, auto dbeta) {
          ops::layernorm_backward(s, none, {}, none, none, dgamma, dbeta, {.accumulate = accumulate});
        },
        none.view, dgamma.view, dbeta.view);
  };
  run(true);
  dgamma.check(0, [](auto) { return 5.0; });
  run(false);
  dgamma.check(0, [](auto) { return 0.0; });
  dbeta.check(0, [](auto) { return 0.0; });
}

TEST_CASE("rows beyond the last one do not enter the sums if eps is 0") {
  Random random;
  KILN_SEED(random);
  Strided<float, 2> x(random, {3, 20}, uniform(random, 1, 2)), dy(random, {3, 20}, uniform(random, 1, 2));
  Strided<float, 1> dgamma(random, {20});
  on_test_device([](Stream& s, auto x, auto dy,
                    auto dgamma) { ops::rmsnorm_backward(s, x, {}, dy, {}, dgamma, {.eps = 0}); },
                 x.view, dy.view, dgamma.view);
  dgamma.check(1e-5, [&](auto c) {
    double total = 0;
    for (std::int64_t r = 0; r < 3; ++r) {
      double squares = 0;
      for (std::int64_t k = 0; k < 20; ++k)
        squares += x(r, k) * x(r, k) / 20;
      total += dy(r, c) * x(r, c) / std::sqrt(squares);
    }
    return total;
  });
}

TEST_CASE("gradients of norms refuse arguments that do not fit, and name them") {
  Stream stream;
  auto x = Tensor<float, 2>::zeros({4, 5}), dx = Tensor<float, 2>::zeros({4, 5}),
       z = Tensor<float, 2>::zeros({4, 6});
  auto v = Tensor<float, 1>::zeros({5}), w = Tensor<float, 1>::zeros({6});
  const auto says = [](const auto& call, const char* text) {
    CHECK_THROWS_WITH(call(), Catch::Contains(text));
  };
  says([&] { ops::layernorm_backward(stream, x, v, x, {}, {}, {}); },
       "ops::layernorm_backward: no result is given; pass dx, dgamma or dbeta");
  says([&] { ops::layernorm_backward(stream, x, v, {}, dx, {}, {}); }, "dy is not given; pass the gradient");
  says([&] { ops::layernorm_backward(stream, x, v, z, dx, {}, {}); },
       "x has extents {4, 5} and dy {4, 6}; pass tensors of the same extents");
  says([&] { ops::rmsnorm_backward(stream, x, w, x, dx, {}); },
       "ops::rmsnorm_backward: gamma's size and the extent of x's last axis differ: 6 != 5");
  says([&] { ops::rmsnorm_backward(stream, x, v, x, dx, v); }, "dgamma overlaps gamma");
  says([&] { ops::rmsnorm_backward(stream, x, v, x, {}, x.view().select(0, 1)); }, "dgamma overlaps x");
  says([&] { ops::rmsnorm_backward(stream, x, v, x, dx, dx.view().select(0, 1)); }, "dgamma overlaps dx");
  auto both = Tensor<float, 1>::zeros({5});
  says([&] { ops::layernorm_backward(stream, x, v, x, dx, both, both); }, "dbeta overlaps dgamma");
  stream.synchronize();
}
