// Kernels that are not in any list: what an author would try first. Run by the interpreter, against plain
// C++.
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
  Arguments()
      .view(x.data(), {rows, cols})
      .view(w.data(), {cols})
      .view(b.data(), {cols})
      .view(y.data(), {rows, cols})
      .scalar(1e-3f)
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
      REQUIRE(
          y[at(r * cols + c)] ==
          Approx((x[at(r * cols + c)] - mean) / std::sqrt(var + 1e-3) * w[at(c)] + b[at(c)]).margin(1e-4));
  }
}

TEST_CASE("transpose through a tile") {
  KILN_RANDOM_SEED();
  auto transpose = [](View<const float, 2> x, View<float, 2> y) {
    auto [m, n] = program_tile(x, BM, BN);
    y.tile(n, m).store(trans(x.tile(m, n).load()));
  };
  std::int64_t rows = random_integer(1, 30), cols = random_integer(1, 30);
  auto x = random_values<float>(rows * cols);
  std::vector<float> y(x.size(), NAN);
  Arguments()
      .view(x.data(), {rows, cols})
      .view(y.data(), {cols, rows})
      .run(*bound(transpose, {BM = 8, BN = 5}));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y[at(c * rows + r)] == x[at(r * cols + c)]);
}

TEST_CASE("argmax and argmin take the first of equals and pass over NaN") {
  auto arg = [](View<const float, 2> x, View<std::int32_t, 1> high, View<std::int32_t, 1> low) {
    auto [row] = program_tile(x, BM);
    auto t = x.tile(row, offset(BN, 0)).load();
    high.tile(row).store(argmax(t, BN));
    low.tile(row).store(argmin(t, axis<-1>));
  };
  float nan = NAN;
  std::vector<float> x = {1, 3, 3, 0, 0, nan, 2, -1, nan, -1, nan, nan, nan, nan, nan, 5, 5, 5, 5, 5};
  std::vector<std::int32_t> high(4, 7), low(4, 7);
  Arguments()
      .view(x.data(), {4, 5})
      .view(high.data(), {4})
      .view(low.data(), {4})
      .run(*bound(arg, {BM = 2, BN = 5}));
  CHECK(high == std::vector<std::int32_t>{1, 1, 0, 0});
  CHECK(low == std::vector<std::int32_t>{3, 2, 0, 0});
}

TEST_CASE("cumulative sums along either axis, forwards and backwards") {
  KILN_RANDOM_SEED();
  auto scan = [](View<const std::int32_t, 2> x, View<std::int32_t, 2> rows, View<std::int32_t, 2> cols) {
    auto [m, n] = program_tile(x, BM, BN);
    auto t = x.tile(m, n).load();
    rows.tile(m, n).store(cumsum(t, BN));
    cols.tile(m, n).store(associative_scan(t, BM, [](auto a, auto b) { return a + b; }, {.reverse = true}));
  };
  std::vector<std::int32_t> x, rows(12), cols(12);
  for (int i = 0; i < 12; ++i)
    x.push_back(static_cast<std::int32_t>(random_integer(-9, 9)));
  Arguments()
      .view(x.data(), {3, 4})
      .view(rows.data(), {3, 4})
      .view(cols.data(), {3, 4})
      .run(*bound(scan, {BM = 3, BN = 4}));
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) {
      std::int32_t across = 0, down = 0;
      for (int i = 0; i <= c; ++i)
        across += x[at(r * 4 + i)];
      for (int i = r; i < 3; ++i)
        down += x[at(i * 4 + c)];
      CHECK(rows[at(r * 4 + c)] == across);
      CHECK(cols[at(r * 4 + c)] == down);
    }
}

TEST_CASE("histogram with atomics on single elements") {
  KILN_RANDOM_SEED();
  auto histogram = [](View<const std::int32_t, 1> x, View<std::int32_t, 1> bins) {
    auto [i] = program_tile(x, BN);
    auto bin = x.tile(i).load_or(-1); // outside: no bin
    bins.at(bin).atomic_add(1, {.order = Order::relaxed});
  };
  std::int64_t n = random_integer(1, 300);
  std::vector<std::int32_t> x, bins(8), expected(8);
  for (std::int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<std::int32_t>(random_integer(0, 7)));
    ++expected[at(x.back())];
  }
  Arguments().view(x.data(), {n}).view(bins.data(), {8}).run(*bound(histogram, {BN = 32}));
  CHECK(bins == expected);
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
      .view(target.data(), {rows})
      .view(loss.data(), {rows})
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
  Arguments()
      .view(x.data(), {rows, cols})
      .view(w.data(), {cols})
      .view(dy.data(), {rows, cols})
      .view(dx.data(), {rows, cols})
      .view(dw.data(), {cols})
      .run(*bound(backward, {BM = 4, BN = 16}));
  std::vector<double> expected_dw(at(cols));
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
      REQUIRE(dx[i] == Approx(inv * (wg - x[i] * inv * inv * dot / static_cast<double>(cols))).margin(1e-3));
      expected_dw[at(c)] += dy[i] * x[i] * inv;
    }
  }
  for (std::int64_t c = 0; c < cols; ++c)
    REQUIRE(dw[at(c)] == Approx(expected_dw[at(c)]).margin(1e-4));
}

TEST_CASE("causal convolution in one dimension: shifted tiles, the taps unrolled") {
  KILN_RANDOM_SEED();
  auto conv = [](View<const float, 2> x, View<const float, 2> w,
                 View<float, 2> y) { // channels x time, channels x taps
    auto [c, t] = program_tile(y, BM, BN);
    Tile acc = zeros<float>(BM, BN);
    for (std::int64_t tap = 0; tap < value(TAPS); ++tap) {
      auto weight = w.tile(c, offset(1_c, tap)).load();
      acc = acc + weight * x.tile(c, t - (value(TAPS) - 1 - tap)).load(); // before the start reads zero
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
                   .load(); // one group of scales for each BK rows
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
      .run(*bound(quantised, {BM = 4, BN = 8, BK = 8}));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(x[at(i * k + l)]) * w[at(l * n + j)] * scale[at(l / 8 * n + j)];
      REQUIRE(y[at(i * n + j)] == Approx(sum).margin(1e-2));
    }
}

TEST_CASE("segmented sums: one program a segment, bounds read from memory") {
  KILN_RANDOM_SEED();
  auto segmented = [](View<const float, 1> x, View<const std::int64_t, 1> starts, View<float, 1> sums,
                      View<float, 1> peaks) {
    auto [segment] = program_tile(sums, 1_c);
    Scalar<std::int64_t> s = segment;
    auto begin = starts.tile(s).load(), end = starts.tile(s + 1).load();
    Var<float> total = 0, peak = -INFINITY;
    for_range(BN, range(begin, end), [&](auto i) {
      Tile inside = i + arange(BN) < end;
      auto t = x.tile(i).load(inside, 0.0f);
      total += sum(t);
      peak = max(peak, max(where(inside, t, -INFINITY)));
    });
    sums.tile(s).store(total);
    if_then(begin < end, [&] { peaks.tile(s).store(peak); });
  };
  std::int64_t segments = random_integer(1, 9);
  std::vector<std::int64_t> starts{0};
  for (std::int64_t i = 0; i < segments; ++i)
    starts.push_back(starts.back() + random_integer(0, 30));
  auto x = random_values<float>(starts.back() + 1);
  std::vector<float> sums(at(segments), NAN), peaks(at(segments), -7);
  Arguments()
      .view(x.data(), {starts.back()})
      .view(starts.data(), {segments + 1})
      .view(sums.data(), {segments})
      .view(peaks.data(), {segments})
      .run(*bound(segmented, {BN = 8}));
  for (std::int64_t s = 0; s < segments; ++s) {
    double total = 0;
    float peak = -7;
    for (std::int64_t i = starts[at(s)]; i < starts[at(s + 1)]; ++i) {
      total += x[at(i)];
      peak = std::max(peak, x[at(i)]);
    }
    REQUIRE(sums[at(s)] == Approx(total).margin(1e-5));
    REQUIRE(peaks[at(s)] == peak);
  }
}

TEST_CASE("segmented scan with a combine over two tiles") {
  auto scan = [](View<const float, 1> x, View<const bool, 1> heads, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    auto [sums, flags] =
        associative_scan(tie(x.tile(i).load(), heads.tile(i).load()), BN, [](auto a, auto b) {
          auto [x, head_x] = a;
          auto [y, head_y] = b;
          return tie(where(head_y, y, x + y), head_x | head_y);
        });
    y.tile(i).store(sums);
  };
  std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6, NAN);
  bool heads[] = {true, false, false, true, false, true};
  Arguments().view(x.data(), {6}).view(heads, {6}).view(y.data(), {6}).run(*bound(scan, {BN = 6}));
  CHECK(y == std::vector<float>{1, 3, 6, 4, 9, 6});
}

TEST_CASE("Welford's mean and variance as a reduction of three tiles") {
  KILN_RANDOM_SEED();
  auto welford = [](View<const float, 2> x, View<float, 2> out) {
    auto [m] = program_tile(x, BM);
    auto t = x.tile(m, offset(BN, 0)).load();
    auto [mean, m2, n] = reduce(tie(t, zeros<float>(BM, BN), ones<float>(BM, BN)), BN, [](auto a, auto b) {
      auto [mean_a, m2_a, n_a] = a;
      auto [mean_b, m2_b, n_b] = b;
      Scalar n = n_a + n_b;
      Scalar delta = mean_b - mean_a;
      return tie(mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n);
    });
    out.tile(m, 0).store(mean);
    out.tile(m, 1).store(m2 / n);
  };
  auto x = random_values<float>(3 * 10);
  std::vector<float> out(6, NAN);
  Arguments().view(x.data(), {3, 10}).view(out.data(), {3, 2}).run(*bound(welford, {BM = 2, BN = 10}));
  for (std::int64_t r = 0; r < 3; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < 10; ++c)
      mean += x[at(r * 10 + c)] / 10;
    for (std::int64_t c = 0; c < 10; ++c)
      var += std::pow(x[at(r * 10 + c)] - mean, 2) / 10;
    REQUIRE(out[at(r * 2)] == Approx(mean).margin(1e-6));
    REQUIRE(out[at(r * 2 + 1)] == Approx(var).margin(1e-6));
  }
}

TEST_CASE("while loops and branches: the Collatz length and a root by bisection") {
  auto collatz = [](View<std::int64_t, 1> x, View<std::int64_t, 1> steps, View<double, 1> root) {
    Scalar i = program_id(0);
    auto [n, count] = while_loop(
        state(x.tile(i).load(), std::int64_t{0}), [](auto n, auto) { return n > 1; },
        [](auto n, auto count) {
          auto next = if_else(n % 2 == 0, [&] { return n / 2; }, [&] { return 3 * n + 1; });
          return state(next, count + 1);
        });
    steps.tile(i).store(count);
    Var<double> low = 0, high = cast<double>(x.tile(i).load());
    while_loop(
        std::int64_t{0}, [](auto k) { return k < 60; },
        [&](auto k) {
          Scalar mid = (low + high) * 0.5;
          if_else(mid * mid * mid < cast<double>(x.tile(i).load()), [&] { low = mid; }, [&] { high = mid; });
          return k + 1;
        });
    root.tile(i).store(low);
  };
  std::vector<std::int64_t> x{1, 6, 7, 27}, steps(4, -1);
  std::vector<double> root(4, -1);
  auto kernel = bound(collatz, {});
  Arguments().view(x.data(), {4}).view(steps.data(), {4}).view(root.data(), {4}).run_on(*kernel, {4});
  CHECK(steps == std::vector<std::int64_t>{0, 8, 16, 111});
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(root[i] == Approx(std::cbrt(static_cast<double>(x[i]))));
}

TEST_CASE("raw pointers: a strided gather and an atomic maximum") {
  auto kernel = [](raw::Ptr<const float> in, raw::Ptr<float> out, raw::Ptr<std::int32_t> most,
                   Scalar<std::int32_t> n, Scalar<std::int64_t> stride) {
    auto i = program_id(0) * BN + arange(BN);
    auto mask = i < n;
    auto t = raw::load(in + i * stride, mask, 1.5f);
    raw::store(out + i, t * 2, mask);
    raw::atomic_max(most, cast<std::int32_t>(sum(cast<std::int32_t>(mask))));
  };
  std::vector<float> in(40), out(20, -1);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i);
  std::int32_t most = 0;
  Arguments()
      .pointer(in.data())
      .pointer(out.data())
      .pointer(&most)
      .scalar(std::int32_t{13})
      .scalar(std::int64_t{3})
      .run_on(*bound(kernel, {BN = 8}), {2});
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(out[i] == (i < 13 ? 6.0f * static_cast<float>(i) : -1));
  CHECK(most == 8);
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
    auto shared = h / 2; // two query heads for each head of keys
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

TEST_CASE("a box stencil by shifted tiles, edges clamped through gathers") {
  KILN_RANDOM_SEED();
  auto blur = [](View<const std::uint8_t, 3> in, View<std::uint8_t, 3> out) { // height x width x channels
    auto [y, x, c] = program_tile(out, BM, BN, 3_c);
    Tile rows = expand<-1>(expand<-1>(y + arange(BM)));
    Tile cols = expand<-1>(x + arange(BN));
    Tile sum = zeros<std::int32_t>(BM, BN, 3_c);
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        sum += cast<std::int32_t>(in.at(clamp(rows + dy, 0, in.extent(0) - 1),
                                        clamp(cols + dx, 0, in.extent(1) - 1), c + arange(3_c))
                                      .load());
    out.tile(y, x, c).store(cast<std::uint8_t>((sum + 4) / 9));
  };
  std::int64_t height = random_integer(1, 12), width = random_integer(1, 12);
  std::vector<std::uint8_t> in, out(at(height * width * 3));
  for (std::size_t i = 0; i < out.size(); ++i)
    in.push_back(static_cast<std::uint8_t>(random_integer(0, 255)));
  Arguments()
      .view(in.data(), {height, width, 3})
      .view(out.data(), {height, width, 3})
      .run(*bound(blur, {BM = 4, BN = 5}));
  auto clamped = [](std::int64_t i, std::int64_t n) { return std::clamp<std::int64_t>(i, 0, n - 1); };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c) {
        int sum = 4;
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx)
            sum += in[at((clamped(y + dy, height) * width + clamped(x + dx, width)) * 3 + c)];
        REQUIRE(int{out[at((y * width + x) * 3 + c)]} == sum / 9);
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
