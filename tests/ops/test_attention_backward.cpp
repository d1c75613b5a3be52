// Compares the gradients of attention with double precision and with finite differences.
#include "attention_gradients.h"

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(ROWS);
KILN_DIM(COLUMNS);
// Writes 1 for the weights that dropout keeps and 0 for the others, as attention.h defines it.
const auto dropout_kernel =
    kernel("dropout", [](View<float, 4> kept, Scalar<std::int64_t> seed, Scalar<float> dropout) {
      auto [b, h, i, j] = program_tile(kept, each, each, ROWS, COLUMNS);
      Scalar<std::int64_t> first = (b * kept.extent(1) + h) * kept.extent(2);
      Tile index = expand<1>(first + (i + arange(ROWS))) * kept.extent(3) + expand<0>(j + arange(COLUMNS));
      kept.tile(b, h, i, j).store(where(rand(seed, index) >= dropout, 1.0f, 0.0f));
    });

// Numbers from 0 to 7 in no order.
template <class H, class I, class J> auto mixed(const H& head, const I& query, const J& key) {
  return ((query * 7 + cast<std::int32_t>(head)) ^ (key * 5)) % 8;
}

} // namespace

TEMPLATE_TEST_CASE("gradients of attention with causal masks, windows, soft caps, sinks and dropout", "",
                   float, bf16, f16, double) {
  Random random;
  KILN_SEED(random);
  const int rounds = std::is_same_v<TestType, float> && !test_device().is_emulated() ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    Problem<TestType> p(random, tokens(round == 0 ? 150 : 80));
    Reference r;
    ops::AttentionOptions options;
    options.causal = random.integer(0, 1);
    options.alignment = random.integer(0, 1) ? ops::CausalAlignment::last : ops::CausalAlignment::first;
    if (random.integer(0, 1)) options.window_before = random.integer(0, 100);
    if (random.integer(0, 2) == 0) options.window_after = random.integer(0, 100);
    if (random.integer(0, 1)) options.scale = r.scale = 0.3;
    if (random.integer(0, 1)) options.soft_cap = r.soft_cap = 2.5;
    Strided<float, 4> kept(random, {p.batches, p.heads, p.queries, p.keys});
    if (random.integer(0, 1)) {
      options.dropout = 0.3, options.seed = static_cast<std::uint64_t>(random.integer(0, 1 << 20)) << 30;
      Run{}(dropout_kernel, {ROWS = 16, COLUMNS = 32}, kept.view, static_cast<std::int64_t>(options.seed),
            0.3f);
      r.kept = [&](auto... i) { return kept(i...) / (1 - options.dropout); };
    }
    const bool sunk = random.integer(0, 1);
    if (sunk) r.sink = [&](std::int64_t h) { return p.sinks(h); };
    const std::int64_t shift = options.alignment == ops::CausalAlignment::last ? p.keys - p.queries : 0;
    r.seen = [&](auto, auto, std::int64_t i, std::int64_t j) {
      i += shift;
      return (!options.causal || j <= i) && (options.window_before < 0 || j >= i - options.window_before) &&
             (options.window_after < 0 || j <= i + options.window_after);
    };
    INFO("causal " << options.causal << ", shift " << shift << ", window " << options.window_before << " and "
                   << options.window_after << ", cap " << options.soft_cap << ", sinks " << sunk
                   << ", dropout " << options.dropout);
    p.check(
        r,
        [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
            auto sinks, auto dsinks) {
          ops::AttentionOptions used = options;
          used.lse = lse;
          if (sunk) used.sinks = sinks, used.dsinks = dsinks;
          ops::attention(s, q, k, v, o, used);
          ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, used);
        },
        p.sinks.view, p.dsinks.view);
  }
}

TEST_CASE("gradients of attention with lambdas: ALiBi, soft cap, relative bias, prefix and document masks") {
  Random random;
  KILN_SEED(random);
  Problem<float> p(random, tokens(150));
  Strided<float, 1> slopes(random, {p.heads}, uniform(random, -0.2, 0));
  Strided<float, 2> bias(random, {p.queries, p.keys}, uniform(random, 0.5, 1.5));
  Strided<std::int32_t, 2> query_document(random, {p.batches, p.queries}),
      key_document(random, {p.batches, p.keys});
  query_document.fill([&](auto b, auto i) { return (i * (b + 3)) / 80; });
  key_document.fill([&](auto b, auto i) { return (i * (b + 3)) / 80; });
  // Calls both passes with the same hooks.
  const auto both = [](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk,
                       auto dv, const auto&... hooks) {
    ops::attention(s, q, k, v, o, {.lse = lse}, hooks...);
    ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, {}, hooks...);
  };

  // Outside of the bias, scores are infinite.
  Reference r;
  r.score = [&](double s, auto, auto h, auto i, auto j) {
    return 3 * std::tanh(s / 3) + slopes(h) * static_cast<double>(std::abs(i - j)) - std::log(bias(i, j));
  };
  p.check(
      r,
      [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
          auto slopes, auto bias) {
        both(s, dout, q, k, v, o, lse, dq, dk, dv,
             ops::score(
                 [](auto s, auto head, auto query, auto key, auto slopes, auto bias) {
                   return 3.0f * tanh(s / 3.0f) + slopes.at(head).load() * cast<float>(abs(key - query)) -
                          log(bias.tile(query.offset, key.offset).load());
                 },
                 slopes, bias));
      },
      slopes.view, bias.view);

  r.score = [&](double s, auto, auto, auto i, auto j) { return s * bias(i, j) - std::log(bias(i, j)); };
  r.seen = [&](auto b, auto, auto i, auto j) { return query_document(b, i) == key_document(b, j); };
  p.check(
      r,
      [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
          auto bias, auto of_queries, auto of_keys) {
        both(s, dout, q, k, v, o, lse, dq, dk, dv,
             ops::score(
                 [](auto s, auto, auto query, auto key, auto bias) {
                   Tile b = bias.tile(query.offset, key.offset).load();
                   return s * b - log(b);
                 },
                 bias),
             ops::mask(
                 [](auto head, auto query, auto key, auto of_queries, auto of_keys) {
                   return expand<1>(of_queries.tile(head.batch, query.offset).load()) ==
                          expand<0>(of_keys.tile(head.batch, key.offset).load());
                 },
                 of_queries, of_keys));
      },
      bias.view, query_document.view, key_document.view);

  // Where a product is zero and hidden, the derivative of the score is NaN. The mask has no bounds.
  r.score = [](double s, auto, auto h, auto i, auto j) {
    return std::sqrt(s * s + static_cast<double>(((i * 7 + h) ^ (j * 5)) % 8));
  };
  r.seen = [&](auto, auto h, auto i, auto j) { return ((i * 7 + h) ^ (j * 5)) % 8 != 0; };
  for (std::int64_t b = 0; b < p.batches; ++b) // products of zero
    for (std::int64_t h = 0; h < p.key_heads; ++h)
      for (std::int64_t d = 0; d < p.width; ++d)
        p.k.view(b, h, p.keys / 2, d) = 0;
  p.check(r, [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv) {
    both(s, dout, q, k, v, o, lse, dq, dk, dv, ops::score([](auto s, auto head, auto query, auto key) {
           return sqrt(s * s + cast<float>(mixed(head, query, key)));
         }),
         ops::mask([](auto head, auto query, auto key) { return mixed(head, query, key) != 0; }));
  });

  r.score = nullptr;
  r.seen = [&](auto, auto h, auto i, auto j) { return j <= i || j < 17 + h; };
  p.check(r, [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv) {
    both(s, dout, q, k, v, o, lse, dq, dk, dv, ops::mask([](auto head, auto query, auto key) {
           return (key <= query) | (key < cast<std::int32_t>(head) + 17);
         }));
  });
  // Nothing is visible.
  r.seen = [&](auto, auto, auto, auto) { return false; };
  p.check(r, [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv) {
    both(s, dout, q, k, v, o, lse, dq, dk, dv,
         ops::mask([](auto, auto query, auto key) { return key < query - 100000; }));
  });
}

// The loss is the sum of dout * o. Each gradient is compared with its difference quotient.
TEST_CASE("gradients of attention are those of finite differences in f64") {
  Random random;
  KILN_SEED(random);
  Problem<double> p(random, test_device().is_emulated() ? 20 : 60);
  Strided<double, 1> slopes(random, {p.heads}, uniform(random, -0.2, 0));
  const auto options = [](auto sinks, auto dsinks, auto lse) {
    return ops::AttentionOptions{.causal = true,
                                 .window_before = 20,
                                 .soft_cap = 4,
                                 .dropout = 0.2,
                                 .seed = 7,
                                 .sinks = sinks,
                                 .lse = lse,
                                 .dsinks = dsinks};
  };
  const auto score = [](auto slopes) {
    return ops::score(
        [](auto s, auto head, auto query, auto key, auto slopes) {
          return s + 0.1 * s * s + slopes.at(head).load() * cast<double>(query - key);
        },
        slopes);
  };
  on_test_device(
      [&](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
          auto sinks, auto dsinks, auto slopes) {
        ops::attention(s, q, k, v, o, options(sinks, dsinks, lse), score(slopes));
        ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, options(sinks, dsinks, lse),
                                score(slopes));
      },
      p.dout.view, p.q.view, p.k.view, p.v.view, p.o.view, p.lse.view, p.dq.view, p.dk.view, p.dv.view,
      p.sinks.view, p.dsinks.view, slopes.view);
  const auto loss = [&] {
    on_test_device(
        [&](Stream& s, auto q, auto k, auto v, auto o, auto lse, auto sinks, auto slopes) {
          ops::attention(s, q, k, v, o, options(sinks, ops::Output(), lse), score(slopes));
        },
        p.q.view, p.k.view, p.v.view, p.o.view, p.lse.view, p.sinks.view, slopes.view);
    double sum = 0;
    p.o.each([&](auto... i) { sum += p.o(i...) * p.dout(i...); });
    return sum;
  };
  const auto compare = [&](const char* name, double& x, double gradient) {
    INFO(name);
    const double before = x, step = 1e-5;
    x = before + step;
    const double above = loss();
    x = before - step;
    const double below = loss();
    x = before;
    REQUIRE(gradient == Approx((above - below) / (2 * step)).epsilon(1e-5).margin(1e-6));
  };
  const auto any = [&](std::int64_t extent) { return random.integer(0, extent - 1); };
  for (int i = 0; i < 6; ++i) {
    const std::int64_t b = any(p.batches), h = any(p.heads), kh = any(p.key_heads), m = any(p.queries),
                       n = any(p.keys), d = any(p.width), e = any(p.values);
    compare("dq", p.q.view(b, h, m, d), p.dq(b, h, m, d));
    compare("dk", p.k.view(b, kh, n, d), p.dk(b, kh, n, d));
    compare("dv", p.v.view(b, kh, n, e), p.dv(b, kh, n, e));
    compare("dsinks", p.sinks.view(h), p.dsinks(h));
  }
}

TEST_CASE("gradients of attention can be left out, and skipping hidden blocks changes no bit") {
  Random random;
  KILN_SEED(random);
  // One kernel computes all gradients if its programs, of which there is one for each key head, are enough for the
  // threads of a CPU. For gradients that are left out there are others.
  const std::int64_t threads = test_device().properties().num_threads;
  Problem<float> p(random, tokens(150), threads);
  Strided<float, 4> dq(random, {p.batches, p.heads, p.queries, p.width}),
      dk(random, {p.batches, p.key_heads, p.keys, p.width}),
      dv(random, {p.batches, p.key_heads, p.keys, p.values});
  const auto compare = [&](double margin) {
    const auto same = [margin](const auto& x, const auto& y) {
      x.each([&](auto... at) { REQUIRE(std::abs(x(at...) - y(at...)) <= margin); });
      y.check_gaps();
    };
    same(p.dq, dq);
    same(p.dk, dk);
    same(p.dv, dv);
  };
  on_test_device(
      [](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
         auto other_dq, auto other_dk, auto other_dv) {
        ops::attention(s, q, k, v, o, {.causal = true, .lse = lse});
        ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, {.causal = true});
        ops::attention_backward(s, dout, q, k, v, o, lse, {}, {}, {}, {.causal = true});
        ops::attention_backward(s, dout, q, k, v, o, lse, other_dq, {}, {}, {.causal = true});
        ops::attention_backward(s, dout, q, k, v, o, lse, {}, other_dk, {}, {.causal = true});
        ops::attention_backward(s, dout, q, k, v, o, lse, {}, {}, other_dv, {.causal = true});
      },
      p.dout.view, p.q.view, p.k.view, p.v.view, p.o.view, p.lse.view, p.dq.view, p.dk.view, p.dv.view,
      dq.view, dk.view, dv.view);
  compare(1e-4); // another kernel may round in another order
  // The same mask, written so that it has no bounds.
  on_test_device(
      [](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv) {
        ops::attention_backward(
            s, dout, q, k, v, o, lse, dq, dk, dv, {},
            ops::mask([](auto, auto query, auto key) { return cast<float>(key) <= cast<float>(query); }));
      },
      p.dout.view, p.q.view, p.k.view, p.v.view, p.o.view, p.lse.view, dq.view, dk.view, dv.view);
  compare(0);
}

TEST_CASE("gradients of attention of tensors of different dtypes, with wide heads") {
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t width = 256, values = 200;
  const std::int64_t queries = random.integer(1, 20), keys = random.integer(1, 20);
  const auto numbers = uniform(random, -1, 1);
  Strided<bf16, 4> q(random, {1, 2, queries, width}, numbers), dk(random, {1, 1, keys, width}),
      dout(random, {1, 2, queries, values}, numbers);
  Strided<f16, 4> k(random, {1, 1, keys, width}, numbers), dv(random, {1, 1, keys, values});
  Strided<float, 4> v(random, {1, 1, keys, values}, numbers), o(random, {1, 2, queries, values}),
      dq(random, {1, 2, queries, width}), same_q(random, {1, 2, queries, width}, q),
      same_k(random, {1, 1, keys, width}, k), same_dout(random, {1, 2, queries, values}, dout),
      expected_dq(random, {1, 2, queries, width}), expected_dk(random, {1, 1, keys, width}),
      expected_dv(random, {1, 1, keys, values});
  Strided<float, 3> lse(random, {1, 2, queries});
  on_test_device(
      [](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
         auto same_dout, auto same_q, auto same_k, auto expected_dq, auto expected_dk, auto expected_dv) {
        const ops::AttentionOptions options{
            .scale = 0.02, .causal = true, .alignment = ops::CausalAlignment::last, .lse = lse};
        ops::attention(s, same_q, same_k, v, o, options);
        ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, options);
        ops::attention_backward(s, same_dout, same_q, same_k, v, o, lse, expected_dq, expected_dk,
                                expected_dv, options);
      },
      dout.view, q.view, k.view, v.view, o.view, lse.view, dq.view, dk.view, dv.view, same_dout.view,
      same_q.view, same_k.view, expected_dq.view, expected_dk.view, expected_dv.view);
  const auto compare = [](const auto& got, const auto& expected) {
    double largest = 0;
    expected.each([&](auto... i) { largest = std::max(largest, std::abs(expected(i...))); });
    got.each([&](auto... i) { REQUIRE(std::abs(got(i...) - expected(i...)) <= 0x1p-6 * largest); });
    got.check_gaps();
  };
  compare(dq, expected_dq);
  compare(dk, expected_dk);
  compare(dv, expected_dv);
}

TEST_CASE("gradients of attention take ranks 2, 3 and more than 4, and batches that do not merge") {
  Random random;
  KILN_SEED(random);
  using Six = std::array<std::int64_t, 6>;
  const Six queries{2, 1, 3, 2, 20, 32}, keys{2, 1, 3, 2, 30, 32}, values{2, 1, 3, 2, 30, 8},
      outs{2, 1, 3, 2, 20, 8};
  Strided<float, 6> q(random, queries, uniform(random, -1, 1)), k(random, keys, uniform(random, -1, 1)),
      v(random, values, uniform(random, -1, 1)), dout(random, outs, uniform(random, -1, 1)), o(random, outs),
      dq(random, queries), dk(random, keys), dv(random, values), dq2(random, queries), dk2(random, keys),
      dv2(random, values), dq3(random, queries), dk3(random, keys), dv3(random, values);
  Strided<float, 5> lse(random, {2, 1, 3, 2, 20});
  Strided<float, 1> sinks(random, {2}, uniform(random, -1, 1)), dsinks(random, {2}), part(random, {2});
  double sums[2] = {};
  const auto pass = [](Stream& s, auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk,
                       auto dv, auto sinks, auto dsinks) {
    const ops::AttentionOptions options{.causal = true, .sinks = sinks, .lse = lse, .dsinks = dsinks};
    ops::attention(s, q, k, v, o, options);
    ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, options);
  };
  on_test_device(pass, dout.view, q.view, k.view, v.view, o.view, lse.view, dq.view, dk.view, dv.view,
                 sinks.view, dsinks.view);
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b) {
      const auto batch = [&](auto x) { return x.select(0, a).select(0, 0).select(0, b); };
      on_test_device(pass, batch(dout.view), batch(q.view), batch(k.view), batch(v.view), batch(o.view),
                     batch(lse.view), batch(dq2.view), batch(dk2.view), batch(dv2.view), sinks.view,
                     part.view);
      for (int h = 0; h < 2; ++h)
        sums[h] += part(h);
      const auto head = [&](auto x) { return batch(x).select(0, 1); };
      const auto last = sinks.view.slice(0, 1, 2);
      on_test_device(pass, head(dout.view), head(q.view), head(k.view), head(v.view), head(o.view),
                     head(lse.view), head(dq3.view), head(dk3.view), head(dv3.view), last,
                     part.view.slice(0, 1, 2));
    }
  const auto same = [](const auto& x, const auto& y, const auto& heads) {
    x.each([&](auto a, auto b, auto c, auto h, auto i, auto j) {
      REQUIRE(x(a, b, c, h, i, j) == y(a, b, c, h, i, j));
      if (h == 1) REQUIRE(x(a, b, c, h, i, j) == Approx(heads(a, b, c, h, i, j)).margin(1e-5));
    });
  };
  same(dq, dq2, dq3);
  same(dk, dk2, dk3);
  same(dv, dv2, dv3);
  for (int h = 0; h < 2; ++h)
    CHECK(dsinks(h) == Approx(sums[h]).margin(1e-5));
}

TEST_CASE("gradients of attention without queries, keys, heads or batches are zeros or empty") {
  Random random;
  KILN_SEED(random);
  for (const auto& [batches, heads, queries, keys] :
       {std::array<std::int64_t, 4>{2, 2, 0, 5}, {2, 2, 5, 0}, {2, 0, 5, 5}, {0, 2, 5, 5}}) {
    INFO(batches << " batches, " << heads << " heads, " << queries << " queries, " << keys << " keys");
    const std::int64_t key_heads = 1;
    Strided<float, 4> q(random, {batches, heads, queries, 16}, uniform(random, -1, 1)),
        k(random, {batches, key_heads, keys, 16}, uniform(random, -1, 1)),
        o(random, {batches, heads, queries, 16}),
        dout(random, {batches, heads, queries, 16}, uniform(random, -1, 1)),
        dq(random, {batches, heads, queries, 16}), dk(random, {batches, key_heads, keys, 16}),
        dv(random, {batches, key_heads, keys, 16});
    Strided<float, 3> lse(random, {batches, heads, queries});
    Strided<float, 1> sinks(random, {heads}), dsinks(random, {heads});
    on_test_device(
        [](Stream& s, auto dout, auto q, auto k, auto o, auto lse, auto dq, auto dk, auto dv, auto sinks,
           auto dsinks) {
          const ops::AttentionOptions options{.causal = true, .sinks = sinks, .lse = lse, .dsinks = dsinks};
          ops::attention(s, q, k, k, o, options);
          ops::attention_backward(s, dout, q, k, k, o, lse, dq, dk, dv, options);
        },
        dout.view, q.view, k.view, o.view, lse.view, dq.view, dk.view, dv.view, sinks.view, dsinks.view);
    for (const Strided<float, 4>* x : {&dq, &dk, &dv})
      x->check(0, [](auto...) { return 0; });
    dsinks.check(0, [](auto) { return 0; });
  }
}

TEST_CASE("attention of a part of the heads drops the weights that attention of all heads drops") {
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t heads = 4, key_heads = 2, queries = 19, keys = 33, width = 16;
  using Heads = Strided<float, 4>;
  const Heads q(random, {2, heads, queries, width}, uniform(random, -1, 1)),
      k(random, {2, key_heads, keys, width}, uniform(random, -1, 1)),
      v(random, {2, key_heads, keys, width}, uniform(random, -1, 1)),
      dout(random, {2, heads, queries, width}, uniform(random, -1, 1));
  struct Results {
    Heads o, dq, dk, dv;
    explicit Results(Random& r)
        : o(r, {2, heads, queries, width}), dq(r, {2, heads, queries, width}),
          dk(r, {2, key_heads, keys, width}), dv(r, {2, key_heads, keys, width}) {}
  };
  const Results whole(random), parts(random);
  Strided<float, 3> lse(random, {2, heads, queries});
  // Of the heads of keys from `first` to `end` - 1, and the heads that they serve.
  const auto compute = [&](const Results& to, std::int64_t first, std::int64_t end) {
    on_test_device(
        [&](Stream& s, auto q, auto k, auto v, auto dout, auto lse, auto o, auto dq, auto dk, auto dv) {
          const auto own = [&](auto t) { return t.slice(1, 2 * first, 2 * end); };
          const auto own_keys = [&](auto t) { return t.slice(1, first, end); };
          ops::AttentionOptions options{.dropout = 0.4, .seed = 1234567, .lse = own(lse)};
          options.first_head = 2 * first, options.whole_heads = heads;
          if (end - first == key_heads) options.whole_heads = 0;
          options.batch_invariant = true;
          ops::attention(s, own(q), own_keys(k), own_keys(v), own(o), options);
          options.lse = {};
          ops::attention_backward(s, own(dout), own(q), own_keys(k), own_keys(v), own(o), own(lse), own(dq),
                                  own_keys(dk), own_keys(dv), options);
        },
        q.view, k.view, v.view, dout.view, lse.view, to.o.view, to.dq.view, to.dk.view, to.dv.view);
  };
  compute(whole, 0, key_heads);
  for (std::int64_t head = 0; head < key_heads; ++head)
    compute(parts, head, head + 1);
  parts.o.check(0, [&](auto... at) { return whole.o(at...); });
  parts.dq.check(1e-6, [&](auto... at) { return whole.dq(at...); }, 1);
  parts.dk.check(1e-6, [&](auto... at) { return whole.dk(at...); }, 1);
  parts.dv.check(1e-6, [&](auto... at) { return whole.dv(at...); }, 1);
}

TEST_CASE("attention_backward refuses shapes, aliases and lambdas that do not fit") {
  Stream stream;
  auto q = Tensor<float, 4>::zeros({1, 4, 8, 16}), k = Tensor<float, 4>::zeros({1, 2, 8, 16}),
       o = Tensor<float, 4>::zeros({1, 4, 8, 16}), dq = Tensor<float, 4>::zeros({1, 4, 8, 16}),
       dk = Tensor<float, 4>::zeros({1, 2, 8, 16});
  auto lse = Tensor<float, 3>::zeros({1, 4, 8}), long_lse = Tensor<float, 3>::zeros({1, 4, 9});
  auto sinks = Tensor<float, 1>::zeros({4});
  dq.fill(7);
  const auto call = [&](const auto& dout, const auto& lse, auto& dq, auto& dk, const auto&... more) {
    ops::attention_backward(stream, dout, q, k, k, o, lse, dq, dk, {}, more...);
  };
  using Catch::Contains;
  CHECK_THROWS_WITH(call(k, lse, dq, dk),
                    Contains("ops::attention_backward: dout has extents {1, 2, 8, 16} and o"));
  CHECK_THROWS_WITH(call(o, long_lse, dq, dk), Contains("lse has extents {1, 4, 9}"));
  CHECK_THROWS_WITH(call(o, lse, dk, dk), Contains("dq has extents {1, 2, 8, 16} and q {1, 4, 8, 16}"));
  CHECK_THROWS_WITH(call(o, lse, dq, dq), Contains("dk has extents {1, 4, 8, 16} and k {1, 2, 8, 16}"));
  CHECK_THROWS_WITH(call(o, lse, dq, k), Contains("dk overlaps k"));
  CHECK_THROWS_WITH(call(o, lse, o, dk), Contains("dq overlaps dout"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{.dsinks = sinks}),
                    Contains("dsinks is given without sinks"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{.soft_cap = -1}), Contains("soft_cap"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{.dropout = 1}),
                    Contains("dropout is a probability"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{.first_head = 1}),
                    Contains("first_head and whole_heads do not fit"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{.first_head = 1, .whole_heads = 4}),
                    Contains("first_head and whole_heads do not fit"));
  CHECK_THROWS_WITH(
      call(o, lse, dq, dk, ops::AttentionOptions{},
           ops::score([](auto s, auto, auto, auto) { return cast<float>(bitcast<bf16>(cast<f16>(s))); })),
      Contains("ops::attention_backward: the score has no derivative, because it uses bitcast"));
  CHECK_THROWS_WITH(call(o, lse, dq, dk, ops::AttentionOptions{},
                         ops::score([](auto s, auto, auto, auto) { return s - max(s, ops::KEYS, keep); })),
                    Contains("ops::attention_backward: the score uses reduce"));
  stream.synchronize();
  CHECK(dq.data()[0] == 7);
}
