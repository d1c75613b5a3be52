// Tests kernels of neural networks, written as a user would, with the public interface only.
#include "strided.h"

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

TEMPLATE_TEST_CASE("outside: cross-entropy over a large vocabulary", "", float, bf16, f16) {
  using T = TestType;
  const auto forward = kernel(
      "cross_entropy", [](View<const T, 2> logits, View<const std::int64_t, 1> targets, View<float, 1> loss,
                          View<float, 1> lse, Scalar<std::int64_t> ignored, Scalar<float> smoothing) {
        auto [m] = program_tile(logits, BM);
        auto begin = state(full(-INFINITY, BM), zeros<float>(BM), zeros<float>(BM));
        auto [top, total, plain] =
            for_range(BN, logits.cols(), begin, [&](auto n, auto top, auto total, auto plain) {
              Tile x = cast<float>(logits.tile(m, n).load_or(-INFINITY));
              Tile next = max(top, max(x, BN));
              return state(next, total * exp(top - next) + sum(exp(x - expand<1>(next)), BN),
                           plain + sum(where(n + arange(BN) < logits.cols(), x, 0), BN));
            });
        Tile target = targets.tile(m).load();
        Tile picked = cast<float>(logits.at(m + arange(BM), target).load(target != ignored));
        Tile l = top + log(total);
        Tile mean = plain / cast<float>(logits.cols());
        lse.tile(m).store(l);
        loss.tile(m).store(where(target == ignored, 0.0f, l - (1 - smoothing) * picked - smoothing * mean));
      });
  // The gradient replaces the logits.
  const auto backward =
      kernel("cross_entropy_backward",
             [](View<T, 2> logits, View<const std::int64_t, 1> targets, View<const float, 1> lse,
                Scalar<std::int64_t> ignored, Scalar<float> scale) {
               auto [m, n] = program_tile(logits, BM, BN);
               auto here = logits.tile(m, n);
               Tile target = targets.tile(m).load();
               Tile p = exp(cast<float>(here.load()) - expand<1>(lse.tile(m).load()));
               Tile hit = expand<1>(target) == n + arange(BN);
               Tile g = where(expand<1>(target == ignored), 0, p - cast<float>(hit)) * scale;
               here.store(cast<T>(g));
             });

  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 11), words = random.integer(1, run.interpreted ? 300 : 40000);
  constexpr double largest = 20; // the largest term of the loss; with one word, the terms cancel to 0
  Strided<T, 2> logits(random, {rows, words}, uniform(random, -largest, largest));
  Strided<std::int64_t, 1> targets(random, {rows}, integers(random, 0, words - 1));
  targets.view(rows / 2) = -100;
  Strided<float, 1> loss(random, {rows}), lse(random, {rows});
  run(forward, {BM = 4, BN = 128}, logits.view, targets.view, loss.view, lse.view, -100, 0.1f);

  auto exact = [&](std::int64_t r) {
    double total = 0;
    for (std::int64_t c = 0; c < words; ++c)
      total += std::exp(logits(r, c));
    return std::log(total);
  };
  lse.check(1e-5, exact, largest);
  loss.check(
      1e-5,
      [&](auto r) {
        if (targets.view(r) == -100) return 0.0;
        double mean = 0;
        for (std::int64_t c = 0; c < words; ++c)
          mean += logits(r, c) / static_cast<double>(words);
        return exact(r) - 0.9 * logits(r, targets.view(r)) - 0.1 * mean;
      },
      largest);

  std::vector<double> gradient;
  logits.each([&](auto r, auto c) {
    const auto target = targets.view(r);
    gradient.push_back(
        target == -100 ? 0 : 0.5 * (std::exp(logits(r, c) - to_double(lse.view(r))) - (c == target)));
  });
  run(backward, {BM = 2, BN = 64}, logits.view, targets.view, lse.view, -100, 0.5f);
  logits.check(
      tolerance<T>() + 1e-5,
      [&](auto r, auto c) { return gradient[static_cast<std::size_t>(r * words + c)]; }, 1);
}

TEMPLATE_TEST_CASE("outside: RMSNorm with its backward", "", float, bf16) {
  using T = TestType;
  const auto forward = kernel("rms_norm", [](View<const T, 2> x, View<const T, 1> w, View<T, 2> y,
                                             View<float, 1> r, Scalar<float> eps) {
    auto [m] = program_tile(x, BM);
    Tile squares = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto acc) {
      Tile t = cast<float>(x.tile(m, n).load());
      return acc + sum(t * t, BN);
    });
    Tile scale = rsqrt(squares / cast<float>(x.cols()) + eps);
    r.tile(m).store(scale);
    for_range(BN, x.cols(), [&](auto n) {
      Tile t = cast<float>(x.tile(m, n).load());
      y.tile(m, n).store(cast<T>(t * expand<1>(scale) * cast<float>(w.tile(n).load())));
    });
  });
  const auto backward_x =
      kernel("rms_norm_backward_x", [](View<const T, 2> x, View<const T, 1> w, View<const T, 2> dy,
                                       View<const float, 1> r, View<T, 2> dx) {
        auto [m] = program_tile(x, BM);
        Tile scale = r.tile(m).load();
        Var products = zeros<float>(BM);
        for_range(BN, x.cols(), [&](auto n) {
          Tile g = cast<float>(dy.tile(m, n).load()) * cast<float>(w.tile(n).load());
          products += sum(g * cast<float>(x.tile(m, n).load()), BN);
        });
        Tile correction = products * scale * scale / cast<float>(x.cols());
        for_range(BN, x.cols(), [&](auto n) {
          Tile g = cast<float>(dy.tile(m, n).load()) * cast<float>(w.tile(n).load());
          Tile t = cast<float>(x.tile(m, n).load());
          dx.tile(m, n).store(cast<T>(expand<1>(scale) * (g - t * expand<1>(correction))));
        });
      });
  const auto backward_w = kernel("rms_norm_backward_w", [](View<const T, 2> x, View<const T, 2> dy,
                                                           View<const float, 1> r, View<float, 1> dw) {
    auto [n] = program_tile(dw, BN);
    auto total = for_range(BM, x.rows(), zeros<float>(BN), [&](auto m, auto acc) {
      Tile t = cast<float>(dy.tile(m, n).load()) * cast<float>(x.tile(m, n).load());
      return acc + sum(t * expand<1>(r.tile(m).load()), BM);
    });
    dw.tile(n).store(total);
  });

  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  // At least 8 columns: with one column the gradient is only rounding error, g minus the same g.
  const std::int64_t rows = random.integer(1, 40), cols = random.integer(8, run.interpreted ? 70 : 900);
  Strided<T, 2> x(random, {rows, cols}, uniform(random, -2, 2)),
      dy(random, {rows, cols}, uniform(random, -1, 1));
  Strided<T, 1> w(random, {cols}, uniform(random, 0.5, 1.5));
  Strided<T, 2> y(random, {rows, cols}), dx(random, {rows, cols});
  Strided<float, 1> r(random, {rows}), dw(random, {cols});
  run(forward, {BM = 3, BN = 64}, x.view, w.view, y.view, r.view, 1e-5f);
  run(backward_x, {BM = 4, BN = 48}, x.view, w.view, dy.view, r.view, dx.view);
  run(backward_w, {BM = 8, BN = 32}, x.view, dy.view, r.view, dw.view);

  auto scale = [&](std::int64_t m) {
    double squares = 0;
    for (std::int64_t n = 0; n < cols; ++n)
      squares += x(m, n) * x(m, n);
    return 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
  };
  std::vector<double> scales, products;
  for (std::int64_t m = 0; m < rows; ++m) {
    scales.push_back(scale(m));
    double p = 0;
    for (std::int64_t n = 0; n < cols; ++n)
      p += x(m, n) * dy(m, n) * w(n);
    products.push_back(p);
  }
  auto at = [](const std::vector<double>& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; };
  y.check(tolerance<T>(), [&](auto m, auto n) { return x(m, n) * w(n) * at(scales, m); });
  dx.check(2 * tolerance<T>(), [&](auto m, auto n) {
    const double s = at(scales, m);
    return s * (dy(m, n) * w(n) - x(m, n) * at(products, m) * s * s / static_cast<double>(cols));
  });
  dw.check(1e-5, [&](auto n) {
    double d = 0;
    for (std::int64_t m = 0; m < rows; ++m)
      d += dy(m, n) * x(m, n) * at(scales, m);
    return d;
  });
}

TEMPLATE_TEST_CASE("outside: a causal depthwise convolution in one dimension", "", float, f16) {
  using T = TestType;
  // y[b, t, c] = silu(bias[c] + sum over k of w[c, k] * x[b, t - K + 1 + k, c])
  const auto convolution = kernel(
      "causal_conv1d", [](View<const T, 3> x, View<const T, 2> w, View<const float, 1> bias, View<T, 3> y) {
        auto [b, t, c] = program_tile(y, 1_c, BM, BN);
        Scalar<std::int64_t> batch = b;
        Var sums = broadcast(expand<0>(bias.tile(c).load()), BM, BN);
        const auto taps = w.extent(1);
        for_range(0, taps, 1, [&](auto k) {
          Tile row = cast<float>(x.tile(batch, t + (k - taps + 1), c).load());
          sums += row * expand<0>(cast<float>(w.tile(c, k).load()));
        });
        y.tile(batch, t, c).store(cast<T>(silu(sums)));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t batches = random.integer(1, 3), times = random.integer(1, 70),
                     channels = random.integer(1, 50), taps = random.integer(1, 6);
  Strided<T, 3> x(random, {batches, times, channels}, uniform(random, -1, 1)),
      y(random, {batches, times, channels});
  Strided<T, 2> w(random, {channels, taps}, uniform(random, -1, 1));
  Strided<float, 1> bias(random, {channels}, uniform(random, -1, 1));
  run(convolution, {BM = 16, BN = 24}, x.view, w.view, bias.view, y.view);
  y.check(tolerance<T>(), [&](auto b, auto t, auto c) {
    double s = bias(c);
    for (std::int64_t k = 0; k < taps; ++k)
      if (t + k - taps + 1 >= 0) s += w(c, k) * x(b, t + k - taps + 1, c);
    return s / (1 + std::exp(-s));
  });
}

TEMPLATE_TEST_CASE("outside: a top-2 router", "", float, bf16) {
  using T = TestType;
  const auto router =
      kernel("top2_router", [](View<const T, 2> logits, View<float, 2> weights, View<std::int32_t, 2> experts,
                               View<std::int32_t, 2> slots, View<std::int32_t, 1> counts) {
        auto [m] = program_tile(logits, BM);
        auto n = offset(BN, 0); // BN covers all experts
        Tile x = cast<float>(logits.tile(m, n).load_or(-INFINITY));
        Tile first = argmax(x, BN);
        Tile high = max(x, BN);
        Tile rest = where(arange(BN) == expand<1>(first), -INFINITY, x);
        Tile second = argmax(rest, BN);
        Tile low = max(rest, BN);
        Tile p = sigmoid(high - low); // softmax over the two
        Tile inside = m + arange(BM) < logits.rows();
        weights.tile(m, 0).store(p);
        weights.tile(m, 1).store(1 - p);
        experts.tile(m, 0).store(first);
        experts.tile(m, 1).store(second);
        slots.tile(m, 0).store(counts.at(first).atomic_add(1, inside));
        slots.tile(m, 1).store(counts.at(second).atomic_add(1, inside));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t tokens = random.integer(1, 200), experts = random.integer(2, 24);
  Strided<T, 2> logits(random, {tokens, experts}, uniform(random, -4, 4));
  Strided<float, 2> weights(random, {tokens, 2});
  Strided<std::int32_t, 2> chosen(random, {tokens, 2}), slots(random, {tokens, 2});
  Strided<std::int32_t, 1> counts(random, {experts}, [] { return 0; });
  run(router, {BM = 16, BN = 24}, logits.view, weights.view, chosen.view, slots.view, counts.view);

  std::vector<std::vector<int>> taken(static_cast<std::size_t>(experts));
  for (std::int64_t m = 0; m < tokens; ++m) {
    std::int64_t a = 0, b = -1;
    for (std::int64_t e = 1; e < experts; ++e)
      if (logits(m, e) > logits(m, a)) a = e;
    for (std::int64_t e = 0; e < experts; ++e)
      if (e != a && (b < 0 || logits(m, e) > logits(m, b))) b = e;
    REQUIRE(chosen.view(m, 0) == a);
    REQUIRE(chosen.view(m, 1) == b);
    const double p = 1 / (1 + std::exp(logits(m, b) - logits(m, a)));
    REQUIRE(weights.view(m, 0) == Approx(p).margin(1e-6));
    REQUIRE(weights.view(m, 1) == Approx(1 - p).margin(1e-6));
    for (int i : {0, 1})
      taken[static_cast<std::size_t>(chosen.view(m, i))].push_back(slots.view(m, i));
  }
  for (std::int64_t e = 0; e < experts; ++e) {
    auto& t = taken[static_cast<std::size_t>(e)];
    std::sort(t.begin(), t.end());
    REQUIRE(counts.view(e) == static_cast<int>(t.size()));
    for (std::size_t i = 0; i < t.size(); ++i)
      REQUIRE(t[i] == static_cast<int>(i)); // every slot is used once
  }
  weights.check_gaps(), chosen.check_gaps(), slots.check_gaps(), counts.check_gaps();
}

TEMPLATE_TEST_CASE("outside: group norm", "", float, bf16) {
  using T = TestType;
  const auto group_norm = kernel("group_norm", [](View<const T, 3> x, View<const float, 1> w,
                                                  View<const float, 1> b, View<T, 3> y,
                                                  Scalar<std::int64_t> groups) {
    auto image = program_id(1), group = program_id(0);
    auto size = cdiv(x.extent(1), groups);
    auto first = group * size;
    auto last = min(first + size, x.extent(1));
    auto count = cast<float>((last - first) * x.extent(2));
    auto sweep = [&](const auto& body) {
      for_range(BM, range(first, last), [&](auto c) {
        for_range(BN, x.extent(2), [&](auto n) { body(c, n, (expand<1>(c + arange(BM)) < last)); });
      });
    };
    Var<float> total = 0;
    sweep([&](auto c, auto n, auto mask) { total += sum(cast<float>(x.tile(image, c, n).load(mask))); });
    Scalar mean = total / count;
    Var<float> squares = 0;
    sweep([&](auto c, auto n, auto mask) {
      Tile d = cast<float>(x.tile(image, c, n).load(mask)) - mean;
      squares += sum(where(mask & (n + arange(BN) < x.extent(2)), d * d, 0));
    });
    Scalar scale = rsqrt(squares / count + 1e-5f);
    sweep([&](auto c, auto n, auto mask) {
      Tile d = (cast<float>(x.tile(image, c, n).load()) - mean) * scale;
      y.tile(image, c, n).store(cast<T>(d * expand<1>(w.tile(c).load()) + expand<1>(b.tile(c).load())), mask);
    });
  });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t images = random.integer(1, 3), groups = random.integer(1, 4),
                     size = random.integer(1, 9), channels = groups * size, pixels = random.integer(1, 100);
  Strided<T, 3> x(random, {images, channels, pixels}, uniform(random, -1, 3)),
      y(random, {images, channels, pixels});
  Strided<float, 1> w(random, {channels}, uniform(random, -1, 1)),
      b(random, {channels}, uniform(random, -1, 1));
  if (interpreted) {
    group_norm.interpret({BM = 4, BN = 32}, Grid{groups, images}, x.view, w.view, b.view, y.view, groups);
  } else {
    Stream stream;
    group_norm.launch(stream, {BM = 4, BN = 32}, Grid{groups, images}, x.view, w.view, b.view, y.view,
                      groups);
    stream.synchronize();
  }
  const double n = static_cast<double>(size * pixels);
  y.check(4 * tolerance<T>(), [&](auto i, auto c, auto p) {
    double mean = 0, variance = 0;
    for (std::int64_t k = c / size * size; k < c / size * size + size; ++k)
      for (std::int64_t q = 0; q < pixels; ++q)
        mean += x(i, k, q) / n;
    for (std::int64_t k = c / size * size; k < c / size * size + size; ++k)
      for (std::int64_t q = 0; q < pixels; ++q)
        variance += (x(i, k, q) - mean) * (x(i, k, q) - mean) / n;
    return (x(i, c, p) - mean) / std::sqrt(variance + 1e-5) * w(c) + b(c);
  });
}

TEMPLATE_TEST_CASE("outside: an LSTM cell in one kernel", "", float, bf16) {
  using T = TestType;
  // gates = x W + h U + b, with W of [in, 4, hidden] and the gates i, f, g, o.
  const auto cell = kernel("lstm_cell", [](View<const T, 2> x, View<const T, 2> h, View<const float, 2> c,
                                           View<const T, 3> w, View<const T, 3> u, View<const float, 2> bias,
                                           View<T, 2> h_next, View<float, 2> c_next) {
    auto [m, n] = program_tile(h_next, BM, BN);
    auto gate = [&, m = m, n = n](int g) {
      auto acc =
          for_range(BK, x.cols(), broadcast(expand<0>(bias.tile(g, n).load()), BM, BN),
                    [&](auto k, auto acc) { return dot(x.tile(m, k).load(), w.tile(k, g, n).load(), acc); });
      return for_range(BK, h.cols(), acc, [&](auto k, auto acc) {
        return acc + dot(h.tile(m, k).load(), u.tile(k, g, n).load());
      });
    };
    Tile i = sigmoid(gate(0));
    Tile f = sigmoid(gate(1));
    Tile g = tanh(gate(2));
    Tile o = sigmoid(gate(3));
    Tile next = f * c.tile(m, n).load() + i * g;
    c_next.tile(m, n).store(next);
    h_next.tile(m, n).store(cast<T>(o * tanh(next)));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t batch = random.integer(1, 20), in = random.integer(1, 40),
                     hidden = random.integer(1, 40);
  Strided<T, 2> x(random, {batch, in}, uniform(random, -1, 1)),
      h(random, {batch, hidden}, uniform(random, -1, 1));
  Strided<T, 3> w(random, {in, 4, hidden}, uniform(random, -0.3, 0.3)),
      u(random, {hidden, 4, hidden}, uniform(random, -0.3, 0.3));
  Strided<float, 2> c(random, {batch, hidden}, uniform(random, -1, 1)),
      bias(random, {4, hidden}, uniform(random, -1, 1));
  Strided<T, 2> h_next(random, {batch, hidden});
  Strided<float, 2> c_next(random, {batch, hidden});
  run(cell, {BM = 8, BN = 16, BK = 8}, x.view, h.view, c.view, w.view, u.view, bias.view, h_next.view,
      c_next.view);
  auto gate = [&](std::int64_t m, int g, std::int64_t n) {
    double s = bias(g, n);
    for (std::int64_t k = 0; k < in; ++k)
      s += x(m, k) * w(k, g, n);
    for (std::int64_t k = 0; k < hidden; ++k)
      s += h(m, k) * u(k, g, n);
    return g == 2 ? std::tanh(s) : 1 / (1 + std::exp(-s));
  };
  auto state_of = [&](auto m, auto n) { return gate(m, 1, n) * c(m, n) + gate(m, 0, n) * gate(m, 2, n); };
  c_next.check(1e-5, state_of);
  h_next.check(tolerance<T>() + 1e-5,
               [&](auto m, auto n) { return gate(m, 3, n) * std::tanh(state_of(m, n)); });
}

TEST_CASE("outside: Adam in place, with weights in bf16 and a master copy") {
  const auto adam =
      kernel("adam", [](View<float, 1> master, View<bf16, 1> weight, View<const bf16, 1> gradient,
                        View<float, 1> m, View<float, 1> v, Scalar<float> rate, Scalar<float> beta1,
                        Scalar<float> beta2, Scalar<float> decay, Scalar<std::int32_t> step) {
        auto [i] = program_tile(master, BN);
        Tile g = cast<float>(gradient.tile(i).load());
        Tile first = beta1 * m.tile(i).load() + (1 - beta1) * g;
        Tile second = beta2 * v.tile(i).load() + (1 - beta2) * g * g;
        Tile old = master.tile(i).load();
        auto m_hat = first / (1 - pow(beta1, cast<float>(step)));
        auto v_hat = second / (1 - pow(beta2, cast<float>(step)));
        Tile next = old - rate * (m_hat / (sqrt(v_hat) + 1e-8f) + decay * old);
        m.tile(i).store(first);
        v.tile(i).store(second);
        master.tile(i).store(next);
        weight.tile(i).store(cast<bf16>(next));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 3000);
  Strided<float, 1> master(random, {n}, uniform(random, -1, 1)), m(random, {n}, [] { return 0; }),
      v(random, {n}, [] { return 0; });
  Strided<bf16, 1> weight(random, {n}), gradient(random, {n});
  std::vector<double> x, a(static_cast<std::size_t>(n)), b(static_cast<std::size_t>(n));
  master.each([&](auto i) { x.push_back(master(i)); });
  for (int step = 1; step <= 3; ++step) {
    gradient.fill(uniform(random, -1, 1));
    run(adam, {BN = 256}, master.view, weight.view, gradient.view, m.view, v.view, 1e-2f, 0.9f, 0.99f, 0.1f,
        step);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double g = gradient(static_cast<std::int64_t>(i));
      a[i] = 0.9 * a[i] + 0.1 * g;
      b[i] = 0.99 * b[i] + 0.01 * g * g;
      x[i] -=
          1e-2 * (a[i] / (1 - std::pow(0.9, step)) / (std::sqrt(b[i] / (1 - std::pow(0.99, step))) + 1e-8) +
                  0.1 * x[i]);
    }
  }
  master.check(1e-5, [&](auto i) { return x[static_cast<std::size_t>(i)]; });
  weight.check(tolerance<bf16>(), [&](auto i) { return x[static_cast<std::size_t>(i)]; });
  m.check(1e-5, [&](auto i) { return a[static_cast<std::size_t>(i)]; });
  v.check(1e-4, [&](auto i) { return b[static_cast<std::size_t>(i)]; });
}

TEMPLATE_TEST_CASE("outside: rotary embedding in place, halves and pairs", "", float, f16) {
  using T = TestType;
  const auto rotary =
      kernel("rotary", [](View<T, 3> x, View<const std::int32_t, 1> positions, Scalar<bool> pairs) {
        auto [s, h] = program_tile(x, BM, 1_c);
        Scalar<std::int64_t> head = h;
        auto half = x.extent(2) / 2;
        Tile where_to = cast<float>(positions.tile(s).load());
        for_range(BN, half, [&](auto n) {
          Tile i = n + arange(BN);
          Tile angle = expand<1>(where_to) * exp2(-cast<float>(i) / cast<float>(half) * 13.287712379549449f);
          Tile rows = expand<1>(s + arange(BM));
          Tile mask = expand<0>(i < half);
          auto left = x.at(rows, head, where(pairs, 2 * i, i)),
               right = x.at(rows, head, where(pairs, 2 * i + 1, i + half));
          Tile a = cast<float>(left.load(mask)), b = cast<float>(right.load(mask));
          left.store(cast<T>(a * cos(angle) - b * sin(angle)), mask);
          right.store(cast<T>(a * sin(angle) + b * cos(angle)), mask);
        });
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const bool pairs = random.integer(0, 1);
  const std::int64_t length = random.integer(1, 30), heads = random.integer(1, 4),
                     half = random.integer(1, 40);
  Strided<T, 3> x(random, {length, heads, 2 * half}, uniform(random, -1, 1));
  Strided<std::int32_t, 1> positions(random, {length}, integers(random, 0, 300));
  std::vector<double> old;
  x.each([&](auto... i) { old.push_back(x(i...)); });
  run(rotary, {BM = 8, BN = 16}, x.view, positions.view, pairs);
  x.check(tolerance<T>() + 1e-4, [&](auto s, auto h, auto d) {
    auto before = [&](std::int64_t e) {
      return old[static_cast<std::size_t>((s * heads + h) * 2 * half + e)];
    };
    const auto i = pairs ? d / 2 : d % half;
    const double angle =
        positions(s) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
    const double a = before(pairs ? 2 * i : i), b = before(pairs ? 2 * i + 1 : i + half);
    return (pairs ? d % 2 == 0 : d < half) ? a * std::cos(angle) - b * std::sin(angle)
                                           : a * std::sin(angle) + b * std::cos(angle);
  });
}

TEST_CASE("outside: dropout depends only on the seed and the offset, whatever the tiles") {
  const auto dropout = kernel("dropout", [](View<const float, 1> x, View<float, 1> y, View<bool, 1> kept,
                                            Scalar<float> p, Scalar<std::uint64_t> seed) {
    auto [i] = program_tile(x, BN);
    Tile keep = rand(seed, i + arange(BN)) >= p;
    kept.tile(i).store(keep);
    y.tile(i).store(where(keep, x.tile(i).load() / (1 - p), 0));
  });
  Random random;
  KILN_SEED(random);
  const std::int64_t n = random.integer(10000, 30000);
  Strided<float, 1> x(random, {n}, uniform(random, 1, 2)), y(random, {n}), again(random, {n});
  Strided<bool, 1> kept(random, {n}), kept_again(random, {n});
  const std::uint64_t seed = random();
  Run{}(dropout, {BN = 1000}, x.view, y.view, kept.view, 0.3f, seed);
  Run{true}(dropout, {BN = 64}, x.view, again.view, kept_again.view, 0.3f, seed);
  double count = 0;
  kept.each([&](auto i) { count += kept.view(i); });
  CHECK(std::abs(count / static_cast<double>(n) - 0.7) < 6 * std::sqrt(0.21 / static_cast<double>(n)));
  y.check(1e-6, [&](auto i) { return kept.view(i) ? x(i) / (1 - static_cast<double>(0.3f)) : 0; });
  again.check(0, [&](auto i) { return y(i); });
  kept_again.check(0, [&](auto i) { return kept(i); });
}
