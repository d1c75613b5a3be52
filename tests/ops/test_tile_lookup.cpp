// Tests gather, take, element, narrow, flip, cat and histogram on the test device and in the interpreter.
#include "strided.h"

#include <algorithm>
#include <map>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(K);

namespace {

template <class T> auto any_numbers(Random& random) {
  return [&random] {
    if constexpr (std::is_same_v<T, bool>)
      return random.integer(0, 1);
    else
      return random.integer(std::is_unsigned_v<T> ? 0 : -9, 9);
  };
}

struct Sizes {
  std::int64_t rows, width, count;
  explicit Sizes(Random& random)
      : rows(random.integer(1, 9)),
        width(random.integer(0, 1) ? random.integer(1, 40) : 1 << random.integer(0, 7)),
        count(random.integer(1, 40)) {}
};

} // namespace

TEMPLATE_TEST_CASE("a gather takes elements by index, and zero for indices outside of the tile", "", bool,
                   std::int8_t, std::uint16_t, std::int32_t, std::uint64_t, f16, bf16, float, double, f8e4m3,
                   f8e5m2) {
  using T = TestType;
  const auto gathers =
      kernel("gather_rows", [](View<const T, 2> x, View<const std::int32_t, 2> ids,
                               View<const std::int64_t, 1> same, View<T, 2> y, View<T, 2> z) {
        auto [m] = program_tile(x, BM);
        Tile t = x.tile(m, offset(BN, 0)).load();
        y.tile(m, offset(K, 0)).store(gather(t, ids.tile(m, offset(K, 0)).load(), BN));
        z.tile(m, offset(K, 0)).store(gather(t, same.tile(offset(K, 0)).load(), axis<1>));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const Sizes s(random);
  Strided<T, 2> x(random, {s.rows, s.width}, any_numbers<T>(random)), y(random, {s.rows, s.count}),
      z(random, {s.rows, s.count});
  Strided<std::int32_t, 2> ids(random, {s.rows, s.count}, integers(random, -3, s.width + 3));
  Strided<std::int64_t, 1> same(random, {s.count}, [&] {
    return random.integer(0, 5) ? random.integer(-3, s.width + 3) : std::int64_t{1} << 32;
  });
  run(gathers, {BM = random.integer(1, 4), BN = s.width, K = s.count}, x.view, ids.view, same.view, y.view,
      z.view);
  auto element_at = [&](std::int64_t r, std::int64_t c) { return c >= 0 && c < s.width ? x(r, c) : 0; };
  y.check(0, [&](auto r, auto k) { return element_at(r, ids.view(r, k)); });
  z.check(0, [&](auto r, auto k) { return element_at(r, same.view(k)); });
}

TEST_CASE("a gather along the first axis takes rows") {
  const auto gathers = kernel("gather_columns", [](View<const float, 2> x, View<const std::uint8_t, 2> ids,
                                                   View<float, 2> y, View<float, 2> z) {
    auto [n] = program_tile(y, K);
    auto c = offset(BN, 0);
    Tile t = x.tile(offset(BM, 0), c).load();
    Tile at = ids.tile(n, c).load();
    y.tile(n, c).store(gather(t, at, BM));
    z.tile(n, c).store(gather(t * 2.0f, max(at, BN), axis<0>));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const Sizes s(random);
  Strided<float, 2> x(random, {s.rows, s.width}, uniform(random, -1, 1)), y(random, {s.count, s.width}),
      z(random, {s.count, s.width});
  Strided<std::uint8_t, 2> ids(random, {s.count, s.width}, integers(random, 0, s.rows + 1));
  run(gathers, {BM = s.rows, BN = s.width, K = 4}, x.view, ids.view, y.view, z.view);
  auto element_at = [&](std::int64_t r, std::int64_t c) { return r < s.rows ? x(r, c) : 0; };
  y.check(0, [&](auto k, auto c) { return element_at(ids.view(k, c), c); });
  z.check(0, [&](auto k, auto c) {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < s.width; ++i)
      most = std::max<std::int64_t>(most, ids.view(k, i));
    return static_cast<double>(2 * static_cast<float>(element_at(most, c)));
  });
}

TEMPLATE_TEST_CASE("rows, elements and parts of a tile", "", float, f16, std::int64_t, std::uint8_t, bool) {
  using T = TestType;
  const auto parts = kernel("parts", [](View<const T, 2> x, Scalar<std::int32_t> i, View<T, 2> rows,
                                        View<T, 1> elements, View<T, 2> narrowed, View<T, 2> lower) {
    auto [m] = program_tile(x, BM);
    auto c = offset(BN, 0);
    auto k = offset(K, 0);
    Tile t = x.tile(m, c).load();
    rows.tile(std::int64_t{0}, c).store(take(t, 0, BM));
    rows.tile(std::int64_t{1}, c).store(take(t, i, BM));
    rows.tile(std::int64_t{2}, c).store(take(flip(t, BM), dim_size(BM) - 1, axis<0>));
    elements.tile(std::int64_t{0}).store(element(t, 0, 0));
    elements.tile(std::int64_t{1}).store(element(t, i, i));
    elements.tile(std::int64_t{2}).store(element(take(t, i, BN), 0));
    narrowed.tile(m, k).store(narrow(t, i, K, BN));
    lower.tile(k, c).store(narrow(t, i, K, BM));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const Sizes s(random);
  const auto i = static_cast<std::int32_t>(random.integer(-2, 20));
  CAPTURE(s.rows, s.width, s.count, i);
  Strided<T, 2> x(random, {s.rows, s.width}, any_numbers<T>(random)), rows(random, {3, s.width}),
      narrowed(random, {s.rows, s.count}), lower(random, {s.count, s.width});
  Strided<T, 1> elements(random, {3});
  run(parts, {BM = s.rows, BN = s.width, K = s.count}, x.view, i, rows.view, elements.view, narrowed.view,
      lower.view);
  auto at = [&](std::int64_t r, std::int64_t c) {
    return r >= 0 && r < s.rows && c >= 0 && c < s.width ? x(r, c) : 0;
  };
  rows.check(0, [&](auto r, auto c) { return at(r == 1 ? i : 0, c); });
  elements.check(0, [&](auto n) { return n == 0 ? at(0, 0) : n == 1 ? at(i, i) : at(0, i); });
  narrowed.check(0, [&](auto r, auto c) { return at(r, i + c); });
  lower.check(0, [&](auto r, auto c) { return at(i + r, c); });
}

TEMPLATE_TEST_CASE("flips, and tiles put together", "", float, bf16, std::int32_t, std::uint8_t) {
  using T = TestType;
  const auto moves = kernel("flip_and_cat", [](View<const T, 2> x, View<T, 2> flipped, View<T, 2> turned,
                                               View<T, 2> wide, View<T, 2> high, View<T, 2> mixed) {
    auto [m] = program_tile(x, BM);
    auto c = offset(BN, 0);
    Tile t = x.tile(m, c).load();
    Tile f = flip(t, BN);
    flipped.tile(m, c).store(f);
    turned.tile(m, c).store(flip(flip(t + 1, BM), axis<-1>));
    wide.tile(m, offset(BN * 2_c, 0)).store(cat(t, f, BN));
    high.tile(offset(BM * 2_c, 0), c).store(cat(t, f, BM));
    mixed.tile(m, offset(8_c, 0)).store(cat(narrow(t, 0, 5_c, BN), narrow(t, 1, 3_c, BN), axis<1>));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const Sizes s(random);
  const std::int64_t rows = s.rows, width = s.width + 1;
  Strided<T, 2> x(random, {rows, width}, any_numbers<T>(random)), flipped(random, {rows, width}),
      turned(random, {rows, width}), wide(random, {rows, 2 * width}), high(random, {2 * rows, width}),
      mixed(random, {rows, 8});
  run(moves, {BM = rows, BN = width}, x.view, flipped.view, turned.view, wide.view, high.view, mixed.view);
  auto at = [&](std::int64_t r, std::int64_t c) { return c < width ? x(r, c) : 0; };
  flipped.check(0, [&](auto r, auto c) { return x(r, width - 1 - c); });
  turned.check(0, [&](auto r, auto c) { return x(rows - 1 - r, width - 1 - c) + 1; });
  wide.check(0, [&](auto r, auto c) { return c < width ? x(r, c) : x(r, 2 * width - 1 - c); });
  high.check(0, [&](auto r, auto c) { return r < rows ? x(r, c) : x(r - rows, width - 1 - c); });
  mixed.check(0, [&](auto r, auto c) { return c < 5 ? at(r, c) : at(r, c - 4); });
}

TEMPLATE_TEST_CASE("a histogram counts the elements from 0 on below the number of bins", "", std::int8_t,
                   std::uint8_t, std::int16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  const auto counts =
      kernel("count", [](View<const T, 2> x, View<std::int32_t, 2> all, View<std::int32_t, 2> odd) {
        auto [m] = program_tile(x, BM);
        Scalar<std::int64_t> program = program_id(0);
        Tile t = x.tile(m, offset(BN, 0)).load();
        Tile inside = x.tile(m, offset(BN, 0)).mask();
        all.tile(program, offset(K, 0)).store(histogram(t, K));
        odd.tile(program, offset(K, 0)).store(histogram(t, K, inside & ((t & 1) == 1)));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const Sizes s(random);
  const std::int64_t step = random.integer(1, 4), width = s.width + random.integer(0, 3),
                     programs = (s.rows + step - 1) / step;
  CAPTURE(s.rows, s.width, width, s.count, step);
  Strided<T, 2> x(random, {s.rows, s.width},
                  integers(random, std::is_unsigned_v<T> ? 0 : -5, std::min<std::int64_t>(s.count + 5, 100)));
  if (sizeof(T) == 8) x.view(0, 0) = static_cast<T>(std::int64_t{1} << 32);
  Strided<std::int32_t, 2> all(random, {programs, s.count}), odd(random, {programs, s.count});
  run(counts, {BM = step, BN = width, K = s.count}, x.view, all.view, odd.view);
  auto expected = [&](std::int64_t p, std::int64_t bin, bool only_odd) {
    double n = 0;
    for (std::int64_t r = p * step; r < (p + 1) * step; ++r)
      for (std::int64_t c = 0; c < width; ++c) {
        const bool inside = r < s.rows && c < s.width;
        const double v = inside ? x(r, c) : 0;
        n += v == static_cast<double>(bin) && (!only_odd || (inside && bin % 2 == 1));
      }
    return n;
  };
  all.check(0, [&](auto p, auto bin) { return expected(p, bin, false); });
  odd.check(0, [&](auto p, auto bin) { return expected(p, bin, true); });
}
