// Compares kernels of neural networks, written as a user would write them, with plain C++.
#include "language_test.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);
KILN_DIM(TAPS);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
} // namespace

TEST_CASE("softmax of rows of any width, in one pass for maximum and sum") {
  KILN_RANDOM_SEED();
  auto softmax = [](View<const float, 2> x, View<float, 2> y) {
    auto [row] = program_tile(x, BM);
    auto [m, l] = for_range(BN, x.cols(), state(full<float>(-INFINITY, BM), zeros<float>(BM)),
                            [&](auto col, auto m, auto l) {
                              auto t = x.tile(row, col).load_or(-INFINITY);
                              Tile next = max(m, max(t, BN));
                              Tile scaled = l * exp(m - next) + sum(exp(t - expand<1>(next)), BN);
                              return state(next, scaled);
                            });
    for_range(BN, x.cols(), [&](auto col) {
      auto t = x.tile(row, col).load();
      y.tile(row, col).store(exp(t - expand<1>(m)) / expand<1>(l));
    });
  };
  std::int64_t rows = random_integer(1, 20), cols = random_integer(1, 50);
  auto x = random_values<float>(rows * cols, -5, 5);
  std::vector<float> y(x.size(), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .view(y.data(), {rows, cols})
      .run(*bound(softmax, {BM = 4, BN = 7}));
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      total += std::exp(x[at(r * cols + c)]);
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y[at(r * cols + c)] == Approx(std::exp(x[at(r * cols + c)]) / total));
  }
}

TEST_CASE("layer norm with Vars as accumulators") {
  KILN_RANDOM_SEED();
  auto layernorm = [](View<const float, 2> x, View<const float, 1> w, View<const float, 1> b,
                      View<float, 2> y, Scalar<float> eps) {
    auto [row] = program_tile(x, BM);
    Var total = zeros<float>(BM), squares = zeros<float>(BM);
    for_range(BN, x.cols(), [&](auto col) {
      Tile t = x.tile(row, col).load();
      total += sum(t, BN);
      squares += sum(t * t, BN);
    });
    Tile mean = total / cast<float>(x.cols());
    Tile scale = rsqrt(squares / cast<float>(x.cols()) - mean * mean + eps);
    for_range(BN, x.cols(), [&](auto col) {
      Tile t = (x.tile(row, col).load() - expand<1>(mean)) * expand<1>(scale);
      y.tile(row, col).store(t * w.tile(col).load() + b.tile(col).load());
    });
  };
  std::int64_t rows = random_integer(1, 9), cols = random_integer(2, 40);
  auto x = random_values<float>(rows * cols), w = random_values<float>(cols), b = random_values<float>(cols);
  std::vector<float> y(x.size(), NAN);
  const float eps = 0.125f; // large, because the variance of a short row may be rounding error only
  Arguments()
      .view(x.data(), {rows, cols})
      .view(w.data(), {cols})
      .view(b.data(), {cols})
      .view(y.data(), {rows, cols})
      .sums_terms_of(1) // b
      .scalar(eps)
      .run(*bound(layernorm, {BM = 2, BN = 8}));
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      mean += x[at(r * cols + c)];
    mean /= static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c)
      var += std::pow(x[at(r * cols + c)] - mean, 2);
    var /= static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y[at(r * cols + c)] ==
              Approx((x[at(r * cols + c)] - mean) / std::sqrt(var + eps) * w[at(c)] + b[at(c)]).margin(1e-5));
  }
}

TEST_CASE("cross-entropy over a large vocabulary, with its gradient in place") {
  KILN_RANDOM_SEED();
  auto cross_entropy = [](View<float, 2> logits, View<const std::int64_t, 1> target, View<float, 1> loss) {
    auto [row] = program_tile(loss, 1_c);
    Scalar<std::int64_t> r = row;
    auto [m, l] = for_range(BN, logits.cols(), state(-INFINITY, 0.0f), [&](auto n, auto m, auto l) {
      auto x = logits.tile(r, n).load_or(-INFINITY);
      Scalar next = max(m, max(x));
      return state(next, l * exp(m - next) + sum(exp(x - next)));
    });
    auto label = target.tile(r).load();
    loss.tile(r).store(m + log(l) - logits.tile(r, label).load());
    for_range(BN, logits.cols(), [&](auto n) {
      auto p = exp(logits.tile(r, n).load() - m) / l;
      logits.tile(r, n).store(p - where(n + arange(BN) == label, 1.0f, 0.0f));
    });
  };
  std::int64_t rows = random_integer(1, 5), cols = random_integer(2, 100);
  auto x = random_values<float>(rows * cols, -3, 3);
  auto before = x;
  std::vector<std::int64_t> target;
  for (std::int64_t i = 0; i < rows; ++i)
    target.push_back(random_integer(0, cols - 1));
  std::vector<float> loss(at(rows), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .sums_terms_of(1) // a probability minus its target
      .view(target.data(), {rows})
      .view(loss.data(), {rows})
      .sums_terms_of(3) // a logit
      .run(*bound(cross_entropy, {BN = 16}));
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      total += std::exp(before[at(r * cols + c)]);
    REQUIRE(loss[at(r)] == Approx(std::log(total) - before[at(r * cols + target[at(r)])]).margin(1e-5));
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(x[at(r * cols + c)] ==
              Approx(std::exp(before[at(r * cols + c)]) / total - (c == target[at(r)])).margin(1e-5));
  }
}

TEST_CASE("RMS norm backward") {
  KILN_RANDOM_SEED();
  auto backward = [](View<const float, 2> x, View<const float, 1> w, View<const float, 2> dy,
                     View<float, 2> dx, View<float, 1> dw) {
    auto [m] = program_tile(x, BM);
    Offset<BN> n = offset(BN, 0);
    Tile t = x.tile(m, n).load();
    Tile g = dy.tile(m, n).load();
    auto inv_n = 1.0f / cast<float>(x.cols());
    Tile inv = rsqrt(sum(t * t, BN, keep) * inv_n + 1e-5f);
    Tile wg = g * w.tile(n).load();
    Tile proj = sum(wg * t, BN, keep) * inv_n;
    dx.tile(m, n).store(inv * (wg - t * inv * inv * proj));
    dw.tile(n).atomic_add(sum(g * t * inv, BM));
  };
  std::int64_t rows = random_integer(1, 12), cols = random_integer(1, 16);
  auto x = random_values<float>(rows * cols), w = random_values<float>(cols),
       dy = random_values<float>(rows * cols);
  std::vector<float> dx(x.size(), NAN), dw(at(cols), 0);
  std::vector<double> expected_dx(x.size()), expected_dw(at(cols));
  double term_of_dx = 0, term_of_dw = 0; // the differences cancel: with one column, dx is only rounding error
  for (std::int64_t r = 0; r < rows; ++r) {
    double square = 0, dot = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      auto i = at(r * cols + c);
      square += x[i] * x[i];
      dot += static_cast<double>(dy[i]) * w[at(c)] * x[i];
    }
    double inv = 1 / std::sqrt(square / static_cast<double>(cols) + 1e-5);
    for (std::int64_t c = 0; c < cols; ++c) {
      auto i = at(r * cols + c);
      double wg = static_cast<double>(dy[i]) * w[at(c)];
      expected_dx[i] = inv * (wg - x[i] * inv * inv * dot / static_cast<double>(cols));
      expected_dw[at(c)] += dy[i] * x[i] * inv;
      term_of_dx = std::max(term_of_dx, std::fabs(inv * wg));
      term_of_dw = std::max(term_of_dw, std::fabs(dy[i] * x[i] * inv));
    }
  }
  Arguments()
      .view(x.data(), {rows, cols})
      .view(w.data(), {cols})
      .view(dy.data(), {rows, cols})
      .view(dx.data(), {rows, cols})
      .sums_terms_of(term_of_dx)
      .view(dw.data(), {cols})
      .sums_terms_of(term_of_dw)
      .run(*bound(backward, {BM = 4, BN = 16}));
  for (std::size_t i = 0; i < dx.size(); ++i)
    REQUIRE(dx[i] == Approx(expected_dx[i]).margin(1e-5 * term_of_dx));
  for (std::int64_t c = 0; c < cols; ++c)
    REQUIRE(dw[at(c)] == Approx(expected_dw[at(c)]).margin(1e-5 * term_of_dw));
}

TEST_CASE("causal convolution in one dimension: shifted tiles, the taps unrolled") {
  KILN_RANDOM_SEED();
  auto conv = [](View<const float, 2> x, View<const float, 2> w,
                 View<float, 2> y) { // channels x time, channels x taps
    auto [c, t] = program_tile(y, BM, BN);
    Tile acc = zeros<float>(BM, BN);
    for (std::int64_t tap = 0; tap < value(TAPS); ++tap) {
      auto weight = w.tile(c, offset(1_c, tap)).load();
      acc = acc +
            weight * x.tile(c, t - (value(TAPS) - 1 - tap)).load(); // elements before the start read as zero
    }
    y.tile(c, t).store(silu(acc));
  };
  std::int64_t channels = random_integer(1, 6), time = random_integer(1, 40), taps = random_integer(1, 5);
  auto x = random_values<float>(channels * time), w = random_values<float>(channels * taps);
  std::vector<float> y(x.size(), NAN);
  auto kernel = bound(conv, {BM = 4, BN = 8, TAPS = taps});
  CHECK(kernel->config_specific);
  Arguments()
      .view(x.data(), {channels, time})
      .view(w.data(), {channels, taps})
      .view(y.data(), {channels, time})
      .sums_terms_of(1)
      .run(*kernel);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < time; ++t) {
      double sum = 0;
      for (std::int64_t k = 0; k < taps; ++k)
        if (t - (taps - 1 - k) >= 0) sum += w[at(c * taps + k)] * x[at(c * time + t - (taps - 1 - k))];
      REQUIRE(y[at(c * time + t)] == Approx(sum / (1 + std::exp(-sum))).margin(1e-5));
    }
}

TEST_CASE("top-2 router") {
  KILN_RANDOM_SEED();
  auto router = [](View<const float, 2> logits, View<std::int32_t, 2> experts, View<float, 2> weights) {
    auto [m] = program_tile(logits, BM);
    auto t = logits.tile(m, offset(BN, 0)).load_or(-INFINITY);
    Tile first = argmax(t, BN, keep);
    Tile rest = where(arange(BN) == first, -INFINITY, t);
    Tile second = argmax(rest, BN, keep);
    Tile gap = exp(max(rest, BN, keep) - max(t, BN, keep));
    auto one = offset(1_c, 0), two = offset(1_c, 1);
    experts.tile(m, one).store(first);
    experts.tile(m, two).store(second);
    weights.tile(m, one).store(1 / (1 + gap));
    weights.tile(m, two).store(gap / (1 + gap));
  };
  std::int64_t rows = random_integer(1, 9), cols = random_integer(2, 16);
  auto x = random_values<float>(rows * cols, -4, 4);
  std::vector<std::int32_t> experts(at(rows * 2), -1);
  std::vector<float> weights(at(rows * 2), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .view(experts.data(), {rows, 2})
      .view(weights.data(), {rows, 2})
      .run(*bound(router, {BM = 4, BN = 16}));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t a = 0, b = -1;
    for (std::int64_t c = 1; c < cols; ++c)
      if (x[at(r * cols + c)] > x[at(r * cols + a)]) a = c;
    for (std::int64_t c = 0; c < cols; ++c)
      if (c != a && (b < 0 || x[at(r * cols + c)] > x[at(r * cols + b)])) b = c;
    REQUIRE(experts[at(r * 2)] == a);
    REQUIRE(experts[at(r * 2 + 1)] == b);
    double e = std::exp(x[at(r * cols + b)] - x[at(r * cols + a)]);
    REQUIRE(weights[at(r * 2)] == Approx(1 / (1 + e)));
    REQUIRE(weights[at(r * 2 + 1)] == Approx(e / (1 + e)));
  }
}

TEST_CASE("int8 weights dequantised by groups, then multiplied") {
  KILN_RANDOM_SEED();
  auto quantised = [](View<const float, 2> x, View<const std::int8_t, 2> w, View<const float, 2> scale,
                      View<float, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    auto acc = for_range(BK, x.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      Tile s = scale.tile(Scalar<std::int64_t>(k / dim_size(BK)), n)
                   .load(); // one row of scales for each BK rows of weights
      return dot(x.tile(m, k).load(), cast<float>(w.tile(k, n).load()) * s, acc);
    });
    y.tile(m, n).store(acc);
  };
  std::int64_t m = random_integer(1, 9), n = random_integer(1, 20), k = random_integer(1, 30),
               groups = (k + 7) / 8;
  auto x = random_values<float>(m * k), scale = random_values<float>(groups * n);
  std::vector<std::int8_t> w;
  for (std::int64_t i = 0; i < k * n; ++i)
    w.push_back(static_cast<std::int8_t>(random_integer(-128, 127)));
  std::vector<float> y(at(m * n), NAN);
  Arguments()
      .view(x.data(), {m, k})
      .view(w.data(), {k, n})
      .view(scale.data(), {groups, n})
      .view(y.data(), {m, n})
      .sums_terms_of(128)
      .run(*bound(quantised, {BM = 4, BN = 8, BK = 8}));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(x[at(i * k + l)]) * w[at(l * n + j)] * scale[at(l / 8 * n + j)];
      REQUIRE(y[at(i * n + j)] == Approx(sum).margin(1e-2));
    }
}

TEST_CASE("batched dot over leading axes") {
  KILN_RANDOM_SEED();
  auto batched = [](View<const float, 3> a, View<const float, 3> b, View<float, 3> c) {
    auto [z, m, n] = program_tile(c, 2_c, BM, BN);
    c.tile(z, m, n).store(
        dot(a.tile(z, m, offset(BK, 0)).load(), b.tile(z, offset(BK, 0), n).load(), Precision::tf32));
  };
  auto a = random_values<float>(3 * 4 * 6), b = random_values<float>(3 * 6 * 5);
  std::vector<float> c(3 * 4 * 5, NAN);
  Arguments()
      .view(a.data(), {3, 4, 6})
      .view(b.data(), {3, 6, 5})
      .view(c.data(), {3, 4, 5})
      .sums_terms_of(1)
      .run(*bound(batched, {BM = 4, BN = 4, BK = 6}));
  for (int z = 0; z < 3; ++z)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j) {
        double sum = 0;
        for (int k = 0; k < 6; ++k)
          sum += static_cast<double>(a[at((z * 4 + i) * 6 + k)]) * b[at((z * 6 + k) * 5 + j)];
        REQUIRE(c[at((z * 4 + i) * 5 + j)] == Approx(sum).margin(1e-2));
      }
}

TEST_CASE("causal attention over heads that share keys, with the loop ending at the diagonal") {
  KILN_RANDOM_SEED();
  auto attention = [](View<const float, 3> q, View<const float, 3> k, View<const float, 3> v,
                      View<float, 3> out,
                      Scalar<float> scale) { // heads x time x BK
    auto [head, m] = program_tile(q, 1_c, BM);
    Scalar<std::int64_t> h = head;
    auto shared = h / 2; // two query heads share a head of keys
    auto d = offset(BK, 0);
    Tile rows = m + arange(BM);
    auto query = q.tile(h, m, d).load();
    Scalar last = min(k.extent(1), m + dim_size(BM));
    Var high = full(-INFINITY, BM), total = zeros<float>(BM);
    Var acc = zeros<float>(BM, BK);
    for_range(BN, last, [&](auto n) {
      Tile cols = n + arange(BN);
      Tile s = dot(query, trans(k.tile(shared, n, d).load())) * scale;
      s = where((cols <= expand<1>(rows)) & (cols < k.extent(1)), s, -INFINITY);
      Tile next = max(high, max(s, BN));
      Tile shrink = exp(high - next);
      Tile p = exp(s - expand<1>(next));
      total = total * shrink + sum(p, BN);
      acc = acc * expand<1>(shrink) + dot(p, v.tile(shared, n, d).load());
      high = next;
    });
    out.tile(h, m, d).store(acc / expand<1>(total));
  };
  const std::int64_t heads = 4, width = 5, time = random_integer(1, 20);
  auto q = random_values<float>(heads * time * width), k = random_values<float>(heads / 2 * time * width),
       v = random_values<float>(heads / 2 * time * width);
  std::vector<float> out(q.size(), NAN);
  Arguments()
      .view(q.data(), {heads, time, width})
      .view(k.data(), {heads / 2, time, width})
      .view(v.data(), {heads / 2, time, width})
      .view(out.data(), {heads, time, width})
      .sums_terms_of(1) // v
      .scalar(0.5f)
      .run(*bound(attention, {BM = 4, BN = 3, BK = width}));
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t t = 0; t < time; ++t) {
      std::vector<double> weight;
      double total = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::int64_t c = 0; c < width; ++c)
          score +=
              static_cast<double>(q[at((h * time + t) * width + c)]) * k[at((h / 2 * time + s) * width + c)];
        weight.push_back(std::exp(score * 0.5));
        total += weight.back();
      }
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s)
          sum += weight[at(s)] / total * v[at((h / 2 * time + s) * width + c)];
        REQUIRE(out[at((h * time + t) * width + c)] == Approx(sum).margin(1e-5));
      }
    }
}

TEST_CASE("dropout, and a persistent loop over tiles") {
  KILN_RANDOM_SEED();
  auto dropout = [](View<const float, 1> x, View<float, 1> y, Scalar<float> p, Scalar<std::int64_t> seed) {
    for_range(program_id(0), cdiv(x.size(), BN), num_programs(0), [&](auto tile) {
      auto i = tile * BN;
      auto kept = rand(seed, i + arange(BN)) >= p;
      y.tile(i).store(where(kept, x.tile(i).load() / (1 - p), 0));
    });
  };
  std::int64_t n = random_integer(200, 400);
  auto x = random_values<float>(n, 1, 2);
  std::vector<float> y(x.size(), NAN);
  auto kernel = bound(dropout, {BN = 16});
  Arguments()
      .view(x.data(), {n})
      .view(y.data(), {n})
      .scalar(0.25f)
      .scalar(std::int64_t{42})
      .run_on(*kernel, {3});
  int kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE((y[i] == 0 || y[i] == Approx(x[i] / 0.75f)));
    kept += y[i] != 0;
  }
  CHECK(std::abs(kept - 0.75 * static_cast<double>(n)) < 6 * std::sqrt(static_cast<double>(n) * 0.1875));
}
