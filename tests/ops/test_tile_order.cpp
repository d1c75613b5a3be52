// Tests sort, argsort and topk on the test device and in the interpreter, against stable sorts on the host.
#include "strided.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(K);

namespace {

// Numbers with many ties, and of floats also NaN, infinities and zeros of both signs.
template <class T> auto numbers(Random& random) {
  return [&random]() -> double {
    if constexpr (std::is_same_v<T, bool>) {
      return static_cast<double>(random.integer(0, 1));
    } else if constexpr (std::is_integral_v<T>) {
      const bool any = random.integer(0, 3) == 0;
      const double low = static_cast<double>(std::numeric_limits<T>::min()),
                   high = static_cast<double>(std::numeric_limits<T>::max());
      if (any) return random.integer(0, 1) ? low : sizeof(T) == 8 ? high / 2 : high;
      return static_cast<double>(random.integer(std::is_signed_v<T> ? -9 : 0, 9));
    } else {
      switch (random.integer(0, 12)) {
      case 0: return NAN;
      case 1: return std::is_same_v<T, f8e4m3> ? -448 : -INFINITY;
      case 2: return std::is_same_v<T, f8e4m3> ? 448 : INFINITY;
      case 3: return -0.0;
      case 4: return 0.0;
      default:
        return random.integer(0, 2) ? random.uniform(-2, 2) : static_cast<double>(random.integer(-3, 3));
      }
    }
  };
}

// The order of a sort: -0 before 0, NaN after all numbers and equal to each other.
bool before(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// The positions of the elements in sorted order.
std::vector<std::int64_t> ordered(const std::vector<double>& line, bool descending) {
  std::vector<std::int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = line[static_cast<std::size_t>(a)], y = line[static_cast<std::size_t>(b)];
    return descending ? before(y, x) : before(x, y);
  });
  return order;
}

template <class T> constexpr bool zero_other = std::is_same_v<T, bool>;

template <class T, bool Descending> const auto& sort_rows() {
  static const auto made =
      kernel("sort_rows", [](View<const T, 2> x, View<T, 2> sorted, View<std::int32_t, 2> order,
                             View<std::int64_t, 2> carried) {
        auto [m] = program_tile(x, BM);
        auto n = offset(BN, 0);
        Tile t = x.tile(m, n).load();
        const SortOptions options{.descending = Descending};
        Tile column = cast<std::int64_t>(expand<0>(arange(BN))) * 3 + expand<1>(zeros<std::int64_t>(BM));
        auto [keys, values] = sort(kiln::tie(t, column), BN, options);
        sorted.tile(m, n).store(sort(t, BN, options));
        order.tile(m, n).store(argsort(t, axis<-1>, options));
        carried.tile(m, n).store(where(expand<1>(all(keys == keys, BN) | true), values, -1));
      });
  return made;
}

template <class T> const auto& sort_columns() {
  static const auto made = kernel("sort_columns", [](View<const T, 2> x, View<T, 2> sorted) {
    auto [m] = program_tile(x, BM);
    auto n = offset(BN, 0);
    sorted.tile(m, n).store(sort(x.tile(m, n).load(), BM, {.descending = true}));
  });
  return made;
}

template <class T> const auto& top_rows() {
  static const auto made =
      kernel("top_rows", [](View<const T, 2> x, View<T, 2> top, View<std::int32_t, 2> at, View<T, 2> least) {
        auto [m] = program_tile(x, BM);
        Tile t = x.tile(m, offset(BN, 0)).load();
        auto [values, positions] = topk(t, K, BN);
        top.tile(m, offset(K, 0)).store(values);
        at.tile(m, offset(K, 0)).store(positions);
        auto [small, where_small] = topk(t, K, BN, {.smallest = true});
        least.tile(m, offset(K, 0)).store(small);
      });
  return made;
}

std::int64_t any_length(Random& random) {
  static constexpr std::int64_t lengths[] = {1, 2, 3, 4, 7, 8, 16, 17, 31, 33, 64, 100, 128, 200};
  return lengths[random.integer(0, std::size(lengths) - 1)];
}

} // namespace

TEMPLATE_TEST_CASE("rows are sorted stably in both orders, with NaN above all numbers", "", bool, std::int8_t,
                   std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t, f16, bf16, float, double, f8e4m3, f8e5m2) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const bool descending = GENERATE(false, true);
  const std::int64_t rows = random.integer(1, 9), width = any_length(random);
  const std::int64_t columns = random.integer(1, width); // the tile reaches past the end of the rows
  const Config config{BM = random.integer(1, 4), BN = width};
  CAPTURE(rows, columns, width, descending);
  Strided<T, 2> x(random, {rows, columns}, numbers<T>(random)), sorted(random, {rows, columns});
  Strided<std::int32_t, 2> order(random, {rows, columns});
  Strided<std::int64_t, 2> carried(random, {rows, columns});
  if (descending)
    run(sort_rows<T, true>(), config, x.view, sorted.view, order.view, carried.view);
  else
    run(sort_rows<T, false>(), config, x.view, sorted.view, order.view, carried.view);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> line;
    for (std::int64_t c = 0; c < width; ++c)
      line.push_back(c < columns ? x(r, c) : 0);
    const auto expected = ordered(line, descending);
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t from = expected[static_cast<std::size_t>(c)];
      CAPTURE(r, c, line[static_cast<std::size_t>(from)], sorted(r, c));
      REQUIRE(same(sorted(r, c), line[static_cast<std::size_t>(from)]));
      REQUIRE(order.view(r, c) == from);
      REQUIRE(carried.view(r, c) == 3 * from);
    }
  }
  sorted.check_gaps();
  order.check_gaps();
  carried.check_gaps();
}

TEMPLATE_TEST_CASE("columns are sorted too", "", float, bf16, std::int8_t, std::uint64_t) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = any_length(random), width = random.integer(1, 40);
  Strided<T, 2> x(random, {rows, width}, numbers<T>(random)), sorted(random, {rows, width});
  run(sort_columns<T>(), {BM = rows, BN = width}, x.view, sorted.view);
  for (std::int64_t c = 0; c < width; ++c) {
    std::vector<double> line;
    for (std::int64_t r = 0; r < rows; ++r)
      line.push_back(x(r, c));
    const auto expected = ordered(line, true);
    for (std::int64_t r = 0; r < rows; ++r) {
      CAPTURE(r, c);
      REQUIRE(same(sorted(r, c), line[static_cast<std::size_t>(expected[static_cast<std::size_t>(r)])]));
    }
  }
  sorted.check_gaps();
}

TEMPLATE_TEST_CASE("topk gives the first elements of a sort, of equal ones the earlier", "", float, f16,
                   double, std::int32_t, std::uint8_t) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 9), width = any_length(random),
                     count = random.integer(1, width);
  CAPTURE(rows, width, count);
  Strided<T, 2> x(random, {rows, width}, numbers<T>(random)), top(random, {rows, count}),
      least(random, {rows, count});
  Strided<std::int32_t, 2> at(random, {rows, count});
  run(top_rows<T>(), {BM = random.integer(1, 4), BN = width, K = count}, x.view, top.view, at.view,
      least.view);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> line;
    for (std::int64_t c = 0; c < width; ++c)
      line.push_back(x(r, c));
    const auto down = ordered(line, true), up = ordered(line, false);
    for (std::int64_t c = 0; c < count; ++c) {
      const auto n = static_cast<std::size_t>(c);
      CAPTURE(r, c);
      REQUIRE(at.view(r, c) == down[n]);
      REQUIRE(same(top(r, c), line[static_cast<std::size_t>(down[n])]));
      REQUIRE(same(least(r, c), line[static_cast<std::size_t>(up[n])]));
    }
  }
  top.check_gaps();
  at.check_gaps();
  least.check_gaps();
}

TEST_CASE("a topk of more elements than the axis has names both sizes") {
  Random random;
  Strided<float, 2> x(random, {2, 4}, uniform(random, 0, 1)), top(random, {2, 8}), least(random, {2, 8});
  Strided<std::int32_t, 2> at(random, {2, 8});
  Stream stream;
  REQUIRE_THROWS_WITH(
      top_rows<float>().launch(stream, {BM = 2, BN = 4, K = 8}, x.view, top.view, at.view, least.view),
      Catch::Contains("a topk of 8 elements of an axis whose extent is 4"));
}

TEST_CASE("a loop sorts its own results again") {
  // Each iteration sorts the rows of a tile and adds their positions, so that buffers and shared memory are
  // used again while they still hold the previous iteration's words.
  const auto repeated = kernel("sort_repeatedly", [](View<const float, 2> x, View<float, 2> y) {
    auto [m] = program_tile(x, BM);
    auto n = offset(BN, 0);
    Tile t = x.tile(m, n).load();
    y.tile(m, n).store(for_range(0, 4, 1, t, [&](auto, auto before) {
      auto [sorted, again] = sort(kiln::tie(before, before), BN);
      return flip((sorted + again) * 0.5f, BN) * 0.5f + cast<float>(argsort(before, BN));
    }));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 6), width = any_length(random);
  Strided<float, 2> x(random, {rows, width}, uniform(random, -5, 5)), y(random, {rows, width});
  run(repeated, {BM = 2, BN = width}, x.view, y.view);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> line;
    for (std::int64_t c = 0; c < width; ++c)
      line.push_back(x(r, c));
    for (int i = 0; i < 4; ++i) {
      const auto order = ordered(line, false);
      std::vector<double> next;
      for (std::size_t c = 0; c < line.size(); ++c)
        next.push_back(static_cast<float>(
            static_cast<float>(line[static_cast<std::size_t>(order[line.size() - 1 - c])] * 0.5) +
            static_cast<float>(order[c])));
      line = next;
    }
    for (std::int64_t c = 0; c < width; ++c)
      REQUIRE(y(r, c) == line[static_cast<std::size_t>(c)]);
  }
}
