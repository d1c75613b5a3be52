// Compares appending to caches of keys and values, and the rotation that goes with it, with double precision.
#include "strided.h"

#include <kiln/kiln.h>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr double before = 7;  // what caches hold before the calls
constexpr double angles = 64; // the rounding error of angles is that of such numbers

// A random problem. The place of a token of the cache is (page, slot).
template <class T, class C> struct Problem {
  bool paged, rotates, interleaved, queries;
  std::int64_t batches, key_heads, group, tokens, width, values, part, page_size, sequence_pages, capacity;
  Strided<T, 4> k, v, q, rotated;
  Strided<C, 4> keys, cached_values;
  Strided<float, 3> key_scales, value_scales;
  Strided<std::int32_t, 1> lengths;
  Strided<std::int32_t, 2> blocks;

  explicit Problem(Random& r)
      : paged(r.integer(0, 1)), rotates(r.integer(0, 2) > 0), interleaved(r.integer(0, 1)),
        queries(rotates && r.integer(0, 1)), batches(r.integer(1, 3)), key_heads(r.integer(1, 3)),
        group(r.integer(1, 3)), tokens(r.integer(1, 9)), width(2 * r.integer(1, 20)),
        values(r.integer(1, 30)), part(r.integer(0, 1) ? width : 2 * r.integer(1, width / 2)),
        page_size(paged ? r.integer(1, 7) : 30), sequence_pages(paged ? 30 / page_size : 1),
        capacity(page_size * sequence_pages), k(r, {batches, key_heads, tokens, width}, uniform(r, -2, 2)),
        v(r, {batches, key_heads, tokens, values}, uniform(r, -2, 2)),
        q(r, {batches, key_heads * group, tokens, width}, uniform(r, -2, 2)),
        rotated(r, {batches, key_heads * group, tokens, width}),
        keys(r, {batches * sequence_pages, key_heads, page_size, width}, [] { return before; }),
        cached_values(r, {batches * sequence_pages, key_heads, page_size, values}, [] { return before; }),
        key_scales(r, {batches * sequence_pages, key_heads, page_size}, [] { return before; }),
        value_scales(r, {batches * sequence_pages, key_heads, page_size}, [] { return before; }),
        lengths(r, {batches}, integers(r, 0, capacity - tokens)),
        blocks(r, {batches, sequence_pages}, [&](auto b, auto i) { // every page occurs once
          return batches * sequence_pages - 1 - (i * batches + b);
        }) {}

  std::string text() const {
    return "k " + k.layout() + "; v " + v.layout() + "; keys " + keys.layout() + "; values " +
           cached_values.layout() + (rotates ? ", rotated" : "");
  }
  // The token that the call wrote to a place of the cache, or -1.
  std::pair<std::int64_t, std::int64_t> token(std::int64_t page, std::int64_t slot) const {
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t i = 0; i < sequence_pages; ++i)
        if ((paged ? static_cast<std::int64_t>(blocks(b, i)) : b) == page) {
          const std::int64_t t = i * page_size + slot - static_cast<std::int64_t>(lengths(b));
          return {b, t < tokens ? t : -1};
        }
    return {0, -1};
  }
  // Element e of a head that is rotated, of which at(i) is element i.
  template <class F> double rotate(const F& at, std::int64_t position, std::int64_t e) const {
    if (!rotates || e >= part) return at(e);
    const std::int64_t half = part / 2, pair = interleaved ? e / 2 : e % half;
    const bool second = interleaved ? e % 2 : e >= half;
    const double angle = static_cast<double>(position) *
                         std::pow(1000.0, -2 * static_cast<double>(pair) / static_cast<double>(part));
    const double x = at(interleaved ? 2 * pair : pair), y = at(interleaved ? 2 * pair + 1 : pair + half);
    return second ? y * std::cos(angle) + x * std::sin(angle) : x * std::cos(angle) - y * std::sin(angle);
  }
  double key(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t e) const {
    return rotate([&](auto i) { return k(b, h, t, i); }, t + static_cast<std::int64_t>(lengths(b)), e);
  }
  ops::AppendOptions options() const {
    ops::AppendOptions o;
    if (rotates)
      o.rotary =
          ops::RotaryOptions{.pairs = interleaved ? ops::RotaryPairs::interleaved : ops::RotaryPairs::halves,
                             .width = part,
                             .theta = 1000};
    return o;
  }
  void run() {
    on_test_device(
        [&](Stream& s, auto k, auto v, auto q, auto rotated, auto keys, auto values, auto key_scales,
            auto value_scales, auto lengths, auto blocks) {
          ops::KeyValueCache cache{.keys = keys, .values = values};
          if (paged) cache.blocks = blocks;
          if (std::is_same_v<C, std::int8_t>)
            cache.key_scales = key_scales, cache.value_scales = value_scales;
          ops::AppendOptions o = options();
          if (queries) o.q = q, o.rotated_q = rotated;
          ops::cache_append(s, k, v, lengths, cache, o);
        },
        k.view, v.view, q.view, rotated.view, keys.view, cached_values.view, key_scales.view,
        value_scales.view, lengths.view, blocks.view);
    if (queries)
      rotated.check(
          tolerance<T>(),
          [&](auto b, auto h, auto t, auto e) {
            return rotate([&](auto i) { return q(b, h, t, i); }, t + static_cast<std::int64_t>(lengths(b)),
                          e);
          },
          angles);
  }
};

} // namespace

TEMPLATE_TEST_CASE("appended tokens are in the cache at their sequence's length", "", float, bf16, f16,
                   double) {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < (test_device().is_emulated() ? 3 : 8); ++round) {
    Problem<TestType, TestType> p(random);
    INFO(p.text());
    p.run();
    p.keys.check(
        tolerance<TestType>(),
        [&](auto page, auto h, auto slot, auto e) {
          const auto [b, t] = p.token(page, slot);
          return t < 0 ? before : p.key(b, h, t, e);
        },
        angles);
    p.cached_values.check(0, [&](auto page, auto h, auto slot, auto e) {
      const auto [b, t] = p.token(page, slot);
      return t < 0 ? before : p.v(b, h, t, e);
    });
  }
}

TEST_CASE("tokens are appended to a cache of bytes with a scale for each token and head") {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < (test_device().is_emulated() ? 3 : 8); ++round) {
    Problem<bf16, std::int8_t> p(random);
    INFO(p.text());
    p.run();
    const auto largest = [](std::int64_t count, const auto& at) {
      double most = 0;
      for (std::int64_t e = 0; e < count; ++e)
        most = std::max(most, std::abs(at(e)));
      return most;
    };
    p.key_scales.check(
        1e-5,
        [&](auto page, auto h, auto slot) {
          const auto [b, t] = p.token(page, slot);
          return t < 0 ? before : largest(p.width, [&](auto e) { return p.key(b, h, t, e); }) / 127;
        },
        angles);
    p.value_scales.check(1e-6, [&](auto page, auto h, auto slot) {
      const auto [b, t] = p.token(page, slot);
      return t < 0 ? before : largest(p.values, [&](auto e) { return p.v(b, h, t, e); }) / 127;
    });
    // Elements differ from the exact ones by half a unit, and a little more where rounding decides.
    const auto compare = [&](const auto& cache, const auto& exact, const auto& scales) {
      cache.each([&](auto page, auto h, auto slot, auto e) {
        const auto [b, t] = p.token(page, slot);
        if (t < 0)
          REQUIRE(cache(page, h, slot, e) == before);
        else
          REQUIRE(std::abs(cache(page, h, slot, e) - exact(b, h, t, e) / scales(page, h, slot)) < 0.501);
      });
      cache.check_gaps();
    };
    compare(p.keys, [&](auto... at) { return p.key(at...); }, p.key_scales);
    compare(p.cached_values, [&](auto... at) { return p.v(at...); }, p.value_scales);
  }
}

TEST_CASE("a token of zeros is zeros in a cache of bytes, and tensors without an axis of tokens have one") {
  auto k = Tensor<float, 3>::zeros({1, 2, 8}), v = Tensor<float, 3>::zeros({1, 2, 8});
  auto keys = Tensor<std::int8_t, 4>::zeros({1, 2, 3, 8}),
       values = Tensor<std::int8_t, 4>::zeros({1, 2, 3, 8});
  auto key_scales = Tensor<float, 3>::zeros({1, 2, 3}), value_scales = Tensor<float, 3>::zeros({1, 2, 3});
  auto lengths = Tensor<std::int64_t, 1>::zeros({1});
  lengths.data()[0] = 2;
  keys.fill(9), values.fill(9), key_scales.fill(9), v.fill(-1);
  Stream stream;
  ops::cache_append(stream, k, v, lengths,
                    {.keys = keys, .values = values, .key_scales = key_scales, .value_scales = value_scales});
  stream.synchronize();
  CHECK(keys.data()[2 * 8] == 0);
  CHECK(keys.data()[1 * 8] == 9);
  CHECK(key_scales.data()[2] == 0);
  CHECK(values.data()[2 * 8 + 7] == -127);
  CHECK(value_scales.data()[2] == Approx(1.0 / 127));
}

namespace {

// Two tokens for each of four sequences with bad lengths, and one for each with bad pages.
struct BadPlaces {
  Tensor<float, 4> k = Tensor<float, 4>::zeros({4, 1, 2, 8}), keys = Tensor<float, 4>::zeros({4, 1, 3, 8}),
                   values = Tensor<float, 4>::zeros({4, 1, 3, 8}),
                   pages = Tensor<float, 4>::zeros({4, 1, 1, 8}),
                   page_values = Tensor<float, 4>::zeros({4, 1, 1, 8});
  Tensor<std::int32_t, 1> lengths = Tensor<std::int32_t, 1>::zeros({4}),
                          zero = Tensor<std::int32_t, 1>::zeros({4});
  Tensor<std::int32_t, 2> blocks = Tensor<std::int32_t, 2>::zeros({4, 2});

  BadPlaces() {
    k.fill(1);
    const std::int32_t bad_lengths[] = {2, -1, 1 << 30, -(1 << 30)};
    const std::int32_t bad_blocks[] = {-1, 0, 4, 1, 1 << 30, 2, -(1 << 30), 3};
    std::copy_n(bad_lengths, 4, lengths.data());
    std::copy_n(bad_blocks, 8, blocks.data());
  }
};

} // namespace

TEST_CASE("tokens whose place is not in the cache are dropped") {
  BadPlaces p;
  on_test_device(
      [](Stream& s, auto k, auto keys, auto values, auto pages, auto page_values, auto lengths, auto zero,
         auto blocks) {
        ops::cache_append(s, k, k, lengths, {.keys = keys, .values = values});
        ops::cache_append(s, k, k, zero, {.keys = pages, .values = page_values, .blocks = blocks});
      },
      p.k.view(), p.keys.view(), p.values.view(), p.pages.view(), p.page_values.view(), p.lengths.view(),
      p.zero.view(), p.blocks.view());
  for (std::int64_t b = 0; b < 4; ++b)
    for (std::int64_t t = 0; t < 3; ++t)
      CHECK(p.keys.data()[(b * 3 + t) * 8] == ((b == 0 && t == 2) || (b == 1 && t == 0) ? 1 : 0));
  for (std::int64_t page = 0; page < 4; ++page)
    CHECK(p.pages.data()[page * 8] == 1);
}

TEST_CASE("with KILN_DEBUG, appending to places that are not in the cache is an error", "[.debug]") {
  BadPlaces p;
  Stream stream;
  ops::cache_append(stream, p.k, p.k, p.lengths, {.keys = p.keys, .values = p.values});
  CHECK_THROWS_WITH(stream.synchronize(),
                    Catch::Contains("the new tokens fit into the cache behind those that lengths counts"));
  stream.clear_error();
  ops::cache_append(stream, p.k, p.k, p.zero, {.keys = p.pages, .values = p.page_values, .blocks = p.blocks});
  CHECK_THROWS_WITH(stream.synchronize(), Catch::Contains("an entry of cache.blocks is a page"));
  stream.clear_error();
}

TEST_CASE("cache_append refuses extents, dtypes, aliases and options that do not fit") {
  Stream stream;
  auto k = Tensor<float, 4>::zeros({2, 3, 4, 8}), keys = Tensor<float, 4>::zeros({2, 3, 9, 8}),
       values = Tensor<float, 4>::zeros({2, 3, 9, 8}), narrow = Tensor<float, 4>::zeros({2, 3, 9, 7}),
       q = Tensor<float, 4>::zeros({2, 7, 4, 8});
  auto bytes = Tensor<std::int8_t, 4>::zeros({2, 3, 9, 8});
  auto lengths = Tensor<std::int32_t, 1>::zeros({2}), three = Tensor<std::int32_t, 1>::zeros({3});
  auto blocks = Tensor<std::int32_t, 2>::zeros({3, 2});
  auto scales = Tensor<float, 3>::zeros({2, 3, 9});
  const auto append = [&](const ops::KeyValueCache& cache, const ops::AppendOptions& options = {}) {
    ops::cache_append(stream, k, k, lengths, cache, options);
  };
  using Catch::Contains;
  CHECK_THROWS_WITH(ops::cache_append(stream, k, k, three, {.keys = keys, .values = values}),
                    Contains("ops::cache_append: the size of lengths and the batches differ: 3 != 2"));
  CHECK_THROWS_WITH(append({.keys = keys, .values = narrow}),
                    Contains("the widths of v and cache.values differ: 8 != 7"));
  CHECK_THROWS_WITH(append({.keys = keys, .values = keys}), Contains("cache.values overlaps cache.keys"));
  CHECK_THROWS_WITH(append({.keys = keys, .values = values, .blocks = blocks}),
                    Contains("the rows of cache.blocks and the batches differ: 3 != 2"));
  CHECK_THROWS_WITH(append({.keys = bytes, .values = values}), Contains("is of i8 and the other is not"));
  CHECK_THROWS_WITH(append({.keys = bytes, .values = bytes}), Contains("a cache of i8 has scales"));
  CHECK_THROWS_WITH(append({.keys = keys, .values = values, .key_scales = scales, .value_scales = scales}),
                    Contains("a cache of floats has no scales"));
  CHECK_THROWS_WITH(append({.keys = keys, .values = values}, {.q = q, .rotated_q = q}),
                    Contains("belong together"));
  CHECK_THROWS_WITH(
      append({.keys = keys, .values = values}, {.rotary = ops::RotaryOptions{}, .q = q, .rotated_q = q}),
      Contains("q's heads are not a multiple of k's"));
  CHECK_THROWS_WITH(
      append({.keys = keys, .values = values}, {.rotary = ops::RotaryOptions{.positions = lengths}}),
      Contains("the positions of appended tokens follow from lengths"));
}
