// Tests kernels that move, search, count and scan data, written as a user would, with the public interface
// only.
#include "strided.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
} // namespace

TEMPLATE_TEST_CASE("outside: segmented reduction by offsets", "", float, f16, std::int32_t) {
  using T = TestType;
  using Sum = std::conditional_t<std::is_same_v<T, std::int32_t>, std::int64_t, float>;
  const auto segments = kernel("segment_sum_max", [](View<const T, 2> x, View<const std::int32_t, 1> starts,
                                                     View<Sum, 2> sums, View<T, 2> highest) {
    auto [s, n] = program_tile(sums, 1_c, BN);
    Scalar<std::int64_t> segment = s;
    Scalar<std::int64_t> begin = cast<std::int64_t>(starts.tile(segment).load());
    Scalar<std::int64_t> end = cast<std::int64_t>(starts.tile(segment + 1).load());
    Var total = zeros<Sum>(BN);
    Var best = x.tile(begin, n).load();
    for_range(BM, range(begin, end), [&](auto m) {
      Tile inside = expand<1>(m + arange(BM) < end);
      Tile rows = x.tile(m, n).load(inside);
      total += sum(cast<Sum>(rows), BM);
      best = max(best, max(where(inside, rows, expand<0>(best)), BM));
    });
    sums.tile(segment, n).store(total);
    highest.tile(segment, n).store(where(begin < end, best, 0));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t count = random.integer(1, 20), cols = random.integer(1, 40);
  Strided<std::int32_t, 1> starts(random, {count + 1});
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i <= count; ++i) {
    starts.view(i) = static_cast<std::int32_t>(rows);
    if (i < count) rows += random.integer(0, 30);
  }
  Strided<T, 2> x(random, {rows, cols}, uniform(random, -100, 100)), highest(random, {count, cols});
  Strided<Sum, 2> sums(random, {count, cols});
  run(segments, {BM = 8, BN = 16}, x.view, starts.view, sums.view, highest.view);
  sums.check(1e-5, [&](auto s, auto c) {
    double total = 0;
    for (std::int64_t r = starts.view(s); r < starts.view(s + 1); ++r)
      total += x(r, c);
    return total;
  });
  highest.check(0, [&](auto s, auto c) {
    double best = starts.view(s) < starts.view(s + 1) ? -INFINITY : 0;
    for (std::int64_t r = starts.view(s); r < starts.view(s + 1); ++r)
      best = std::max(best, x(r, c));
    return best;
  });
}

TEST_CASE("outside: segmented reduction by sorted ids, a scan within the tile and atomics between tiles") {
  const auto segments = kernel(
      "segment_sum_sorted", [](View<const float, 1> x, View<const std::int32_t, 1> ids, View<float, 1> sums) {
        auto [i] = program_tile(x, BN);
        Tile index = i + arange(BN);
        Tile id = ids.tile(i).load_or(-1);
        Tile head = (arange(BN) == 0) | (id != ids.at(index - 1).load_or(-1));
        Tile last = (arange(BN) == dim_size(BN) - 1) | (id != ids.at(index + 1).load_or(-1));
        auto [total, flag] = associative_scan(tie(x.tile(i).load(), head), BN, [](auto earlier, auto later) {
          auto [a, starts_a] = earlier;
          auto [b, starts_b] = later;
          return tie(where(starts_b, b, a + b), starts_a | starts_b);
        });
        sums.at(id).atomic_add(total, last, {.order = Order::relaxed});
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 2000), groups = random.integer(1, 60);
  Strided<std::int32_t, 1> ids(random, {n});
  std::vector<std::int64_t> sorted;
  for (std::int64_t i = 0; i < n; ++i)
    sorted.push_back(random.integer(0, groups - 1));
  std::sort(sorted.begin(), sorted.end());
  ids.fill([&](auto i) { return sorted[at(i)]; });
  Strided<float, 1> x(random, {n}, uniform(random, -1, 1)), sums(random, {groups}, [] { return 0; });
  run(segments, {BN = 100}, x.view, ids.view, sums.view);
  std::vector<double> expected(at(groups));
  x.each([&](auto i) { expected[at(sorted[at(i)])] += x(i); });
  sums.check(1e-5, [&](auto g) { return expected[at(g)]; });
}

TEST_CASE("outside: a histogram of bytes, counted in a tile first") {
  const auto histogram = kernel("histogram", [](View<const std::uint8_t, 1> x, View<std::int64_t, 1> bins) {
    auto [i] = program_tile(x, BN);
    Tile inside = i + arange(BN) < x.extent(0);
    Tile hit = (expand<1>(x.tile(i).load()) == expand<0>(arange(256_c))) & expand<1>(inside);
    bins.tile(offset(256_c, 0)).atomic_add(sum(cast<std::int64_t>(hit), BN));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 3000);
  Strided<std::uint8_t, 1> x(random, {n}, integers(random, 0, 255));
  Strided<std::int64_t, 1> bins(random, {256}, [] { return 0; });
  run(histogram, {BN = 64}, x.view, bins.view);
  std::vector<double> expected(256);
  x.each([&](auto i) { ++expected[x.view(i)]; });
  bins.check(0, [&](auto b) { return expected[at(b)]; });
}

TEST_CASE("outside: compaction in three kernels: count, scan, write") {
  const auto keep = [](const auto& t) { return (t > 0.25f) & (t < 0.9f); };
  const auto count = kernel("compact_count", [keep](View<const float, 1> x, View<std::int64_t, 1> counts) {
    auto [i] = program_tile(x, BN);
    counts.tile(program_id(0)).store(sum(cast<std::int64_t>(keep(x.tile(i).load()))));
  });
  const auto scan = kernel("compact_scan", [](View<std::int64_t, 1> counts, View<std::int64_t, 1> total) {
    auto last = for_range(BM, counts.extent(0), Scalar<std::int64_t>(0), [&](auto m, auto before) {
      Tile c = counts.tile(m).load();
      counts.tile(m).store(before + cumsum(c, BM) - c);
      return before + sum(c);
    });
    total.tile(0).store(last);
  });
  const auto write =
      kernel("compact_write", [keep](View<const float, 1> x, View<const std::int64_t, 1> starts,
                                     View<float, 1> y, View<std::int32_t, 1> from) {
        auto [i] = program_tile(x, BN);
        Tile t = x.tile(i).load();
        Tile mask = keep(t);
        Tile k = cast<std::int64_t>(mask);
        Tile to = starts.tile(program_id(0)).load() + cumsum(k, BN) - k;
        y.at(to).store(t, mask);
        from.at(to).store(cast<std::int32_t>(i + arange(BN)), mask);
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 3000), size = 128, blocks = (n + size - 1) / size;
  Strided<float, 1> x(random, {n}, uniform(random, -1, 1)), y(random, {n});
  Strided<std::int64_t, 1> starts(random, {blocks}), total(random, {1});
  Strided<std::int32_t, 1> from(random, {n});
  run(count, {BN = size}, x.view, starts.view);
  if (run.interpreted) {
    scan.interpret({BM = 8}, Grid{}, starts.view, total.view);
  } else {
    Stream stream;
    scan.launch(stream, {BM = 8}, Grid{}, starts.view, total.view);
    stream.synchronize();
  }
  run(write, {BN = size}, x.view, starts.view, y.view, from.view);
  std::vector<std::int64_t> expected;
  x.each([&](auto i) {
    if (x.view(i) > 0.25f && x.view(i) < 0.9f) expected.push_back(i);
  });
  REQUIRE(total.view(0) == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i);
    REQUIRE(from.view(to) == expected[i]);
    REQUIRE(y.view(to) == x.view(expected[i]));
  }
  starts.check_gaps(), y.check_gaps(), from.check_gaps();
}

TEMPLATE_TEST_CASE("outside: argsort of small rows by counting ranks", "", float, std::int16_t, f16) {
  using T = TestType;
  const auto argsort =
      kernel("argsort", [](View<const T, 2> x, View<T, 2> sorted, View<std::int32_t, 2> order) {
        auto [m] = program_tile(x, BM);
        auto n = offset(BN, 0);
        Tile t = x.tile(m, n).load();
        Tile j = arange(BN);
        Tile inside = j < x.cols();
        Tile mine = expand<2>(t);  // [BM, BN, 1]
        Tile other = expand<1>(t); // [BM, 1, BN]
        Tile before = (other < mine) | ((other == mine) & (expand<0>(j) < expand<1>(j)));
        Tile rank = sum(cast<std::int32_t>(before & inside), axis<2>);
        Tile rows = expand<1>(m + arange(BM));
        sorted.at(rows, rank).store(t, inside);
        order.at(rows, rank).store(broadcast(j, BM, BN), inside);
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 10), cols = random.integer(1, 33);
  Strided<T, 2> x(random, {rows, cols}, integers(random, -9, 9)), sorted(random, {rows, cols});
  Strided<std::int32_t, 2> order(random, {rows, cols});
  run(argsort, {BM = 4, BN = 33}, x.view, sorted.view, order.view);
  std::vector<std::vector<std::int64_t>> expected;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<std::int64_t> o(at(cols));
    std::iota(o.begin(), o.end(), 0);
    std::stable_sort(o.begin(), o.end(), [&](auto a, auto b) { return x(r, a) < x(r, b); });
    expected.push_back(o);
  }
  order.check(0, [&](auto r, auto c) { return static_cast<double>(expected[at(r)][at(c)]); });
  sorted.check(0, [&](auto r, auto c) { return x(r, expected[at(r)][at(c)]); });
}

TEMPLATE_TEST_CASE("outside: embedding by gather, its gradient by atomic scatter", "", float, bf16) {
  using T = TestType;
  const auto gather =
      kernel("embedding", [](View<const T, 2> table, View<const std::int64_t, 1> tokens, View<T, 2> y) {
        auto [m, n] = program_tile(y, BM, BN);
        Tile row = expand<1>(tokens.tile(m).load());
        y.tile(m, n).store(table.at(row, n + arange(BN)).load());
      });
  const auto scatter =
      kernel("embedding_backward",
             [](View<float, 2> gradient, View<const std::int64_t, 1> tokens, View<const T, 2> dy) {
               auto [m, n] = program_tile(dy, BM, BN);
               Tile row = expand<1>(tokens.tile(m).load_or(-1));
               gradient.at(row, n + arange(BN)).atomic_add(cast<float>(dy.tile(m, n).load()));
             });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t words = random.integer(1, 30), width = random.integer(1, 50),
                     tokens = random.integer(1, 60);
  Strided<T, 2> table(random, {words, width}, uniform(random, -1, 1)), y(random, {tokens, width}),
      dy(random, {tokens, width}, uniform(random, -1, 1));
  Strided<float, 2> gradient(random, {words, width}, [] { return 0; });
  Strided<std::int64_t, 1> ids(random, {tokens}, integers(random, 0, words - 1));
  run(gather, {BM = 8, BN = 32}, table.view, ids.view, y.view);
  y.check(0, [&](auto t, auto c) { return table(ids.view(t), c); });
  run(scatter, {BM = 8, BN = 32}, gradient.view, ids.view, dy.view);
  gradient.check(1e-5, [&](auto w, auto c) {
    double d = 0;
    for (std::int64_t t = 0; t < tokens; ++t)
      if (ids.view(t) == w) d += dy(t, c);
    return d;
  });
}

TEST_CASE("outside: k-means assignment, with the sums for the new centres") {
  const auto assign = kernel("kmeans", [](View<const float, 2> x, View<const float, 2> centres,
                                          View<std::int32_t, 1> nearest, View<float, 1> distance,
                                          View<float, 2> sums, View<std::int32_t, 1> counts) {
    auto [m] = program_tile(x, BM);
    Tile index = m + arange(BM);
    auto start = state(full(INFINITY, BM), zeros<std::int32_t>(BM));
    auto [best, which] = for_range(0, centres.rows(), 1, start, [&](auto c, auto best, auto which) {
      Tile d = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto acc) {
        Tile difference = x.tile(m, n).load() - centres.tile(c, n).load();
        return acc + sum(difference * difference, BN);
      });
      return state(min(best, d), where(d < best, cast<std::int32_t>(c), which));
    });
    nearest.tile(m).store(which);
    distance.tile(m).store(best);
    counts.at(which).atomic_add(1, index < x.rows());
    for_range(BN, x.cols(), [&](auto n) {
      sums.at(expand<1>(which), n + arange(BN)).atomic_add(x.tile(m, n).load(), expand<1>(index < x.rows()));
    });
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t points = random.integer(1, 100), dims = random.integer(1, 30), k = random.integer(1, 12);
  Strided<float, 2> x(random, {points, dims}, uniform(random, -1, 1)),
      centres(random, {k, dims}, uniform(random, -1, 1)), sums(random, {k, dims}, [] { return 0; });
  Strided<std::int32_t, 1> nearest(random, {points}), counts(random, {k}, [] { return 0; });
  Strided<float, 1> distance(random, {points});
  run(assign, {BM = 16, BN = 16}, x.view, centres.view, nearest.view, distance.view, sums.view, counts.view);
  auto squared = [&](std::int64_t p, std::int64_t c) {
    double d = 0;
    for (std::int64_t i = 0; i < dims; ++i)
      d += (x(p, i) - centres(c, i)) * (x(p, i) - centres(c, i));
    return d;
  };
  distance.check(1e-5, [&](auto p) {
    double best = INFINITY;
    for (std::int64_t c = 0; c < k; ++c)
      best = std::min(best, squared(p, c));
    REQUIRE(squared(p, nearest.view(p)) == Approx(best).epsilon(1e-5));
    return best;
  });
  counts.check(0, [&](auto c) {
    double n = 0;
    nearest.each([&](auto p) { n += nearest.view(p) == c; });
    return n;
  });
  sums.check(1e-5, [&](auto c, auto i) {
    double s = 0;
    nearest.each([&](auto p) { s += nearest.view(p) == c ? x(p, i) : 0; });
    return s;
  });
}

TEMPLATE_TEST_CASE("outside: permuting the axes of a tensor", "", float, std::uint8_t, double, bool) {
  using T = TestType;
  const auto rotate = kernel("rotate", [](View<const T, 3> x, View<T, 3> y) {
    auto [a, b, c] = program_tile(x, BM, 3_c, BN);
    y.tile(c, a, b).store(permute<2, 0, 1>(x.tile(a, b, c).load()));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t a = random.integer(1, 20), b = random.integer(1, 10), c = random.integer(1, 40);
  Strided<T, 3> x(random, {a, b, c}, integers(random, 0, 1)), y(random, {c, a, b});
  run(rotate, {BM = 4, BN = 16}, x.view, y.view);
  y.check(0, [&](auto k, auto i, auto j) { return x(i, j, k); });
}

TEST_CASE("outside: a raw-pointer kernel: hashing 64-bit keys into an open table with compare-and-exchange") {
  const auto insert = kernel("hash_insert", [](View<const std::uint64_t, 1> keys,
                                               View<std::uint64_t, 1> table, View<std::int32_t, 1> slots) {
    auto [i] = program_tile(keys, BN);
    Tile key = keys.tile(i).load();
    Tile inside = i + arange(BN) < keys.extent(0);
    Scalar<std::uint64_t> size = cast<std::uint64_t>(table.extent(0));
    Tile mixed = (key ^ (key >> 33)) * 0xff51afd7ed558ccdu;
    Tile home = mul_hi(mixed, size);
    auto start = state(home, inside, full<std::int32_t>(-1, BN));
    auto [slot, open, placed] = while_loop(
        start, [](auto, auto open, auto) { return any(open); },
        [&](auto slot, auto open, auto placed) {
          // Lanes that have finished use an index outside of the table, so that they exchange nothing.
          Tile at = where(open, cast<std::int64_t>(slot), -1);
          Tile found = table.at(at).atomic_compare_exchange(0, key);
          Tile done = open & ((found == 0) | (found == key));
          return state((slot + 1) % size, open & ~done, where(done, cast<std::int32_t>(slot), placed));
        });
    slots.tile(i).store(placed);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 400);
  Strided<std::uint64_t, 1> keys(random, {n}, integers(random, 1, 1 << 20)),
      table(random, {2 * n}, [] { return 0; });
  Strided<std::int32_t, 1> slots(random, {n});
  run(insert, {BN = 32}, keys.view, table.view, slots.view);
  std::int64_t filled = 0;
  table.each([&](auto i) { filled += table.view(i) != 0; });
  std::vector<std::uint64_t> distinct;
  keys.each([&](auto i) {
    distinct.push_back(keys.view(i));
    REQUIRE(table.view(slots.view(i)) == keys.view(i));
  });
  std::sort(distinct.begin(), distinct.end());
  REQUIRE(filled == std::unique(distinct.begin(), distinct.end()) - distinct.begin());
}

TEMPLATE_TEST_CASE("outside: join, split and interleave keep every bit", "", float, bf16, std::int8_t, double,
                   bool) {
  using T = TestType;
  const auto pairs =
      kernel("pairs", [](View<const T, 2> x, View<T, 2> joined, View<T, 2> lines, View<T, 2> odd) {
        auto [m, n] = program_tile(odd, BM, BN);
        Tile rows = expand<1>(m + arange(BM));
        Tile cols = 2 * (n + arange(BN));
        Tile even = x.at(rows, cols).load(), other = x.at(rows, cols + 1).load();
        lines.tile(m, offset(BN * 2_c, n * 2)).store(interleave(even, other));
        auto [first, second] = split(join(even, other));
        joined.tile(m, n).store(first);
        odd.tile(m, n).store(second);
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 9), cols = random.integer(1, 40);
  Strided<T, 2> x(random, {rows, 2 * cols}, integers(random, 0, 1)), lines(random, {rows, 2 * cols}),
      first(random, {rows, cols}), second(random, {rows, cols});
  if constexpr (!std::is_integral_v<T>) {
    x.fill(uniform(random, -1, 1));
    x.view(0, 0) = from_double<T>(-0.0);
    x.view(rows - 1, 2 * cols - 1) = from_double<T>(NAN);
  }
  run(pairs, {BM = 4, BN = 16}, x.view, first.view, lines.view, second.view);
  auto same_bits = [](T a, T b) { // a NaN of bf16 may change its bits
    return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::is_same_v<T, bf16> && a != a && b != b);
  };
  x.each([&](auto r, auto c) {
    REQUIRE(same_bits(lines.view(r, c), x.view(r, c)));
    REQUIRE(same_bits((c % 2 ? second : first).view(r, c / 2), x.view(r, c)));
  });
  lines.check_gaps(), first.check_gaps(), second.check_gaps();
}
