// A random problem of attention, and its gradients in double precision.
#pragma once

#include "strided.h"

#include <on_device.h>

#include <cmath>
#include <functional>
#include <vector>

namespace kiln::test {

// The relative errors of weights, gradients of scores and results, which are rounded to T, and of the sums in
// f32 or f64 from which they are computed.
template <class T> inline constexpr double exact = std::is_same_v<T, double> ? 1e-8 : 1e-5;
template <class T>
inline constexpr double rounding = std::is_same_v<T, bf16>  ? 0x1p-8
                                   : std::is_same_v<T, f16> ? 0x1p-11
                                                            : exact<T>;

// An emulated GPU takes smaller problems.
inline std::int64_t tokens(std::int64_t most) {
  return test_device().is_emulated() ? std::min<std::int64_t>(most, 50) : most;
}

// What the reference computes besides the softmax of scaled products.
struct Reference {
  double scale = 0, soft_cap = 0;
  std::function<double(double s, std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)>
      score;
  std::function<bool(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)> seen;
  std::function<double(std::int64_t head)> sink;
  // What dropout multiplies a weight by.
  std::function<double(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)> kept;

  double score_of(double product, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const double s = soft_cap > 0 ? soft_cap * std::tanh(product / soft_cap) : product;
    return score ? score(s, b, h, i, j) : s;
  }
};

// A sum with the sums of the magnitudes of its terms, and of the larger ones of which they are differences.
struct Sum {
  double value = 0, magnitude = 0, before = 0;
  void add(double x, double larger) { value += x, magnitude += std::abs(x), before += std::abs(larger); }
};
using Sums = std::vector<Sum>; // in row-major order
struct Gradients {
  Sums dq, dk, dv, dsinks;
};

// A random problem with random strides. The forward pass writes o and lse.
template <class T> struct Problem {
  std::int64_t batches, key_heads, heads, queries, keys, width, values;
  Strided<T, 4> q, k, v, o, dout, dq, dk, dv;
  Strided<std::conditional_t<std::is_same_v<T, double>, double, float>, 3> lse;
  Strided<T, 1> sinks, dsinks;

  explicit Problem(Random& r, std::int64_t most_tokens) : Problem(r, most_tokens, r.integer(1, 2)) {}
  Problem(Random& r, std::int64_t most_tokens, std::int64_t batches_)
      : batches(batches_), key_heads(r.integer(1, 2)), heads(key_heads * r.integer(1, 3)),
        queries(r.integer(1, most_tokens)), keys(r.integer(1, most_tokens)),
        width(r.integer(1, 3) * 16 + r.integer(0, 1)), values(r.integer(1, 50)),
        q(r, {batches, heads, queries, width}, uniform(r, -2, 2)),
        k(r, {batches, key_heads, keys, width}, uniform(r, -2, 2)),
        v(r, {batches, key_heads, keys, values}, uniform(r, -1, 1)), o(r, {batches, heads, queries, values}),
        dout(r, {batches, heads, queries, values}, uniform(r, -1, 1)),
        dq(r, {batches, heads, queries, width}), dk(r, {batches, key_heads, keys, width}),
        dv(r, {batches, key_heads, keys, values}), lse(r, {batches, heads, queries}),
        sinks(r, {heads}, uniform(r, -2, 2)), dsinks(r, {heads}) {}

  Gradients gradients(const Reference& r) const {
    const auto n = [](std::int64_t x) { return static_cast<std::size_t>(x); };
    Gradients g{Sums(n(q.view.size())), Sums(n(k.view.size())), Sums(n(v.view.size())), Sums(n(heads))};
    std::vector<double> s(n(keys)), products(n(keys)), d(n(keys)), d_magnitude(n(keys));
    const double scale = r.scale != 0 ? r.scale : 1 / std::sqrt(static_cast<double>(width));
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t kh = h / (heads / key_heads);
          double most = r.sink ? r.sink(h) : -INFINITY, total = 0, delta = 0, delta_magnitude = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            s[n(j)] = -INFINITY, d[n(j)] = d_magnitude[n(j)] = 0;
            if (r.seen && !r.seen(b, h, i, j)) continue;
            double x = 0;
            for (std::int64_t e = 0; e < width; ++e)
              x += q(b, h, i, e) * k(b, kh, j, e);
            products[n(j)] = x * scale;
            s[n(j)] = r.score_of(products[n(j)], b, h, i, j);
            most = std::max(most, s[n(j)]);
            for (std::int64_t e = 0; e < values; ++e) {
              const double x = dout(b, h, i, e) * v(b, kh, j, e);
              d[n(j)] += x, d_magnitude[n(j)] += std::abs(x);
            }
          }
          if (most == -INFINITY) continue;
          for (double x : s)
            total += std::exp(x - most);
          const double sink = r.sink ? std::exp(r.sink(h) - most) : 0;
          total += sink;
          for (std::int64_t e = 0; e < values; ++e) { // of o as it is rounded
            const double x = dout(b, h, i, e) * o(b, h, i, e);
            delta += x, delta_magnitude += std::abs(x);
          }
          g.dsinks[n(h)].add(-sink / total * delta, sink / total * delta_magnitude);
          for (std::int64_t j = 0; j < keys; ++j) {
            const double p = std::exp(s[n(j)] - most) / total, step = 1e-5;
            if (p == 0) continue;
            const double slope = (r.score_of(products[n(j)] + step, b, h, i, j) -
                                  r.score_of(products[n(j)] - step, b, h, i, j)) /
                                 (2 * step);
            const double kept = r.kept ? r.kept(b, h, i, j) : 1;
            const double factor = p * slope * scale, ds = factor * (kept * d[n(j)] - delta),
                         larger = factor * (kept * d_magnitude[n(j)] + delta_magnitude);
            for (std::int64_t e = 0; e < width; ++e) {
              const double x = k(b, kh, j, e), y = q(b, h, i, e);
              g.dq[n(((b * heads + h) * queries + i) * width + e)].add(ds * x, larger * x);
              g.dk[n(((b * key_heads + kh) * keys + j) * width + e)].add(ds * y, larger * y);
            }
            for (std::int64_t e = 0; e < values; ++e) {
              const double x = kept * p * dout(b, h, i, e);
              g.dv[n(((b * key_heads + kh) * keys + j) * values + e)].add(x, x);
            }
          }
        }
    return g;
  }

  // Runs run(stream, problem's views..., more...), which calls attention and attention_backward, and
  // compares. Gradients that it does not want are not written.
  template <class F, class... More> void check(const Reference& r, const F& run, const More&... more) {
    INFO("q " << q.layout() << "; k " << k.layout() << "; v " << v.layout() << "; dout " << dout.layout()
              << "; o " << o.layout() << "; lse " << lse.layout());
    for (Strided<T, 4>* x : {&o, &dq, &dk, &dv})
      x->fill([](auto...) { return NAN; });
    on_test_device(run, dout.view, q.view, k.view, v.view, o.view, lse.view, dq.view, dk.view, dv.view,
                   more...);
    const Gradients g = gradients(r);
    const auto compare = [](const char* name, const auto& got, const Sums& sums) {
      INFO(name << ": " << got.layout());
      auto next = sums.begin();
      got.each([&](auto... i) {
        const Sum sum = *next++;
        // The smallest numbers of f16 are rounded more.
        const double most = rounding<T> * (sum.magnitude + std::abs(sum.value)) + exact<T> * sum.before +
                            (std::is_same_v<T, f16> ? 1e-5 : 0);
        if (std::abs(got(i...) - sum.value) <= most) return;
        std::string where;
        ((where += " " + std::to_string(i)), ...);
        INFO("element" << where << ", the sums of magnitudes are " << sum.magnitude << " and " << sum.before);
        REQUIRE(got(i...) == sum.value);
      });
      got.check_gaps();
    };
    compare("dq", dq, g.dq);
    compare("dk", dk, g.dk);
    compare("dv", dv, g.dv);
    if (r.sink) compare("dsinks", dsinks, g.dsinks);
  }
};

} // namespace kiln::test
