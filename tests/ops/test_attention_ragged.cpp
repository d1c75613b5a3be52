// Tests attention of ragged batches, and its gradients: each sequence is compared with a call of its own.
#include "strided.h"

#include <kiln/kiln.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

namespace {

// An emulated GPU takes smaller problems.
std::int64_t tokens(std::int64_t most) {
  return test_device().is_emulated() ? std::min<std::int64_t>(most, 40) : most;
}
template <class T> using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Random sequences, some of which are empty or have one token unless they have `least`, with tokens in front
// and behind.
template <class I> struct Sequences {
  std::int64_t count, queries, keys;
  Strided<I, 1> query_offsets, key_offsets;

  Sequences(Random& r, std::int64_t count_, std::int64_t most, std::int64_t least = 0)
      : count(count_), queries(0), keys(0), query_offsets(r, {count + 1}), key_offsets(r, {count + 1}) {
    const auto draw = [&](Strided<I, 1>& offsets) {
      std::int64_t at = r.integer(0, 3);
      for (std::int64_t s = 0; s <= count; ++s) {
        offsets.view(s) = static_cast<I>(at);
        const auto kind = r.integer(0, 5);
        if (s < count) at += std::max(least, kind == 0 ? 0 : kind == 1 ? 1 : r.integer(0, most));
      }
      return at + r.integer(0, 3);
    };
    queries = draw(query_offsets), keys = draw(key_offsets);
  }
  std::int64_t query(std::int64_t s) const { return query_offsets.view(s); }
  std::int64_t key(std::int64_t s) const { return key_offsets.view(s); }
  // Which sequence a token belongs to; -1: none.
  static std::int64_t of(const Strided<I, 1>& offsets, std::int64_t token) {
    for (std::int64_t s = 0; s + 1 < offsets.view.extent(0); ++s)
      if (offsets.view(s) <= token && token < offsets.view(s + 1)) return s;
    return -1;
  }
  std::string text() const {
    std::string s = "queries from";
    for (std::int64_t i = 0; i <= count; ++i)
      s += " " + std::to_string(query(i));
    s += ", keys from";
    for (std::int64_t i = 0; i <= count; ++i)
      s += " " + std::to_string(key(i));
    return s;
  }
};

// What both passes read. The bias has an element for each query, and the factor one for each sequence.
template <class T, class I> struct Inputs {
  const Sequences<I>& sequences;
  std::int64_t key_heads, heads, width, values;
  Strided<T, 3> q, k, v, dout;
  Strided<T, 1> sinks;
  Strided<float, 1> bias, factor;

  Inputs(Random& r, const Sequences<I>& s)
      : sequences(s), key_heads(r.integer(1, 2)), heads(key_heads * r.integer(1, 2)),
        width(r.integer(0, 1) ? 32 : 17), values(20), q(r, {heads, s.queries, width}, uniform(r, -2, 2)),
        k(r, {key_heads, s.keys, width}, uniform(r, -2, 2)),
        v(r, {key_heads, s.keys, values}, uniform(r, -1, 1)),
        dout(r, {heads, s.queries, values}, uniform(r, -1, 1)), sinks(r, {heads}, uniform(r, -2, 2)),
        bias(r, {s.queries}, uniform(r, -1, 1)), factor(r, {s.count}, uniform(r, -0.1, 0.1)) {}
};

// What they write. Elements that must not be written keep a mark.
constexpr double mark = 0.25;
template <class T> struct Results {
  Strided<T, 3> o, dq, dk, dv;
  Strided<Sum<T>, 2> lse;
  Strided<Sum<T>, 1> dsinks;

  template <class I>
  Results(Random& r, const Inputs<T, I>& x)
      : o(r, {x.heads, x.sequences.queries, x.values}, marked),
        dq(r, {x.heads, x.sequences.queries, x.width}, marked),
        dk(r, {x.key_heads, x.sequences.keys, x.width}, marked),
        dv(r, {x.key_heads, x.sequences.keys, x.values}, marked),
        lse(r, {x.heads, x.sequences.queries}, marked), dsinks(r, {x.heads}, marked) {}

private:
  static double marked() { return mark; }
};

// Calls passes(stream, options, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks, bias, factor).
template <class T, class I, class Passes>
void run(const Inputs<T, I>& x, const Results<T>& y, const Passes& passes) {
  on_test_device(
      [&](Stream& s, auto query_offsets, auto key_offsets, auto... views) {
        passes(s, ops::AttentionOptions{.query_offsets = query_offsets, .key_offsets = key_offsets},
               views...);
      },
      x.sequences.query_offsets.view, x.sequences.key_offsets.view, x.dout.view, x.q.view, x.k.view, x.v.view,
      y.o.view, y.lse.view, y.dq.view, y.dk.view, y.dv.view, x.sinks.view, y.dsinks.view, x.bias.view,
      x.factor.view);
}
template <class... Hooks>
void both(Stream& s, ops::AttentionOptions options, bool sunk, auto dout, auto q, auto k, auto v, auto o,
          auto lse, auto dq, auto dk, auto dv, auto sinks, auto dsinks, const Hooks&... hooks) {
  options.lse = lse;
  if (sunk) options.sinks = sinks, options.dsinks = dsinks;
  ops::attention(s, q, k, v, o, options, hooks...);
  ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, options, hooks...);
}

template <class T, int R> Tensor<double, R> in_f64(const Strided<T, R>& x) {
  auto made = [&]<std::size_t... A>(std::index_sequence<A...>) {
    return Tensor<double, R>::zeros({x.view.extent(static_cast<int>(A))...});
  }(std::make_index_sequence<static_cast<std::size_t>(R)>());
  x.each([&](auto... i) { made.view()(i...) = x(i...); });
  return made;
}

// Compares with both passes in f64 without offsets, in which a query sees the keys from first(query) to
// last(query) of all keys. The hooks are those for tiles of f64.
template <class T, class I, class First, class Last, class... Hooks>
void compare(const Inputs<T, I>& x, const Results<T>& y, const ops::AttentionOptions& options, bool sunk,
             const First& first, const Last& last, const Hooks&... hooks) {
  auto q = in_f64(x.q), k = in_f64(x.k), v = in_f64(x.v), dout = in_f64(x.dout), o = in_f64(y.o),
       dq = in_f64(y.dq), dk = in_f64(y.dk), dv = in_f64(y.dv);
  auto lse = in_f64(y.lse);
  auto sinks = in_f64(x.sinks), dsinks = in_f64(y.dsinks);
  auto from = Tensor<std::int32_t, 1>::zeros({x.sequences.queries}),
       to = Tensor<std::int32_t, 1>::zeros({x.sequences.queries});
  for (std::int64_t i = 0; i < x.sequences.queries; ++i) {
    const std::int64_t s = x.sequences.of(x.sequences.query_offsets, i);
    from.data()[i] = s < 0 ? 1 : static_cast<std::int32_t>(std::max(x.sequences.key(s), first(s, i)));
    to.data()[i] = s < 0 ? 0 : static_cast<std::int32_t>(std::min(x.sequences.key(s + 1) - 1, last(s, i)));
  }
  const auto mask = ops::mask(
      [](auto, auto query, auto key, auto from, auto to) {
        return (key >= expand<1>(from.tile(query.offset).load())) &
               (key <= expand<1>(to.tile(query.offset).load()));
      },
      from, to);
  ops::AttentionOptions exact{.scale = options.scale, .soft_cap = options.soft_cap, .lse = lse};
  if (sunk) exact.sinks = sinks, exact.dsinks = dsinks;
  Stream stream;
  auto rounded_o = in_f64(y.o); // from which gradients are computed
  for (std::int64_t i = 0; i < rounded_o.size(); ++i)
    if (from.data()[i / x.values % x.sequences.queries] > to.data()[i / x.values % x.sequences.queries])
      rounded_o.data()[i] = 0; // a query that sees nothing, or belongs to no sequence
  ops::attention(stream, q, k, v, o, exact, mask, hooks...);
  ops::attention_backward(stream, dout, q, k, v, rounded_o, lse, dq, dk, dv, exact, mask, hooks...);
  stream.synchronize();

  // Weights and gradients of scores are rounded to T before they are multiplied.
  const double tolerance = std::is_same_v<T, bf16> ? 0x1p-4 : std::is_same_v<T, double> ? 1e-12 : 1e-4;
  const auto close = [&](const char* name, const auto& got, auto& expected, const Strided<I, 1>* offsets) {
    INFO(name);
    got.check(
        tolerance,
        [&](auto h, auto... i) {
          const auto token = std::get<0>(std::tuple<decltype(i)..., int>(i..., 0));
          const bool written = !offsets || x.sequences.of(*offsets, token) >= 0;
          return written ? expected.view()(h, i...) : mark;
        },
        64);
  };
  const Strided<I, 1>*queries = &x.sequences.query_offsets, *keys = &x.sequences.key_offsets, *none = nullptr;
  close("o", y.o, o, queries);
  close("lse", y.lse, lse, queries);
  close("dq", y.dq, dq, queries);
  close("dk", y.dk, dk, keys);
  close("dv", y.dv, dv, keys);
  if (sunk) close("dsinks", y.dsinks, dsinks, none);
}

} // namespace

TEMPLATE_TEST_CASE("ragged batches with gradients: causal masks, windows, soft caps and sinks", "", float,
                   bf16, double) {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int32_t> sequences(random, random.integer(1, 5), tokens(300));
  const Inputs<TestType, std::int32_t> x(random, sequences);
  const Results<TestType> y(random, x);
  ops::AttentionOptions given;
  given.causal = random.integer(0, 1);
  given.alignment = random.integer(0, 1) ? ops::CausalAlignment::last : ops::CausalAlignment::first;
  if (random.integer(0, 1)) given.window_before = random.integer(0, 100);
  if (random.integer(0, 2) == 0) given.window_after = random.integer(0, 100);
  if (random.integer(0, 1)) given.scale = 0.3;
  if (random.integer(0, 1)) given.soft_cap = 2.5;
  const bool sunk = random.integer(0, 1), at_last = given.alignment == ops::CausalAlignment::last;
  INFO(sequences.text() << "; causal " << given.causal << ", at last " << at_last << ", window "
                        << given.window_before << " and " << given.window_after << ", cap " << given.soft_cap
                        << ", sinks " << sunk << "; q " << x.q.layout() << "; k " << x.k.layout() << "; v "
                        << x.v.layout());
  run(x, y, [&](Stream& s, const ops::AttentionOptions& offsets, auto... views) {
    ops::AttentionOptions options = given;
    options.query_offsets = offsets.query_offsets, options.key_offsets = offsets.key_offsets;
    const auto passes = [&](auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
                            auto sinks, auto dsinks, auto, auto) {
      both(s, options, sunk, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks);
    };
    passes(views...);
  });
  const auto own_key = [&](std::int64_t s, std::int64_t i) { // of query i among all queries
    return at_last ? sequences.key(s + 1) - sequences.query(s + 1) + i
                   : sequences.key(s) - sequences.query(s) + i;
  };
  constexpr std::int64_t far = 1 << 20;
  const std::int64_t before = given.window_before < 0 ? far : given.window_before;
  const std::int64_t after = given.causal ? 0 : given.window_after < 0 ? far : given.window_after;
  compare(
      x, y, given, sunk, [&](auto s, auto i) { return own_key(s, i) - before; },
      [&](auto s, auto i) { return own_key(s, i) + after; });
}

TEST_CASE("lambdas get positions in a sequence, its number and where it begins") {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int64_t> sequences(random, 4, tokens(150));
  const Inputs<float, std::int64_t> x(random, sequences);
  const Results<float> y(random, x);
  INFO(sequences.text());
  run(x, y,
      [](Stream& s, const ops::AttentionOptions& options, auto dout, auto q, auto k, auto v, auto o, auto lse,
         auto dq, auto dk, auto dv, auto sinks, auto dsinks, auto bias, auto factor) {
        both(s, options, true, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks,
             ops::score(
                 [](auto a, auto head, auto query, auto key, auto bias, auto factor) {
                   return a * expand<1>(bias.tile(query.first + query.offset).load()) +
                          factor.at(head.batch).load() * cast<float>(query - key);
                 },
                 bias, factor),
             ops::mask([](auto, auto query, auto key) { return key <= query + 5; }));
      });
  auto bias = in_f64(x.bias), slope = in_f64(x.bias), shift = in_f64(x.bias);
  const auto sequence = [&](auto i) { return sequences.of(sequences.query_offsets, i); };
  for (std::int64_t i = 0; i < sequences.queries; ++i)
    if (const auto n = sequence(i); n >= 0)
      slope.data()[i] = x.factor(n),
      shift.data()[i] = static_cast<double>(sequences.query(n) - sequences.key(n));
  compare(
      x, y, {}, true, [](auto, auto) { return std::int64_t{0}; },
      [&](auto n, auto i) { return sequences.key(n) + i - sequences.query(n) + 5; },
      ops::score(
          [](auto a, auto, auto query, auto key, auto bias, auto slope, auto shift) {
            const auto at = [&](const auto& x) { return expand<1>(x.tile(query.offset).load()); };
            return a * at(bias) + at(slope) * (cast<double>(query - key) - at(shift));
          },
          bias, slope, shift));
}

// For tensors of one layout class, the sums of a row depend on nothing but its sequence. (The sums of
// products in blocks of few queries are split, though, and gradients are summed over blocks of queries, too,
// whose size depends on the number of tokens.)
TEMPLATE_TEST_CASE("ragged batches are attention of each sequence, to the bit", "", float, bf16) {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int32_t> sequences(random, 3, test_device().is_emulated() ? 60 : 300, 40);
  const auto tensor = [&](std::int64_t heads, std::int64_t tokens) {
    auto x = Tensor<TestType, 3>::zeros({heads, tokens, 32});
    for (std::int64_t i = 0; i < x.size(); ++i)
      x.data()[i] = from_double<TestType>(random.uniform(-1, 1));
    return x;
  };
  auto q = tensor(4, sequences.queries), k = tensor(2, sequences.keys), v = tensor(2, sequences.keys),
       o = tensor(4, sequences.queries), single_o = tensor(4, sequences.queries);
  INFO(sequences.text());
  on_test_device(
      [&](Stream& s, auto query_offsets, auto key_offsets, auto q, auto k, auto v, auto o, auto single_o) {
        ops::AttentionOptions options{.causal = true, .alignment = ops::CausalAlignment::last};
        for (std::int64_t n = 0; n < sequences.count; ++n) {
          const auto queries = [&](auto t) { return t.slice(1, sequences.query(n), sequences.query(n + 1)); };
          const auto keys = [&](auto t) { return t.slice(1, sequences.key(n), sequences.key(n + 1)); };
          ops::attention(s, queries(q), keys(k), keys(v), queries(single_o), options);
        }
        options.query_offsets = query_offsets, options.key_offsets = key_offsets;
        ops::attention(s, q, k, v, o, options);
      },
      sequences.query_offsets.view, sequences.key_offsets.view, q.view(), k.view(), v.view(), o.view(),
      single_o.view());
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t i = 0; i < sequences.queries; ++i)
      if (sequences.of(sequences.query_offsets, i) >= 0)
        for (std::int64_t e = 0; e < 32; ++e) {
          INFO("head " << h << ", query " << i << ", element " << e);
          REQUIRE(to_double(o.view()(h, i, e)) == to_double(single_o.view()(h, i, e)));
        }
}

TEST_CASE("ragged batches have the dropout of attention with a mask of sequences") {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int32_t> sequences(random, 4, tokens(100));
  const Inputs<float, std::int32_t> x(random, sequences);
  const Results<float> ragged(random, x), masked(random, x);
  Strided<std::int32_t, 1> of_queries(random, {sequences.queries}), of_keys(random, {sequences.keys});
  of_queries.fill([&](auto i) { return sequences.of(sequences.query_offsets, i); });
  of_keys.fill([&](auto i) { return sequences.of(sequences.key_offsets, i); });
  on_test_device(
      [&](Stream& s, auto query_offsets, auto key_offsets, auto q, auto k, auto v, auto o, auto all,
          auto of_queries, auto of_keys) {
        ops::AttentionOptions options{.dropout = 0.4, .seed = 1234567};
        ops::attention(s, q, k, v, all, options,
                       ops::mask(
                           [](auto, auto query, auto key, auto of_queries, auto of_keys) {
                             Tile a = expand<1>(of_queries.tile(query.offset).load());
                             return (a == expand<0>(of_keys.tile(key.offset).load())) & (a >= 0);
                           },
                           of_queries, of_keys));
        options.query_offsets = query_offsets, options.key_offsets = key_offsets;
        ops::attention(s, q, k, v, o, options);
      },
      sequences.query_offsets.view, sequences.key_offsets.view, x.q.view, x.k.view, x.v.view, ragged.o.view,
      masked.o.view, of_queries.view, of_keys.view);
  ragged.o.check(1e-5, [&](auto h, auto i, auto e) { return of_queries(i) < 0 ? mark : masked.o(h, i, e); });
}

TEST_CASE("ragged batches without sequences, queries or keys") {
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t width = 16;
  for (const auto& [count, queries, keys] :
       {std::array<std::int64_t, 3>{0, 5, 5}, {3, 0, 5}, {3, 5, 0}, {2, 0, 0}}) {
    INFO(count << " sequences, " << queries << " queries, " << keys << " keys");
    const auto tensor = [](std::int64_t heads, std::int64_t tokens) {
      auto x = Tensor<float, 3>::zeros({heads, tokens, width});
      x.fill(static_cast<float>(mark));
      return x;
    };
    auto q = tensor(4, queries), k = tensor(2, keys), o = tensor(4, queries), dq = tensor(4, queries),
         dk = tensor(2, keys), dv = tensor(2, keys);
    auto lse = Tensor<float, 2>::zeros({4, queries});
    auto sinks = Tensor<float, 1>::zeros({4}), dsinks = Tensor<float, 1>::zeros({4});
    auto query_offsets = Tensor<int, 1>::zeros({count + 1}), key_offsets = Tensor<int, 1>::zeros({count + 1});
    sinks.fill(1.5f), dsinks.fill(3), lse.fill(3);
    for (std::int64_t s = 2; s <= count; ++s)
      query_offsets.data()[s] = static_cast<int>(queries), key_offsets.data()[s] = static_cast<int>(keys);
    on_test_device(
        [](Stream& s, auto query_offsets, auto key_offsets, auto q, auto k, auto o, auto lse, auto dq,
           auto dk, auto dv, auto sinks, auto dsinks) {
          both(s, {.query_offsets = query_offsets, .key_offsets = key_offsets}, true, o, q, k, k, o, lse, dq,
               dk, dv, sinks, dsinks);
        },
        query_offsets.view(), key_offsets.view(), q.view(), k.view(), o.view(), lse.view(), dq.view(),
        dk.view(), dv.view(), sinks.view(), dsinks.view());
    const auto all = [](const auto& x, double expected) {
      for (std::int64_t i = 0; i < x.size(); ++i)
        REQUIRE(static_cast<double>(x.data()[i]) == expected);
    };
    // Without sequences, nothing but the gradient of the sinks is written.
    for (const auto* x : {&o, &dq, &dk, &dv})
      all(*x, count == 0 ? mark : 0);
    all(lse, count == 0 ? 3 : 1.5);
    all(dsinks, 0);
  }
}

TEST_CASE("offsets that decrease or leave the tokens access nothing outside of the tensors") {
  Random random;
  KILN_SEED(random);
  Sequences<std::int64_t> sequences(random, random.integer(1, 6), tokens(60));
  const Inputs<float, std::int64_t> x(random, sequences);
  for (Strided<std::int64_t, 1>* offsets : {&sequences.query_offsets, &sequences.key_offsets}) {
    offsets->fill(integers(random, -200, 200));
    offsets->view(random.integer(0, sequences.count)) = random.integer(0, 1) ? INT64_MIN : INT64_MAX;
    sort_if_emulated(*offsets);
  }
  const Results<float> y(random, x);
  run(x, y,
      [](Stream& s, const ops::AttentionOptions& options, auto dout, auto q, auto k, auto v, auto o, auto lse,
         auto dq, auto dk, auto dv, auto sinks, auto dsinks, auto, auto) {
        both(s, options, true, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks);
        // The gradients of queries and of keys have kernels of their own.
        ops::attention_backward(s, dout, q, k, v, o, lse, dq, {}, {}, options);
        ops::attention_backward(s, dout, q, k, v, o, lse, {}, dk, dv, options);
      });
  y.o.check_gaps(), y.lse.check_gaps(), y.dq.check_gaps(), y.dk.check_gaps(), y.dv.check_gaps();
}

TEST_CASE("with KILN_DEBUG, offsets that decrease or leave the tokens are errors", "[.debug]") {
  auto q = Tensor<float, 3>::zeros({2, 9, 16}), k = Tensor<float, 3>::zeros({2, 5, 16}),
       o = Tensor<float, 3>::zeros({2, 9, 16}), dk = Tensor<float, 3>::zeros({2, 5, 16});
  auto lse = Tensor<float, 2>::zeros({2, 9});
  auto query_offsets = Tensor<int, 1>::zeros({4}), key_offsets = Tensor<int, 1>::zeros({4});
  Stream stream;
  const auto run = [&](std::vector<int> queries, std::vector<int> keys, bool backward) {
    std::copy(queries.begin(), queries.end(), query_offsets.data());
    std::copy(keys.begin(), keys.end(), key_offsets.data());
    stream.clear_error();
    const ops::AttentionOptions options{.query_offsets = query_offsets, .key_offsets = key_offsets};
    if (backward)
      ops::attention_backward(stream, o, q, k, k, o, lse, {}, dk, {}, options);
    else
      ops::attention(stream, q, k, k, o, options);
    stream.synchronize();
  };
  for (const bool backward : {false, true}) {
    CHECK_NOTHROW(run({0, 2, 2, 9}, {1, 2, 3, 3}, backward));
    for (const std::vector<int>& wrong : {std::vector{0, 3, 2, 5}, {-1, 2, 2, 5}, {0, 2, 2, 10}})
      CHECK_THROWS_WITH(run(wrong, {0, 2, 2, 5}, backward),
                        Catch::Contains("query_offsets decrease or leave the tokens of q"));
    for (const std::vector<int>& wrong : {std::vector{0, 3, 2, 5}, {-1, 2, 2, 5}, {0, 2, 2, 6}})
      CHECK_THROWS_WITH(run({0, 2, 2, 9}, wrong, backward),
                        Catch::Contains("key_offsets decrease or leave the tokens of k"));
  }
  stream.clear_error();
}

TEST_CASE("attention refuses offsets that do not fit") {
  Stream stream;
  auto q = Tensor<float, 3>::zeros({2, 9, 16}), o = Tensor<float, 3>::zeros({2, 9, 16});
  auto batches = Tensor<float, 4>::zeros({1, 2, 9, 16}), of_batches = Tensor<float, 4>::zeros({1, 2, 9, 16});
  auto four = Tensor<int, 1>::zeros({4}), five = Tensor<int, 1>::zeros({5}),
       none = Tensor<int, 1>::zeros({0});
  auto floats = Tensor<float, 1>::zeros({4});
  o.fill(7);
  const auto call = [&](const ops::Input& queries, const ops::Input& keys) {
    ops::attention(stream, q, q, q, o, {.query_offsets = queries, .key_offsets = keys});
  };
  using Catch::Contains;
  CHECK_THROWS_WITH(call(four, {}), Contains("one of query_offsets and key_offsets is given"));
  CHECK_THROWS_WITH(call(four, five), Contains("the sizes of query_offsets and key_offsets differ: 4 != 5"));
  CHECK_THROWS_WITH(call(floats, four), Contains("query_offsets is of f32; pass i32 or i64"));
  CHECK_THROWS_WITH(call(none, none), Contains("query_offsets are empty"));
  CHECK_THROWS_WITH(call(q, four), Contains("query_offsets is of f32"));
  CHECK_THROWS_WITH(ops::attention(stream, batches, batches, batches, of_batches,
                                   {.query_offsets = four, .key_offsets = four}),
                    Contains("there are offsets of sequences and batch axes"));
  stream.synchronize();
  CHECK(o.data()[0] == 7);
}
