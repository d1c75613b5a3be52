// Tests protocols between programs, on each device and in the interpreter: what SEMANTICS says that they may
// rely on.
#include "strided.h"

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BN);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
} // namespace

TEST_CASE("a program may wait for programs that took a smaller ticket: running sums in one pass") {
  // Each program takes a ticket, which says which part it sums, waits for the total of the part before its
  // own, and publishes the total that includes its own part.
  const auto running = kernel("chained_sums", [](View<const int, 1> x, View<int, 1> y, View<int, 1> totals,
                                                 View<int, 1> flags, View<int, 1> counter) {
    auto [unused] = program_tile(y, BN);
    (void)unused;
    Scalar<std::int64_t> ticket = cast<std::int64_t>(counter.at(0).atomic_add(1));
    Offset<BN> n = ticket * BN;
    Tile sums = cumsum(x.tile(n).load(), BN);
    Scalar<int> before = if_else(
        ticket > 0,
        [&] {
          auto flag = flags.at(ticket - 1);
          while_loop(
              flag.atomic_or(0), [](auto set) { return set == 0; }, [&](auto) { return flag.atomic_or(0); });
          return totals.at(ticket - 1).load(); // a plain load, ordered by the atomics
        },
        [&] { return Scalar<int>(0); });
    y.tile(n).store(sums + before);
    totals.at(ticket).store(before + sum(x.tile(n).load()));
    flags.at(ticket).atomic_exchange(1);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t size = random.integer(1, 400), parts = (size + 15) / 16;
  Strided<int, 1> x(random, {size}, [&] { return static_cast<double>(random.integer(-9, 9)); }),
      y(random, {size}, [] { return 0; }), totals(random, {parts}, [] { return 0; }),
      flags(random, {parts}, [] { return 0; }), counter(random, {1}, [] { return 0; });
  std::vector<int> expected(at(size));
  for (std::int64_t i = 0, sum = 0; i < size; ++i)
    expected[at(i)] = static_cast<int>(sum += x.view(i));
  run(running, {BN = 16}, x.view, y.view, totals.view, flags.view, counter.view);
  y.check(0, [&](auto i) { return expected[at(i)]; });
}

TEST_CASE("the last program to finish sees what all others stored") {
  const auto total = kernel("last_one_adds_up", [](View<const int, 1> x, View<int, 1> parts,
                                                   View<int, 1> counter, View<int, 1> result) {
    auto [n] = program_tile(x, BN);
    parts.at(program_id(0)).store(sum(x.tile(n).load()));
    Scalar<int> done = counter.at(0).atomic_add(1);
    if_then(done == cast<int>(num_programs(0)) - 1, [&] {
      auto all =
          for_range(BN, parts.size(), 0, [&](auto k, auto all) { return all + sum(parts.tile(k).load()); });
      result.at(0).store(all);
    });
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t size = random.integer(1, 500);
  Strided<int, 1> x(random, {size}, [&] { return static_cast<double>(random.integer(-9, 9)); }),
      parts(random, {(size + 7) / 8}, [] { return 0; }), counter(random, {1}, [] { return 0; }),
      result(random, {1}, [] { return 0; });
  int expected = 0;
  for (std::int64_t i = 0; i < size; ++i)
    expected += x.view(i);
  run(total, {BN = 8}, x.view, parts.view, counter.view, result.view);
  result.check(0, [&](auto) { return expected; });
}

TEST_CASE("a scan of several tiles combines in the order of the scan, forwards and in reverse") {
  // Each element is a map x -> a x + b; the scan composes them, which depends on the order.
  const auto compose = kernel("composed_maps", [](View<const int, 2> a, View<const int, 2> b,
                                                  View<int, 3> forwards, View<int, 3> backwards) {
    auto [r] = program_tile(a, each);
    auto n = offset(BN, 0);
    Tile p = a.tile(r, n).load_or(1), q = b.tile(r, n).load();
    auto then = [](auto first, auto second) { // the map that applies `first`, then `second`
      auto [a1, b1] = first;
      auto [a2, b2] = second;
      return state(a1 * a2, a2 * b1 + b2);
    };
    auto [fa, fb] = associative_scan(state(p, q), BN, then);
    auto [ra, rb] = associative_scan(state(p, q), BN, then, {.reverse = true});
    forwards.tile(r, 0, n).store(fa), forwards.tile(r, 1, n).store(fb);
    backwards.tile(r, 0, n).store(ra), backwards.tile(r, 1, n).store(rb);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 3), n = random.integer(1, 32);
  auto digits = [&] { return static_cast<double>(random.integer(-3, 3)); };
  Strided<int, 2> a(random, {rows, n}, digits), b(random, {rows, n}, digits);
  Strided<int, 3> forwards(random, {rows, 2, n}, [] { return 0; }),
      backwards(random, {rows, 2, n}, [] { return 0; });
  run(compose, {BN = 32}, a.view, b.view, forwards.view, backwards.view);
  for (std::int64_t r = 0; r < rows; ++r)
    for (bool reverse : {false, true}) {
      std::uint32_t p = 1, q = 0; // wraps, as integers of a kernel do
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = reverse ? n - 1 - k : k;
        const auto pi = static_cast<std::uint32_t>(a.view(r, i)),
                   qi = static_cast<std::uint32_t>(b.view(r, i));
        q = pi * q + qi, p = p * pi;
        const auto& result = reverse ? backwards : forwards;
        CHECK(static_cast<std::uint32_t>(result.view(r, 0, i)) == p);
        CHECK(static_cast<std::uint32_t>(result.view(r, 1, i)) == q);
      }
    }
}
