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

// Random sequences, some of which are empty or have one token, with tokens in front and behind.
template <class I> struct Sequences {
  std::int64_t count, queries, keys;
  Strided<I, 1> query_offsets, key_offsets;

  Sequences(Random& r, std::int64_t count_, std::int64_t most, bool same = false)
      : count(count_), queries(0), keys(0), query_offsets(r, {count + 1}), key_offsets(r, {count + 1}) {
    const auto draw = [&](Strided<I, 1>& offsets) {
      std::int64_t at = r.integer(0, 3);
      for (std::int64_t s = 0; s <= count; ++s) {
        offsets.view(s) = static_cast<I>(at);
        const auto kind = r.integer(0, 5);
        if (s < count) at += kind == 0 ? 0 : kind == 1 ? 1 : r.integer(0, most);
      }
      return at + r.integer(0, 3);
    };
    queries = draw(query_offsets), keys = draw(key_offsets);
    if (same) {
      for (std::int64_t s = 0; s <= count; ++s)
        key_offsets.view(s) = query_offsets.view(s);
      keys = queries;
    }
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
  Strided<Sum<T>, 1> bias, factor;

  Inputs(Random& r, const Sequences<I>& s)
      : sequences(s), key_heads(r.integer(1, 2)), heads(key_heads * r.integer(1, 3)),
        width(r.integer(1, 2) * 16 + r.integer(0, 1)), values(r.integer(1, 40)),
        q(r, {heads, s.queries, width}, uniform(r, -2, 2)),
        k(r, {key_heads, s.keys, width}, uniform(r, -2, 2)),
        v(r, {key_heads, s.keys, values}, uniform(r, -1, 1)),
        dout(r, {heads, s.queries, values}, uniform(r, -1, 1)), sinks(r, {heads}, uniform(r, -2, 2)),
        bias(r, {s.queries}, uniform(r, -1, 1)), factor(r, {s.count}, uniform(r, -0.1, 0.1)) {}
  // The same numbers in another dtype.
  template <class From>
  Inputs(Random& r, const Inputs<From, I>& x)
      : sequences(x.sequences), key_heads(x.key_heads), heads(x.heads), width(x.width), values(x.values),
        q(r, {heads, sequences.queries, width}, x.q), k(r, {key_heads, sequences.keys, width}, x.k),
        v(r, {key_heads, sequences.keys, values}, x.v), dout(r, {heads, sequences.queries, values}, x.dout),
        sinks(r, {heads}, x.sinks), bias(r, {sequences.queries}, x.bias),
        factor(r, {sequences.count}, x.factor) {}
};

// What they write. Elements that must not be written hold a mark.
constexpr double mark = 7;
template <class T> struct Results {
  Strided<T, 3> o, dq, dk, dv;
  Strided<Sum<T>, 2> lse;
  Strided<Sum<T>, 1> dsinks;

  template <class From, class I>
  Results(Random& r, const Inputs<From, I>& x)
      : o(r, {x.heads, x.sequences.queries, x.values}, marked),
        dq(r, {x.heads, x.sequences.queries, x.width}, marked),
        dk(r, {x.key_heads, x.sequences.keys, x.width}, marked),
        dv(r, {x.key_heads, x.sequences.keys, x.values}, marked),
        lse(r, {x.heads, x.sequences.queries}, marked), dsinks(r, {x.heads}, [](auto) { return 0; }) {}

private:
  static double marked() { return mark; }
};

// passes(stream, options, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks, bias, factor) runs both passes.

// All sequences at once, on the device of the test.
template <class T, class I, class Passes>
void run_ragged(const Inputs<T, I>& x, const Results<T>& y, const Passes& passes) {
  on_test_device(
      [&](Stream& s, auto query_offsets, auto key_offsets, auto... views) {
        passes(s, ops::AttentionOptions{.query_offsets = query_offsets, .key_offsets = key_offsets},
               views...);
      },
      x.sequences.query_offsets.view, x.sequences.key_offsets.view, x.dout.view, x.q.view, x.k.view, x.v.view,
      y.o.view, y.lse.view, y.dq.view, y.dk.view, y.dv.view, x.sinks.view, y.dsinks.view, x.bias.view,
      x.factor.view);
}
// Each sequence by itself. `run` is on_test_device or on_cpu.
template <class T, class I, class Run, class Passes>
void run_each(const Inputs<T, I>& x, const Results<T>& y, const Run& run, const Passes& passes) {
  std::vector<double> dsinks(static_cast<std::size_t>(x.heads));
  for (std::int64_t n = 0; n < x.sequences.count; ++n) {
    const auto queries = [&](auto t, int axis) {
      return t.slice(axis, x.sequences.query(n), x.sequences.query(n + 1));
    };
    const auto keys = [&](auto t) { return t.slice(1, x.sequences.key(n), x.sequences.key(n + 1)); };
    run([&](Stream& s, auto... views) { passes(s, ops::AttentionOptions{}, views...); },
        queries(x.dout.view, 1), queries(x.q.view, 1), keys(x.k.view), keys(x.v.view), queries(y.o.view, 1),
        queries(y.lse.view, 1), queries(y.dq.view, 1), keys(y.dk.view), keys(y.dv.view), x.sinks.view,
        y.dsinks.view, queries(x.bias.view, 0), x.factor.view.slice(0, n, n + 1));
    for (std::int64_t h = 0; h < x.heads; ++h)
      dsinks[static_cast<std::size_t>(h)] += y.dsinks(h);
  }
  y.dsinks.each([&](auto h) { y.dsinks.view(h) = static_cast<Sum<T>>(dsinks[static_cast<std::size_t>(h)]); });
}
constexpr auto on_device = [](const auto& f, const auto&... views) { on_test_device(f, views...); };
constexpr auto on_cpu = [](const auto& f, const auto&... views) {
  Stream stream;
  f(stream, views...);
  stream.synchronize();
};

// Compares a call for all sequences with calls for each of them: on the same device, to the bit, and in f64.
template <class T, class I, class Passes>
void check(Random& random, const Inputs<T, I>& x, const Passes& passes) {
  INFO(x.sequences.text() << "; q " << x.q.layout() << "; k " << x.k.layout() << "; v " << x.v.layout());
  const Results<T> y(random, x), same(random, x);
  run_ragged(x, y, passes);
  run_each(x, same, on_device, passes);
  const auto equal = [](const char* name, const auto& a, const auto& b) {
    INFO(name);
    a.each([&](auto... i) { REQUIRE(a(i...) == b(i...)); });
    a.check_gaps();
  };
  equal("o", y.o, same.o);
  equal("lse", y.lse, same.lse);
  equal("dq", y.dq, same.dq);
  equal("dk", y.dk, same.dk);
  equal("dv", y.dv, same.dv);

  const Inputs<double, I> exact(random, x);
  const Results<double> expected(random, exact);
  run_each(exact, expected, on_cpu, passes);
  // Products of rounded weights and of rounded gradients of scores.
  const double tolerance = std::is_same_v<T, bf16>     ? 0x1p-5
                           : std::is_same_v<T, f16>    ? 0x1p-8
                           : std::is_same_v<T, double> ? 1e-12
                                                       : 1e-4;
  const auto close = [&](const char* name, const auto& got, const auto& wanted) {
    INFO(name);
    got.check(tolerance, [&](auto... i) { return wanted(i...); }, 1 / tolerance);
  };
  close("o", y.o, expected.o);
  close("lse", y.lse, expected.lse);
  close("dq", y.dq, expected.dq);
  close("dk", y.dk, expected.dk);
  close("dv", y.dv, expected.dv);
  close("dsinks", y.dsinks, expected.dsinks);
}

// Both passes with options and lambdas.
template <class... Hooks>
void both(Stream& s, ops::AttentionOptions options, bool sunk, auto dout, auto q, auto k, auto v, auto o,
          auto lse, auto dq, auto dk, auto dv, auto sinks, auto dsinks, const Hooks&... hooks) {
  options.lse = lse;
  if (sunk) options.sinks = sinks, options.dsinks = dsinks;
  ops::attention(s, q, k, v, o, options, hooks...);
  ops::attention_backward(s, dout, q, k, v, o, lse, dq, dk, dv, options, hooks...);
}

} // namespace

TEMPLATE_TEST_CASE("ragged batches are attention of each sequence, with gradients", "", float, bf16, f16,
                   double) {
  Random random;
  KILN_SEED(random);
  const int rounds = test_device().is_emulated() ? 1 : 3;
  for (int round = 0; round < rounds; ++round) {
    const Sequences<std::int32_t> sequences(random, random.integer(1, 5), tokens(round == 0 ? 200 : 60));
    const Inputs<TestType, std::int32_t> x(random, sequences);
    ops::AttentionOptions given;
    given.causal = random.integer(0, 1);
    given.alignment = random.integer(0, 1) ? ops::CausalAlignment::last : ops::CausalAlignment::first;
    if (random.integer(0, 1)) given.window_before = random.integer(0, 100);
    if (random.integer(0, 2) == 0) given.window_after = random.integer(0, 100);
    if (random.integer(0, 1)) given.scale = 0.3;
    if (random.integer(0, 1)) given.soft_cap = 2.5;
    const bool sunk = random.integer(0, 1);
    INFO("causal " << given.causal << ", at last " << (given.alignment == ops::CausalAlignment::last)
                   << ", window " << given.window_before << " and " << given.window_after << ", cap "
                   << given.soft_cap << ", sinks " << sunk);
    check(random, x, [&](Stream& s, ops::AttentionOptions options, auto... views) {
      ops::AttentionOptions used = given;
      used.query_offsets = options.query_offsets, used.key_offsets = options.key_offsets;
      const auto run = [&](auto dout, auto q, auto k, auto v, auto o, auto lse, auto dq, auto dk, auto dv,
                           auto sinks, auto dsinks, auto,
                           auto) { both(s, used, sunk, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks); };
      run(views...);
    });
  }
}

TEST_CASE("lambdas get positions in a sequence, its number and where it begins") {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int64_t> sequences(random, 4, tokens(150));
  const Inputs<float, std::int64_t> x(random, sequences);
  check(random, x,
        [](Stream& s, const ops::AttentionOptions& options, auto dout, auto q, auto k, auto v, auto o,
           auto lse, auto dq, auto dk, auto dv, auto sinks, auto dsinks, auto bias, auto factor) {
          both(s, options, true, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks,
               ops::score(
                   [](auto a, auto head, auto query, auto key, auto bias, auto factor) {
                     using A = typename decltype(bias)::element;
                     return a * expand<1>(bias.tile(query.first + query.offset).load()) +
                            factor.at(head.batch).load() * cast<std::remove_const_t<A>>(query - key);
                   },
                   bias, factor),
               ops::mask([](auto head, auto query, auto key) {
                 return (key <= query + 5) | (key < cast<std::int32_t>(head) + 7);
               }));
        });
}

TEST_CASE("ragged batches are attention with a mask of documents, with the same dropout") {
  Random random;
  KILN_SEED(random);
  const Sequences<std::int32_t> sequences(random, 4, tokens(100));
  const Inputs<float, std::int32_t> x(random, sequences);
  const Results<float> ragged(random, x), masked(random, x);
  Strided<std::int32_t, 1> of_queries(random, {sequences.queries}), of_keys(random, {sequences.keys});
  of_queries.fill([&](auto i) { return Sequences<std::int32_t>::of(sequences.query_offsets, i); });
  of_keys.fill([&](auto i) { return Sequences<std::int32_t>::of(sequences.key_offsets, i); });
  const ops::AttentionOptions dropping{.dropout = 0.4, .seed = 1234567};
  on_test_device(
      [&](Stream& s, auto query_offsets, auto key_offsets, auto q, auto k, auto v, auto o, auto all,
          auto of_queries, auto of_keys) {
        ops::AttentionOptions options = dropping;
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
  for (const auto& [count, queries, keys] :
       {std::array<std::int64_t, 3>{0, 5, 5}, {3, 0, 5}, {3, 5, 0}, {2, 0, 0}}) {
    INFO(count << " sequences, " << queries << " queries, " << keys << " keys");
    Sequences<std::int32_t> sequences(random, count, 0);
    sequences.query_offsets.fill([&, queries = queries](auto s) { return s > 1 ? queries : 0; });
    sequences.key_offsets.fill([&, keys = keys](auto s) { return s > 1 ? keys : 0; });
    sequences.queries = queries, sequences.keys = keys;
    const Inputs<float, std::int32_t> x(random, sequences);
    check(random, x,
          [](Stream& s, const ops::AttentionOptions& options, auto dout, auto q, auto k, auto v, auto o,
             auto lse, auto dq, auto dk, auto dv, auto sinks, auto dsinks, auto,
             auto) { both(s, options, true, dout, q, k, v, o, lse, dq, dk, dv, sinks, dsinks); });
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
  }
  const Results<float> y(random, x);
  run_ragged(x, y,
             [](Stream& s, const ops::AttentionOptions& options, auto dout, auto q, auto k, auto v, auto o,
                auto lse, auto dq, auto dk, auto dv, auto sinks, auto dsinks, auto, auto) {
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
