// Compares the named scores and masks of the C functions for attention, and their gradients, with double
// precision.
#include "dl_tensor.h"
#include "strided.h"

#include <list>

using namespace kiln;
using namespace kiln::test;

namespace {

using Values = std::vector<double>;

template <class T> constexpr double tolerance_of = std::is_same_v<T, double> ? 1e-8 : 2e-5;

// A problem with random scores and masks. Tensors have random strides.
template <class T> struct Problem {
  std::int64_t batches, heads, key_heads, queries, keys, width, values, distances;
  Strided<T, 4> q, k, v, o, dout, dq, dk, dv;
  Strided<T, 3> lse;
  Strided<float, 1> slopes;
  Strided<T, 4> bias;
  Strided<bf16, 2> relative;
  Strided<std::int32_t, 1> prefix;
  Strided<std::int64_t, 1> lengths;
  Strided<std::int32_t, 2> documents;
  Strided<std::int64_t, 2> key_documents;
  bool has_slopes, has_bias, has_relative, has_prefix, has_lengths, has_documents, causal, last;
  std::list<Dl> tensors; // of the options
  KilnAttentionOptions options = KILN_ATTENTION_DEFAULTS;

  // Round 0 has everything, round 1 no other mask than prefixes, and others have what chance gives them.
  Problem(Random& r, int round)
      : batches(r.integer(1, 2)), heads(2 * r.integer(1, 2)), key_heads(r.integer(1, 2)),
        queries(r.integer(2, 40)), keys(r.integer(10, 40)), width(16), values(r.integer(1, 20)),
        distances(2 * r.integer(0, 12) + 1), q(r, {batches, heads, queries, width}, uniform(r, -1, 1)),
        k(r, {batches, key_heads, keys, width}, uniform(r, -1, 1)),
        v(r, {batches, key_heads, keys, values}, uniform(r, -1, 1)), o(r, {batches, heads, queries, values}),
        dout(r, {batches, heads, queries, values}, uniform(r, -1, 1)),
        dq(r, {batches, heads, queries, width}), dk(r, {batches, key_heads, keys, width}),
        dv(r, {batches, key_heads, keys, values}), lse(r, {batches, heads, queries}),
        slopes(r, {heads}, uniform(r, 0, 0.5)),
        bias(
            r,
            {r.integer(0, 1) ? batches : 1, r.integer(0, 1) ? heads : 1, r.integer(0, 1) ? queries : 1, keys},
            uniform(r, -1, 1)),
        relative(r, {r.integer(0, 1) ? heads : 1, distances}, uniform(r, -1, 1)),
        prefix(r, {batches}, integers(r, 0, keys + 3)), lengths(r, {batches}, integers(r, 0, keys + 3)),
        documents(r, {batches, queries}, [&](auto, auto i) { return i / 15; }),
        key_documents(r, {batches, keys}, [&](auto, auto i) { return i / 15; }),
        has_slopes(round == 0 || r.integer(0, 1)), has_bias(round == 0 || r.integer(0, 1)),
        has_relative(round == 0 || r.integer(0, 1)), has_prefix(round < 2 || r.integer(0, 1)),
        has_lengths(round != 1 && (round == 0 || r.integer(0, 1))),
        has_documents(round != 1 && (round == 0 || r.integer(0, 1))), causal(has_prefix || r.integer(0, 1)),
        last(round == 0 || r.integer(0, 1)) {
    options.causal = causal, options.align_last = last;
    const auto set = [&](bool given, const DLTensor*& option, const auto& view) {
      if (given) option = tensors.emplace_back(view);
    };
    set(has_slopes, options.alibi_slopes, slopes.view);
    set(has_bias, options.bias, bias.view);
    set(has_relative, options.relative_bias, relative.view);
    set(has_prefix, options.prefix_lengths, prefix.view);
    set(has_lengths, options.key_lengths, lengths.view);
    set(has_documents, options.documents, documents.view);
    set(has_documents, options.key_documents, key_documents.view);
    options.lse = tensors.emplace_back(lse.view);
  }
  std::string text() const {
    return std::to_string(batches) + " batches, " + std::to_string(heads) + " heads, " +
           std::to_string(key_heads) + " key heads, " + std::to_string(queries) + " queries, " +
           std::to_string(keys) + " keys; slopes " + std::to_string(has_slopes) + ", bias " +
           std::to_string(has_bias) + ", relative " + std::to_string(has_relative) + ", prefix " +
           std::to_string(has_prefix) + ", lengths " + std::to_string(has_lengths) + ", documents " +
           std::to_string(has_documents) + ", causal " + std::to_string(causal) + ", last " +
           std::to_string(last);
  }

  std::int64_t position(std::int64_t i) const { return last ? i + keys - queries : i; }
  bool seen(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return (!causal || j <= position(i) || (has_prefix && static_cast<double>(j) < prefix(b))) &&
           (!has_lengths || static_cast<double>(j) < lengths(b)) &&
           (!has_documents || documents(b, i) == key_documents(b, j));
  }
  double added(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t far = distances / 2, distance = j - position(i);
    const auto place = [](const auto& view, int axis, std::int64_t at) {
      return view.extent(axis) == 1 ? 0 : at;
    };
    return (has_slopes ? -slopes(h) * static_cast<double>(std::abs(distance)) : 0) +
           (has_bias ? bias(place(bias.view, 0, b), place(bias.view, 1, h), place(bias.view, 2, i), j) : 0) +
           (has_relative ? relative(place(relative.view, 0, h), std::clamp(distance, -far, far) + far) : 0);
  }

  // Calls f(b, h, key head, i, weights, the log of their sum) for each query.
  template <class F> void each_query(const F& f) const {
    Values weights(static_cast<std::size_t>(keys));
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t kh = h / (heads / key_heads);
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            double s = 0;
            for (std::int64_t e = 0; e < width; ++e)
              s += q(b, h, i, e) * k(b, kh, j, e);
            sum += weights[static_cast<std::size_t>(j)] =
                seen(b, i, j) ? std::exp(s / std::sqrt(width) + added(b, h, i, j)) : 0;
          }
          for (double& w : weights)
            w = sum > 0 ? w / sum : 0;
          f(b, h, kh, i, weights, std::log(sum));
        }
  }

  void check_forward() {
    REQUIRE(kiln_attention(Dl(q.view), Dl(k.view), Dl(v.view), Dl(o.view), &options) == KILN_OK);
    Values expected(static_cast<std::size_t>(o.view.size())), sums(static_cast<std::size_t>(lse.view.size()));
    each_query([&](auto b, auto h, auto kh, auto i, const Values& weights, double sum) {
      const auto row = static_cast<std::size_t>((b * heads + h) * queries + i);
      sums[row] = sum;
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t e = 0; e < values; ++e)
          expected[row * static_cast<std::size_t>(values) + static_cast<std::size_t>(e)] +=
              weights[static_cast<std::size_t>(j)] * v(b, kh, j, e);
    });
    const auto row = [&](auto b, auto h, auto i) {
      return static_cast<std::size_t>((b * heads + h) * queries + i);
    };
    o.check(tolerance_of<T>, [&](auto b, auto h, auto i, auto e) {
      return expected[row(b, h, i) * static_cast<std::size_t>(values) + static_cast<std::size_t>(e)];
    });
    lse.check(tolerance_of<T>, [&](auto b, auto h, auto i) { return sums[row(b, h, i)]; });
  }

  void check_gradients() {
    Dl of_lse(lse.view);
    REQUIRE(kiln_attention_backward(Dl(dout.view), Dl(q.view), Dl(k.view), Dl(v.view), Dl(o.view), of_lse,
                                    Dl(dq.view), Dl(dk.view), Dl(dv.view), &options) == KILN_OK);
    const auto size = [](const auto& x) { return static_cast<std::size_t>(x.view.size()); };
    Values of_q(size(dq)), of_k(size(dk)), of_v(size(dv));
    Values from_q(size(dq)), from_k(size(dk)); // the sums of the magnitudes whose differences make dq and dk
    const auto at = [](const auto& x, auto a, auto b, auto c, auto d) {
      return static_cast<std::size_t>(((a * x.view.extent(1) + b) * x.view.extent(2) + c) * x.view.extent(3) +
                                      d);
    };
    each_query([&](auto b, auto h, auto kh, auto i, const Values& weights, double) {
      Values dweights(weights.size());
      double total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        const double w = weights[static_cast<std::size_t>(j)];
        double& d = dweights[static_cast<std::size_t>(j)];
        for (std::int64_t e = 0; e < values; ++e) {
          d += dout(b, h, i, e) * v(b, kh, j, e);
          of_v[at(dv, b, kh, j, e)] += w * dout(b, h, i, e);
        }
        total += w * d;
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        const double w = weights[static_cast<std::size_t>(j)] / std::sqrt(width),
                     d = dweights[static_cast<std::size_t>(j)], ds = w * (d - total),
                     from = w * (std::abs(d) + std::abs(total));
        for (std::int64_t e = 0; e < width; ++e) {
          of_q[at(dq, b, h, i, e)] += ds * k(b, kh, j, e);
          of_k[at(dk, b, kh, j, e)] += ds * q(b, h, i, e);
          from_q[at(dq, b, h, i, e)] += from * std::abs(k(b, kh, j, e));
          from_k[at(dk, b, kh, j, e)] += from * std::abs(q(b, h, i, e));
        }
      }
    });
    dq.check(4 * tolerance_of<T>, [&](auto... i) { return of_q[at(dq, i...)]; }, std::ranges::max(from_q));
    dk.check(4 * tolerance_of<T>, [&](auto... i) { return of_k[at(dk, i...)]; }, std::ranges::max(from_k));
    dv.check(4 * tolerance_of<T>, [&](auto... i) { return of_v[at(dv, i...)]; }, 1);
  }
};

} // namespace

TEMPLATE_TEST_CASE("named scores and masks of attention, and their gradients", "", float, double) {
  Random random;
  KILN_SEED(random);
  for (int round = std::is_same_v<TestType, double> ? 2 : 0; round < 3; ++round) { // compiling takes the time
    Problem<TestType> p(random, round);
    INFO(p.text());
    p.check_forward();
    p.check_gradients();
  }
}

// Their kernels have more arguments than any others.
TEST_CASE("all options of attention work together") {
  Random random;
  KILN_SEED(random);
  Problem<float> p(random, 0);
  Strided<float, 1> sinks(random, {p.heads}, uniform(random, -1, 1));
  Dl of_sinks(sinks.view);
  KilnAttentionOptions& o = p.options;
  o.window_before = o.window_after = 30, o.soft_cap = 5, o.dropout = 0.25, o.seed = 3, o.sinks = of_sinks;
  REQUIRE(kiln_attention(Dl(p.q.view), Dl(p.k.view), Dl(p.v.view), Dl(p.o.view), &o) == KILN_OK);
  p.lse.fill([](auto...) { return 1; });
  REQUIRE(kiln_attention_backward(Dl(p.dout.view), Dl(p.q.view), Dl(p.k.view), Dl(p.v.view), Dl(p.o.view),
                                  Dl(p.lse.view), Dl(p.dq.view), Dl(p.dk.view), Dl(p.dv.view),
                                  &o) == KILN_OK);
  const auto finite = [](const auto& x) { x.each([&](auto... i) { REQUIRE(std::isfinite(x(i...))); }); };
  finite(p.o), finite(p.dq), finite(p.dk), finite(p.dv);
}

TEST_CASE("named scores and masks that do not fit are errors, and nothing is written") {
  Random random;
  Strided<float, 4> q(random, {2, 3, 7, 16}, uniform(random, -1, 1)),
      k(random, {2, 3, 9, 16}, uniform(random, -1, 1)), o(random, {2, 3, 7, 16});
  const double before = o(0, 0, 0, 0);
  Strided<float, 1> slopes(random, {4}), floats(random, {2}), right(random, {3});
  Strided<float, 3> bias(random, {3, 7, 8});
  Strided<float, 2> even(random, {3, 4}), other_heads(random, {2, 5});
  Strided<std::int32_t, 1> lengths(random, {3}, [] { return 1; }), two(random, {2}, [] { return 1; });
  Strided<std::int32_t, 2> documents(random, {2, 7}, [] { return 1; });
  Dl dq(q.view), dk(k.view), dout(o.view);
  const auto says = [&](auto set, const std::string& text) {
    KilnAttentionOptions options = KILN_ATTENTION_DEFAULTS;
    set(options);
    CHECK(kiln_attention(dq, dk, dk, dout, &options) == KILN_USER_ERROR);
    CHECK(kiln_last_error() == "kiln_attention: " + text);
    CHECK(o(0, 0, 0, 0) == before);
    o.check_gaps();
  };
  const auto add = [](const DLTensor* KilnAttentionOptions::* member, const Dl& tensor) {
    return [=](KilnAttentionOptions& o) mutable { o.*member = &tensor.tensor; };
  };
  const Dl of_slopes(slopes.view), of_floats(floats.view), of_bias(bias.view), of_even(even.view),
      of_others(other_heads.view), of_lengths(lengths.view), of_two(two.view), of_documents(documents.view),
      of_right(right.view);
  says(add(&KilnAttentionOptions::alibi_slopes, of_slopes),
       "alibi_slopes' size and q's heads differ: 4 != 3; pass tensors whose extents match");
  says(add(&KilnAttentionOptions::alibi_slopes, of_two),
       "alibi_slopes is of i32; pass f32, f64, bf16, f16, f8e4m3 "
       "or f8e5m2");
  says(add(&KilnAttentionOptions::bias, of_bias),
       "bias, {3, 7, 8}, does not broadcast to the scores, {2, 3, 7, 9}; "
       "pass extents that are equal or 1");
  says(add(&KilnAttentionOptions::relative_bias, of_even),
       "relative_bias has an even number of distances; pass 2 n + 1, for -n to n");
  says(add(&KilnAttentionOptions::relative_bias, of_others),
       "relative_bias, {2, 5}, does not broadcast to one row for each head, {3, 5}; pass extents that are "
       "equal or 1");
  says(add(&KilnAttentionOptions::prefix_lengths, of_two),
       "prefix_lengths show keys that causal hides, and causal is not set; set it, or leave them out");
  says(add(&KilnAttentionOptions::key_lengths, of_lengths),
       "key_lengths' size and q's batches differ: 3 != 2; pass tensors whose extents match");
  says(add(&KilnAttentionOptions::key_lengths, of_floats), "key_lengths is of f32; pass i32 or i64");
  says(add(&KilnAttentionOptions::documents, of_documents),
       "documents' columns and the number of keys differ: 7 != 9; pass tensors whose extents match");
  says(add(&KilnAttentionOptions::key_documents, of_documents),
       "key_documents are given without documents; give both");
  Dl alias = of_right;
  alias.tensor.data = o.view.data();
  says(add(&KilnAttentionOptions::alibi_slopes, alias),
       "o overlaps alibi_slopes, which is read while it is written; give it memory of its own");
}
