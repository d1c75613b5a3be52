// Compares attention with double precision, with masks and scores of every kind.
#include "strided.h"

#include <kiln/kiln.h>

#include <functional>

using namespace kiln;
using namespace kiln::test;

namespace {

template <class T>
constexpr double tolerance = std::is_same_v<T, bf16>  ? 0x1p-6
                             : std::is_same_v<T, f16> ? 0x1p-8
                                                      : 3e-5;

// An emulated GPU takes smaller problems.
std::int64_t tokens(std::int64_t most) {
  return test_device().is_emulated() ? std::min<std::int64_t>(most, 90) : most;
}

// What the reference computes besides the softmax of scaled products.
struct Reference {
  double scale = 0, soft_cap = 0;
  std::function<double(double s, std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)>
      score;
  std::function<bool(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)> seen;
  std::function<double(std::int64_t head)> sink;
};

// The result for one query, and the log-sum-exp.
template <class Q, class K, class V>
std::pair<std::vector<double>, double> attend(const Reference& r, const Q& q, const K& k, const V& v,
                                              std::int64_t b, std::int64_t h, std::int64_t i) {
  const std::int64_t group = q.view.extent(1) / k.view.extent(1), keys = k.view.extent(2),
                     width = q.view.extent(3), values = v.view.extent(3);
  std::vector<double> s(static_cast<std::size_t>(keys), -INFINITY), o(static_cast<std::size_t>(values));
  double most = r.sink ? r.sink(h) : -INFINITY;
  for (std::int64_t j = 0; j < keys; ++j) {
    if (r.seen && !r.seen(b, h, i, j)) continue;
    double x = 0;
    for (std::int64_t d = 0; d < width; ++d)
      x += q(b, h, i, d) * k(b, h / group, j, d);
    x *= r.scale != 0 ? r.scale : 1 / std::sqrt(static_cast<double>(width));
    if (r.soft_cap > 0) x = r.soft_cap * std::tanh(x / r.soft_cap);
    if (r.score) x = r.score(x, b, h, i, j);
    s[static_cast<std::size_t>(j)] = x;
    most = std::max(most, x);
  }
  double total = r.sink ? std::exp(r.sink(h) - most) : 0;
  if (most == -INFINITY) return {o, -INFINITY};
  for (std::int64_t j = 0; j < keys; ++j) {
    const double w = std::exp(s[static_cast<std::size_t>(j)] - most);
    total += w;
    for (std::int64_t e = 0; w > 0 && e < values; ++e)
      o[static_cast<std::size_t>(e)] += w * v(b, h / group, j, e);
  }
  for (double& x : o)
    x /= total;
  return {o, most + std::log(total)};
}

// A random problem: q, k, v and o with random strides.
template <class T> struct Problem {
  std::int64_t batches, key_heads, heads, queries, keys, width, values;
  Strided<T, 4> q, k, v, o;
  Strided<float, 3> lse;

  explicit Problem(Random& r, std::int64_t most_tokens = 300)
      : batches(r.integer(1, 2)), key_heads(r.integer(1, 3)), heads(key_heads * r.integer(1, 3)),
        queries(r.integer(1, most_tokens)), keys(r.integer(1, most_tokens)),
        width(r.integer(1, 4) * 16 + r.integer(0, 1)), values(r.integer(1, 80)),
        q(r, {batches, heads, queries, width}, uniform(r, -2, 2)),
        k(r, {batches, key_heads, keys, width}, uniform(r, -2, 2)),
        v(r, {batches, key_heads, keys, values}, uniform(r, -1, 1)), o(r, {batches, heads, queries, values}),
        lse(r, {batches, heads, queries}) {}

  std::string text() const {
    return "q " + q.layout() + "; k " + k.layout() + "; v " + v.layout() + "; o " + o.layout();
  }
  // Runs attend(stream, q, k, v, o, lse, more...) on the device and compares.
  template <class F, class... More> void check(const Reference& r, const F& attend_op, const More&... more) {
    INFO(text());
    on_test_device(attend_op, q.view, k.view, v.view, o.view, lse.view, more...);
    std::int64_t b = -1, h = -1, i = -1;
    std::pair<std::vector<double>, double> row;
    const auto at = [&](std::int64_t batch, std::int64_t head, std::int64_t query) {
      if (batch != b || head != h || query != i) row = attend(r, q, k, v, b = batch, h = head, i = query);
    };
    o.check(
        tolerance<T>,
        [&](auto batch, auto head, auto query, auto e) {
          at(batch, head, query);
          return row.first[static_cast<std::size_t>(e)];
        },
        1);
    lse.check(
        3e-5,
        [&](auto batch, auto head, auto query) {
          at(batch, head, query);
          return row.second;
        },
        20);
  }
};

} // namespace

TEMPLATE_TEST_CASE("attention without and with causal masks, windows, soft caps and sinks", "", float, bf16,
                   f16, double) {
  Random random;
  KILN_SEED(random);
  const int rounds = test_device().is_emulated() ? 2 : 6;
  for (int round = 0; round < rounds; ++round) {
    Problem<TestType> p(random, tokens(round < 3 ? 80 : 600));
    Reference r;
    ops::AttentionOptions options;
    options.causal = random.integer(0, 1);
    options.alignment = random.integer(0, 1) ? ops::CausalAlignment::last : ops::CausalAlignment::first;
    if (random.integer(0, 1)) options.window_before = random.integer(0, 100);
    if (random.integer(0, 2) == 0) options.window_after = random.integer(0, 100);
    if (random.integer(0, 1)) options.scale = r.scale = 0.3;
    if (random.integer(0, 1)) options.soft_cap = r.soft_cap = 2.5;
    Strided<float, 1> sinks(random, {p.heads}, uniform(random, -2, 2));
    const bool sunk = random.integer(0, 1);
    if (sunk) r.sink = [&](std::int64_t h) { return sinks(h); };
    const std::int64_t shift = options.alignment == ops::CausalAlignment::last ? p.keys - p.queries : 0;
    r.seen = [&](auto, auto, std::int64_t i, std::int64_t j) {
      i += shift;
      return (!options.causal || j <= i) && (options.window_before < 0 || j >= i - options.window_before) &&
             (options.window_after < 0 || j <= i + options.window_after);
    };
    INFO("causal " << options.causal << ", shift " << shift << ", window " << options.window_before << " and "
                   << options.window_after << ", cap " << options.soft_cap << ", sinks " << sunk);
    p.check(
        r,
        [&](Stream& s, auto q, auto k, auto v, auto o, auto lse, auto sinks) {
          ops::AttentionOptions used = options;
          if (sunk) used.sinks = sinks;
          used.lse = lse;
          ops::attention(s, q, k, v, o, used);
        },
        sinks.view);
  }
}

TEST_CASE("attention with lambdas: ALiBi, relative bias, prefix and document masks") {
  Random random;
  KILN_SEED(random);
  Problem<float> p(random, tokens(400));
  Strided<float, 1> slopes(random, {p.heads}, uniform(random, -0.2, 0));
  Strided<float, 2> bias(random, {p.queries, p.keys}, uniform(random, -1, 1));
  Strided<std::int32_t, 2> query_document(random, {p.batches, p.queries}),
      key_document(random, {p.batches, p.keys});
  query_document.fill([&](auto b, auto i) { return (i * (b + 3)) / 200; });
  key_document.fill([&](auto b, auto i) { return (i * (b + 3)) / 200; });

  Reference r;
  r.score = [&](double s, auto, auto h, auto i, auto j) {
    return s + slopes(h) * static_cast<double>(std::abs(i - j));
  };
  p.check(
      r,
      [](Stream& s, auto q, auto k, auto v, auto o, auto lse, auto slopes) {
        ops::attention(
            s, q, k, v, o, {.lse = lse},
            ops::score([](auto s, auto head, auto query, auto key,
                          auto slopes) { return s + slopes.at(head).load() * cast<float>(abs(key - query)); },
                       slopes));
      },
      slopes.view);

  r.score = [&](double s, auto, auto, auto i, auto j) { return s + bias(i, j); };
  r.seen = [&](auto b, auto, auto i, auto j) { return query_document(b, i) == key_document(b, j); };
  p.check(
      r,
      [](Stream& s, auto q, auto k, auto v, auto o, auto lse, auto bias, auto of_queries, auto of_keys) {
        ops::attention(s, q, k, v, o, {.lse = lse},
                       ops::score([](auto s, auto, auto query, auto key,
                                     auto bias) { return s + bias.tile(query.offset, key.offset).load(); },
                                  bias),
                       ops::mask(
                           [](auto head, auto query, auto key, auto of_queries, auto of_keys) {
                             return expand<1>(of_queries.tile(head.batch, query.offset).load()) ==
                                    expand<0>(of_keys.tile(head.batch, key.offset).load());
                           },
                           of_queries, of_keys));
      },
      bias.view, query_document.view, key_document.view);

  r.score = nullptr;
  r.seen = [&](auto, auto h, auto i, auto j) { return j <= i || j < 17 + h; };
  p.check(r, [](Stream& s, auto q, auto k, auto v, auto o, auto lse) {
    ops::attention(s, q, k, v, o, {.lse = lse}, ops::mask([](auto head, auto query, auto key) {
                     return (key <= query) | (key < cast<std::int32_t>(head) + 17);
                   }));
  });
  // A mask for which the bounds give up.
  r.seen = [&](auto, auto, auto i, auto j) { return ((i * 7) ^ (j * 5)) % 8 != 0; };
  p.check(r, [](Stream& s, auto q, auto k, auto v, auto o, auto lse) {
    ops::attention(s, q, k, v, o, {.lse = lse},
                   ops::mask([](auto, auto query, auto key) { return ((query * 7) ^ (key * 5)) % 8 != 0; }));
  });
  // Nothing is visible.
  r.seen = [&](auto, auto, auto, auto) { return false; };
  p.check(r, [](Stream& s, auto q, auto k, auto v, auto o, auto lse) {
    ops::attention(s, q, k, v, o, {.lse = lse},
                   ops::mask([](auto, auto query, auto key) { return key < query - 100000; }));
  });
}

TEST_CASE("skipping hidden blocks changes no bit") {
  Random random;
  KILN_SEED(random);
  Problem<float> p(random, tokens(700));
  Strided<float, 4> all(random, {p.batches, p.heads, p.queries, p.values});
  on_test_device(
      [](Stream& s, auto q, auto k, auto v, auto o, auto all) {
        ops::attention(s, q, k, v, o, {.causal = true});
        // The same mask, written so that it has no bounds.
        ops::attention(s, q, k, v, all, {}, ops::mask([](auto, auto query, auto key) {
                         return cast<float>(key) <= cast<float>(query);
                       }));
      },
      p.q.view, p.k.view, p.v.view, p.o.view, all.view);
  p.o.each([&](auto... at) { REQUIRE(p.o(at...) == all(at...)); });
}

TEST_CASE("attention of f64 divides the weights that dropout keeps with the accuracy of f64") {
  Random random;
  Strided<double, 2> q(random, {5, 16}, [] { return 0.0; }), k(random, {64, 16}, [] { return 1.0; }),
      v(random, {64, 3}, [] { return 1.0; }), o(random, {5, 3});
  on_test_device([](Stream& s, auto q, auto k, auto v,
                    auto o) { ops::attention(s, q, k, v, o, {.dropout = 0.3, .seed = 11}); },
                 q.view, k.view, v.view, o.view);
  o.each([&](auto... at) {
    const double kept = o(at...) * 64 * (1 - 0.3); // weights, which are all equal
    CHECK(std::abs(kept - std::round(kept)) < 1e-12);
    CHECK(kept > 0.5);
  });
}

TEST_CASE("attention takes ranks 2, 3 and more than 4, and batches that do not merge") {
  Random random;
  KILN_SEED(random);
  Strided<float, 6> q(random, {2, 1, 3, 2, 20, 32}, uniform(random, -1, 1)),
      k(random, {2, 1, 3, 2, 30, 32}, uniform(random, -1, 1)),
      v(random, {2, 1, 3, 2, 30, 8}, uniform(random, -1, 1)), o(random, {2, 1, 3, 2, 20, 8}),
      same(random, {2, 1, 3, 2, 20, 8}), single(random, {2, 1, 3, 2, 20, 8});
  on_test_device(
      [](Stream& s, auto q, auto k, auto v, auto o, auto same, auto single) {
        ops::attention(s, q, k, v, o, {.causal = true});
        for (int a = 0; a < 2; ++a)
          for (int b = 0; b < 3; ++b) {
            const auto part = [&](auto x) { return x.select(0, a).select(0, 0).select(0, b); };
            ops::attention(s, part(q), part(k), part(v), part(same), {.causal = true});
            for (int h = 0; h < 2; ++h)
              ops::attention(s, part(q).select(0, h), part(k).select(0, h), part(v).select(0, h),
                             part(single).select(0, h), {.causal = true});
          }
      },
      q.view, k.view, v.view, o.view, same.view, single.view);
  o.each([&](auto... at) {
    REQUIRE(o(at...) == same(at...));
    REQUIRE(o(at...) == single(at...));
  });
}

TEST_CASE("attention refuses shapes, aliases and lambdas that do not fit") {
  Stream stream;
  auto q = Tensor<float, 4>::zeros({1, 4, 8, 16}), k = Tensor<float, 4>::zeros({1, 3, 8, 16}),
       o = Tensor<float, 4>::zeros({1, 4, 8, 16});
  CHECK_THROWS_WITH(ops::attention(stream, q, k, k, o),
                    Catch::Contains("q's heads are not a multiple of k's"));
  CHECK_THROWS_WITH(ops::attention(stream, q, q, q, q), Catch::Contains("o overlaps q"));
  CHECK_THROWS_WITH(ops::attention(stream, q, q, q, o, {.soft_cap = -1}), Catch::Contains("soft_cap"));
  CHECK_THROWS_WITH(ops::attention(stream, q, q, q, o, {}, ops::score([](auto s, auto, auto, auto) {
                                     return s - max(s, ops::KEYS, keep);
                                   })),
                    Catch::Contains("ops::attention: the score uses reduce"));
  auto lse = Tensor<float, 3>::zeros({1, 4, 9});
  CHECK_THROWS_WITH(ops::attention(stream, q, q, q, o, {.lse = lse}),
                    Catch::Contains("lse has extents {1, 4, 9}"));
}
