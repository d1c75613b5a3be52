// Compares attention with a cache with double precision, paged caches with contiguous ones, and batches with
// their parts.
#include "strided.h"

#include <kiln/kiln.h>

using namespace kiln;
using namespace kiln::test;

namespace {

template <class T>
constexpr double tolerance_of = std::is_same_v<T, bf16>  ? 0x1p-6
                                : std::is_same_v<T, f16> ? 0x1p-8
                                                         : 3e-5;

struct Sizes {
  std::int64_t batches, key_heads, group, queries, width, values, page_size, sequence_pages;
  std::int64_t capacity() const { return page_size * sequence_pages; }
  std::string text() const {
    return std::to_string(batches) + " batches, " + std::to_string(key_heads) + " x " +
           std::to_string(group) + " heads of " + std::to_string(width) + " and " + std::to_string(values) +
           ", " + std::to_string(queries) + " queries, " + std::to_string(sequence_pages) + " pages of " +
           std::to_string(page_size);
  }
};

Sizes random_sizes(Random& r, std::int64_t most_keys) {
  Sizes s{r.integer(1, 3),      r.integer(1, 3),  r.integer(1, 5),  r.integer(0, 1) ? 1 : r.integer(2, 7),
          16 * r.integer(1, 5), r.integer(1, 80), r.integer(1, 40), 0};
  if (r.integer(0, 1)) s.page_size = 64 * r.integer(1, 3);
  s.sequence_pages = (r.integer(1, most_keys) + s.page_size - 1) / s.page_size;
  return s;
}

// The same tokens in a contiguous and in a paged cache. Elements behind the lengths are NaN, or 127.
template <class T> struct Caches {
  Strided<T, 4> keys, values, key_pages, value_pages;
  Strided<float, 3> key_scales, value_scales, key_page_scales, value_page_scales;
  Strided<std::int32_t, 2> blocks;
  Strided<std::int32_t, 1> lengths;

  // The keys of sequence b that exist: lengths(b) + appended.
  Caches(Random& r, const Sizes& s, std::int64_t appended)
      : keys(r, {s.batches, s.key_heads, s.capacity(), s.width}),
        values(r, {s.batches, s.key_heads, s.capacity(), s.values}),
        key_pages(r, {s.batches * s.sequence_pages, s.key_heads, s.page_size, s.width}),
        value_pages(r, {s.batches * s.sequence_pages, s.key_heads, s.page_size, s.values}),
        key_scales(r, {s.batches, s.key_heads, s.capacity()}),
        value_scales(r, {s.batches, s.key_heads, s.capacity()}),
        key_page_scales(r, {s.batches * s.sequence_pages, s.key_heads, s.page_size}),
        value_page_scales(r, {s.batches * s.sequence_pages, s.key_heads, s.page_size}),
        blocks(r, {s.batches, s.sequence_pages},
               [&](auto b, auto i) { return s.batches * s.sequence_pages - 1 - (i * s.batches + b); }),
        lengths(r, {s.batches},
                [&] { return std::max<std::int64_t>(0, r.integer(-2, s.capacity() - appended)); }) {
    const bool bytes = std::is_same_v<T, std::int8_t>;
    const auto fill = [&](auto& whole, auto& pages, double most) {
      whole.fill([&](auto b, auto, auto t, auto...) {
        const bool there = t < static_cast<std::int64_t>(lengths(b)) + appended;
        return there ? r.uniform(-most, most) : bytes && whole.view.rank() == 4 ? 127 : NAN;
      });
      pages.fill([&](auto page, auto h, auto slot, auto... e) {
        for (std::int64_t b = 0; b < s.batches; ++b)
          for (std::int64_t i = 0; i < s.sequence_pages; ++i)
            if (static_cast<std::int64_t>(blocks(b, i)) == page)
              return whole(b, h, i * s.page_size + slot, e...);
        return 0.0;
      });
    };
    fill(keys, key_pages, bytes ? 127 : 2);
    fill(values, value_pages, bytes ? 127 : 1);
    fill(key_scales, key_page_scales, 0.02);
    fill(value_scales, value_page_scales, 0.02);
  }
  double key(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t e) const {
    return keys(b, h, t, e) * (std::is_same_v<T, std::int8_t> ? key_scales(b, h, t) : 1);
  }
  double value(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t e) const {
    return values(b, h, t, e) * (std::is_same_v<T, std::int8_t> ? value_scales(b, h, t) : 1);
  }
};

template <class T, class Q> struct Problem {
  Sizes s;
  ops::DecodeOptions options;
  Caches<T> caches;
  Strided<Q, 4> q, o, paged_o;
  Strided<float, 3> lse, paged_lse;
  Strided<float, 1> sinks;
  bool sunk;

  // Round 0 has a window, round 2 sees all keys.
  Problem(Random& r, const Sizes& sizes, int round = 1)
      : s(sizes), options(random_options(r, sizes, round)), caches(r, s, options.appended),
        q(r, {s.batches, s.key_heads * s.group, s.queries, s.width}, uniform(r, -2, 2)),
        o(r, {s.batches, s.key_heads * s.group, s.queries, s.values}),
        paged_o(r, {s.batches, s.key_heads * s.group, s.queries, s.values}),
        lse(r, {s.batches, s.key_heads * s.group, s.queries}),
        paged_lse(r, {s.batches, s.key_heads * s.group, s.queries}),
        sinks(r, {s.key_heads * s.group}, uniform(r, -2, 2)), sunk(r.integer(0, 2) == 0) {}

  static ops::DecodeOptions random_options(Random& r, const Sizes& s, int round) {
    ops::DecodeOptions o;
    o.appended = r.integer(0, std::min(s.queries, s.capacity()));
    o.causal = r.integer(0, 3) > 0;
    if (r.integer(0, 1)) o.scale = 0.3;
    if (round == 0 || (round == 1 && r.integer(0, 1))) o.window_before = r.integer(0, s.capacity() / 2);
    if (r.integer(0, 2) == 0) o.soft_cap = 2.5;
    return o;
  }
  std::string text() const {
    return s.text() + "; keys " + caches.keys.layout() + "; values " + caches.values.layout() + "; q " +
           q.layout() + "; appended " + std::to_string(options.appended) + ", causal " +
           std::to_string(options.causal) + ", window " + std::to_string(options.window_before) + ", cap " +
           std::to_string(options.soft_cap) + ", sunk " + std::to_string(sunk);
  }

  void run() {
    const Caches<T>& c = caches;
    on_test_device(
        [&](Stream& stream, auto q, auto o, auto paged_o, auto lse, auto paged_lse, auto sinks, auto keys,
            auto values, auto key_pages, auto value_pages, auto key_scales, auto value_scales,
            auto key_page_scales, auto value_page_scales, auto blocks, auto lengths) {
          ops::KeyValueCache whole{.keys = keys, .values = values},
              paged{.keys = key_pages, .values = value_pages, .blocks = blocks};
          if (std::is_same_v<T, std::int8_t>) {
            whole.key_scales = key_scales, whole.value_scales = value_scales;
            paged.key_scales = key_page_scales, paged.value_scales = value_page_scales;
          }
          ops::DecodeOptions used = options;
          if (sunk) used.sinks = sinks;
          used.lse = lse;
          ops::attention_decode(stream, q, whole, lengths, o, used);
          used.lse = paged_lse;
          ops::attention_decode(stream, q, paged, lengths, paged_o, used);
        },
        q.view, o.view, paged_o.view, lse.view, paged_lse.view, sinks.view, c.keys.view, c.values.view,
        c.key_pages.view, c.value_pages.view, c.key_scales.view, c.value_scales.view, c.key_page_scales.view,
        c.value_page_scales.view, c.blocks.view, c.lengths.view);
  }

  // The result of one query, and its log-sum-exp.
  std::pair<std::vector<double>, double> attend(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const std::int64_t length = static_cast<std::int64_t>(caches.lengths(b)) + options.appended,
                       own = length - s.queries + i,
                       end = options.causal ? std::min(own + 1, length) : length;
    std::vector<double> score(static_cast<std::size_t>(s.capacity()), -INFINITY),
        o(static_cast<std::size_t>(s.values));
    double most = sunk ? sinks(h) : -INFINITY;
    for (std::int64_t j = 0; j < end; ++j) {
      if (options.window_before >= 0 && j < own - options.window_before) continue;
      double x = 0;
      for (std::int64_t e = 0; e < s.width; ++e)
        x += q(b, h, i, e) * caches.key(b, h / s.group, j, e);
      x *= options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(s.width));
      if (options.soft_cap > 0) x = options.soft_cap * std::tanh(x / options.soft_cap);
      most = std::max(most, score[static_cast<std::size_t>(j)] = x);
    }
    if (most == -INFINITY) return {o, -INFINITY};
    double total = sunk ? std::exp(sinks(h) - most) : 0;
    for (std::int64_t j = 0; j < end; ++j) {
      const double w = std::exp(score[static_cast<std::size_t>(j)] - most);
      total += w;
      for (std::int64_t e = 0; w > 0 && e < s.values; ++e)
        o[static_cast<std::size_t>(e)] += w * caches.value(b, h / s.group, j, e);
    }
    for (double& x : o)
      x /= total;
    return {o, most + std::log(total)};
  }

  void check(double tolerance) const {
    std::int64_t b = -1, h = -1, i = -1;
    std::pair<std::vector<double>, double> row;
    const auto at = [&](std::int64_t batch, std::int64_t head, std::int64_t query) {
      if (batch != b || head != h || query != i) row = attend(b = batch, h = head, i = query);
    };
    o.check(
        tolerance,
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
  bool rows_contiguous() const {
    const Caches<T>& c = caches;
    return c.keys.view.stride(3) == 1 && c.values.view.stride(3) == 1 && c.key_pages.view.stride(3) == 1 &&
           c.value_pages.view.stride(3) == 1;
  }
  void check_paged(double tolerance) const {
    if (rows_contiguous()) {
      o.each([&](auto... at) { REQUIRE(paged_o(at...) == o(at...)); });
      lse.each([&](auto... at) { REQUIRE(paged_lse(at...) == lse(at...)); });
    } else {
      paged_o.check(tolerance, [&](auto... at) { return o(at...); }, 1);
    }
  }
};

std::int64_t most_keys(int round) { return test_device().is_emulated() ? 300 : round % 2 ? 100 : 1300; }

} // namespace

TEMPLATE_TEST_CASE("attention with contiguous and paged caches", "", float, bf16, f16, double) {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < (test_device().is_emulated() ? 2 : 3); ++round) {
    Problem<TestType, TestType> p(random, random_sizes(random, most_keys(round)), round);
    INFO(p.text());
    p.run();
    p.check(tolerance_of<TestType>);
    p.check_paged(tolerance_of<TestType>);
  }
}

TEMPLATE_TEST_CASE("attention with caches of bytes", "", float, bf16) {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < 2; ++round) {
    Problem<std::int8_t, TestType> p(random, random_sizes(random, most_keys(round)), round);
    INFO(p.text());
    p.run();
    p.check(tolerance_of<TestType>);
    p.check_paged(tolerance_of<TestType>);
  }
}

TEST_CASE("many queries and many heads of one key head are divided into blocks of rows") {
  Random random;
  KILN_SEED(random);
  const Sizes many_heads{1, 1, 67, 2, 16, 8, 40, 2}, many_queries{2, 1, 3, 18, 16, 8, 40, 2};
  for (const Sizes& sizes : {many_heads, many_queries}) {
    Problem<float, float> p(random, sizes);
    INFO(p.text());
    p.run();
    p.check(tolerance_of<float>);
    p.check_paged(tolerance_of<float>);
  }
}

TEST_CASE("the result of a sequence depends neither on its batch nor on the capacity of the cache") {
  Random random;
  KILN_SEED(random);
  const std::int64_t batches = 4, heads = 6, capacity = test_device().is_emulated() ? 300 : 1100;
  Strided<bf16, 3> q(random, {batches, heads, 32}, uniform(random, -2, 2)), o(random, {batches, heads, 32}),
      alone(random, {batches, heads, 32});
  Strided<bf16, 4> keys(random, {batches, 2, capacity, 32}, uniform(random, -2, 2)),
      values(random, {batches, 2, capacity, 32}, uniform(random, -2, 2));
  Strided<std::int32_t, 1> lengths(random, {batches}, integers(random, 0, capacity - 64));
  on_test_device(
      [&](Stream& stream, auto q, auto o, auto alone, auto keys, auto values, auto lengths) {
        ops::attention_decode(stream, q, {.keys = keys, .values = values}, lengths, o);
        for (std::int64_t b = 0; b < batches; ++b) {
          const auto of = [b](auto x) { return x.slice(0, b, b + 1); };
          ops::attention_decode(
              stream, of(q),
              {.keys = of(keys).slice(2, 0, capacity - 64), .values = of(values).slice(2, 0, capacity - 64)},
              of(lengths), of(alone));
        }
      },
      q.view, o.view, alone.view, keys.view, values.view, lengths.view);
  o.each([&](auto... at) { REQUIRE(alone(at...) == o(at...)); });
}

namespace {

// Lengths and pages that do not exist, and caches in memory of their own.
struct BadPlaces {
  Tensor<float, 3> q = Tensor<float, 3>::zeros({3, 2, 16}), o = Tensor<float, 3>::zeros({3, 2, 16});
  Tensor<float, 4> keys = Tensor<float, 4>::zeros({3, 1, 8, 16}),
                   values = Tensor<float, 4>::zeros({3, 1, 8, 16});
  Tensor<std::int32_t, 1> lengths = Tensor<std::int32_t, 1>::zeros({3}),
                          whole = Tensor<std::int32_t, 1>::zeros({3});
  Tensor<std::int32_t, 2> blocks = Tensor<std::int32_t, 2>::zeros({3, 2});

  BadPlaces() {
    values.fill(1), whole.fill(16);
    const std::int32_t bad_lengths[] = {-5, 1 << 30, 9};
    const std::int32_t bad_blocks[] = {-1, 0, 3, 1, 1 << 30, -(1 << 30)};
    std::copy_n(bad_lengths, 3, lengths.data());
    std::copy_n(bad_blocks, 6, blocks.data());
  }
};

} // namespace

TEST_CASE("lengths are limited to the capacity, and missing pages are zeros") {
  BadPlaces p;
  auto paged = Tensor<float, 3>::zeros({3, 2, 16});
  on_test_device(
      [](Stream& s, auto q, auto o, auto paged, auto keys, auto values, auto lengths, auto whole,
         auto blocks) {
        ops::attention_decode(s, q, {.keys = keys, .values = values}, lengths, o);
        ops::attention_decode(s, q, {.keys = keys, .values = values, .blocks = blocks}, whole, paged);
      },
      p.q.view(), p.o.view(), paged.view(), p.keys.view(), p.values.view(), p.lengths.view(), p.whole.view(),
      p.blocks.view());
  const float expected[] = {0, 1, 1}, of_pages[] = {0.5f, 0.5f, 0};
  for (std::int64_t i = 0; i < p.o.size(); ++i) {
    CHECK(p.o.data()[i] == Approx(expected[i / 32]));
    CHECK(paged.data()[i] == Approx(of_pages[i / 32]));
  }
}

TEST_CASE("with KILN_DEBUG, lengths and pages that do not exist are errors", "[.debug]") {
  BadPlaces p;
  Stream stream;
  const auto run = [&](const ops::KeyValueCache& cache, const Tensor<std::int32_t, 1>& lengths) {
    stream.clear_error();
    ops::attention_decode(stream, p.q, cache, lengths, p.o);
    stream.synchronize();
  };
  CHECK_THROWS_WITH(run({.keys = p.keys, .values = p.values}, p.lengths),
                    Catch::Contains("the length of a sequence is 0 to the cache's capacity"));
  CHECK_THROWS_WITH(run({.keys = p.keys, .values = p.values, .blocks = p.blocks}, p.whole),
                    Catch::Contains("an entry of cache.blocks is a page"));
  stream.clear_error();
}

TEST_CASE("attention_decode refuses extents, dtypes and aliases that do not fit") {
  Stream stream;
  auto q = Tensor<float, 3>::zeros({2, 4, 16}), o = Tensor<float, 3>::zeros({2, 4, 16}),
       odd = Tensor<float, 3>::zeros({2, 5, 16}), wide = Tensor<float, 3>::zeros({2, 4, 17});
  auto keys = Tensor<float, 4>::zeros({2, 2, 9, 16}), values = Tensor<float, 4>::zeros({2, 2, 9, 16});
  auto lengths = Tensor<std::int32_t, 1>::zeros({2});
  auto reals = Tensor<float, 1>::zeros({2});
  const ops::KeyValueCache cache{.keys = keys, .values = values};
  using Catch::Contains;
  CHECK_THROWS_WITH(ops::attention_decode(stream, odd, cache, lengths, odd),
                    Contains("ops::attention_decode: q's heads are not a multiple of the cache's"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, wide, cache, lengths, o),
                    Contains("the widths of q and cache.keys differ: 17 != 16"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, lengths, odd),
                    Contains("q's heads and o's differ: 4 != 5"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, lengths, q), Contains("o overlaps q"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, reals, o),
                    Contains("lengths is of f32; pass i32 or i64"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, lengths, o, {.soft_cap = -1}),
                    Contains("soft_cap"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, lengths, o, {.lse = wide}),
                    Contains("lse has extents {2, 4, 17} and q without its last axis {2, 4}"));
  CHECK_THROWS_WITH(ops::attention_decode(stream, q, cache, lengths, o, {.sinks = reals}),
                    Contains("sinks' size and q's heads differ: 2 != 4"));
}
