// Tests that configs are also right in the next launches, where arrays hold what the last one has left.
#include "checked.h"

using namespace kiln;
using namespace kiln::test;
using tune::Twist;

namespace {

using std::int32_t;
constexpr std::int64_t n = 20'000;

Argument counters(std::int64_t size) {
  Argument a = given<int32_t>({size}, [](std::size_t) { return 0; });
  a.readonly = false;
  return a;
}
Argument updated(Sizes extents, double least = -1) {
  Argument a = given<float>(
      std::move(extents), [=](std::size_t i) { return least + static_cast<double>(i * 7919 % 1009) / 500; });
  a.readonly = false;
  return a;
}

// y = x, or x + 1 from the launch `wrong` on, which an epoch counts: launch 0 is the first.
auto copy_with_epoch(int wrong) {
  return kernel("epoch", [=](View<const float, 1> x, View<int32_t, 1> epochs, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    auto epoch = epochs.at(0).load();
    y.tile(i).store(wrong ? Tile(where(epoch >= wrong, t + 1.0f, t)) : t);
    auto ended = epochs.at(1).atomic_add(1);
    if_then(ended == cast<int32_t>(num_programs(0)) - 1, [&] {
      epochs.at(0).store(epoch + 1);
      epochs.at(1).store(0);
    });
  });
}

// Reads one half of x and writes it to that of y, in turn.
auto halves_in_turn(bool wrong) {
  return kernel("halves", [=](View<const float, 2> x, View<int32_t, 1> epochs, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    auto epoch = epochs.at(0).load();
    auto half = cast<std::int64_t>(epoch & (wrong ? 0 : 1));
    y.tile(i).store(x.at(half, i + arange(BN)).load(i + arange(BN) < y.size()));
    auto ended = epochs.at(1).atomic_add(1);
    if_then(ended == cast<int32_t>(num_programs(0)) - 1, [&] {
      epochs.at(0).store(epoch + 1);
      epochs.at(1).store(0);
    });
  });
}

} // namespace

TEST_CASE("a config that is wrong from the second or third launch on is rejected") {
  Compared compared({in<float>({n}), counters(2), out<float>({n})}, bn(64), bn(512));
  CHECK(compared.error(copy_with_epoch(0), copy_with_epoch(1)) == ""); // in the trials
  CHECK(compared.verified(Twist::repeated, copy_with_epoch(0), copy_with_epoch(0)) == "");
  CHECK(compared.verified(Twist::repeated, copy_with_epoch(0), copy_with_epoch(1)) != "");
  CHECK(compared.verified(Twist::repeated, copy_with_epoch(0), copy_with_epoch(2)) != "");
  CHECK(compared.verified(Twist::repeated, copy_with_epoch(0), copy_with_epoch(3)) == "");
}

TEST_CASE("the same holds if the arrays that it keeps are ignored") {
  Compared compared({in<float>({n}), counters(2), out<float>({n})}, bn(64), bn(512));
  compared.situation().outputs = {{.parameter = 1, .ignored = true}};
  compared.situation().keeps_ignored = true;
  CHECK(compared.error(copy_with_epoch(0), copy_with_epoch(0)) == "");
  CHECK_THAT(compared.error(copy_with_epoch(0), copy_with_epoch(1)), Catch::Contains(", in a second launch"));
  CHECK_THAT(compared.error(copy_with_epoch(0), copy_with_epoch(2)), Catch::Contains(", in a third launch"));
}

TEST_CASE("a config that ignores which half of an array a counter selects is rejected") {
  Compared compared({in<float>({2, n}), counters(2), out<float>({n})}, bn(64), bn(512));
  CHECK(compared.verified(Twist::repeated, halves_in_turn(false), halves_in_turn(false)) == "");
  CHECK(compared.verified(Twist::repeated, halves_in_turn(false), halves_in_turn(true)) != "");
}

TEST_CASE("right updates in place are confirmed in each launch") {
  const auto scaled = kernel("scaled", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = y.tile(i).load();
    y.tile(i).store(exp(t) - t * t);
  });
  Compared elements({updated({n})}, bn(64), bn(512));
  CHECK(elements.verified(Twist::repeated, scaled, scaled) == "");

  const auto normalised = kernel("normalised", [](View<float, 2> y) {
    auto [m] = program_tile(y, 1_c);
    auto squares = for_range(BN, y.cols(), zeros<float>(1_c), [&](auto at, auto sum) {
      Tile t = y.tile(m, at).load();
      return sum + kiln::sum(t * t, BN);
    });
    for_range(BN, y.cols(), [&](auto at) {
      y.tile(m, at).store(y.tile(m, at).load() * expand<1>(rsqrt(squares / 300.0f)));
    });
  });
  Compared rows({updated({50, 300})}, bn(16), bn(128));
  CHECK(rows.verified(Twist::repeated, normalised, normalised) == "");

  const auto added =
      kernel("added", [](View<const float, 1> x, View<float, 1> sums, View<int32_t, 1> counts) {
        auto [i] = program_tile(x, BN);
        Tile t = x.tile(i).load();
        Tile at = cast<std::int64_t>(abs(t) * 16.0f) & 63;
        auto inside = i + arange(BN) < x.size();
        sums.at(at).atomic_add(t, inside);
        counts.at(at).atomic_add(full<int32_t>(1, BN), inside);
      });
  Argument sums = out<float>({64});
  Compared histogram({in<float>({n}), sums, counters(64)}, bn(64), bn(512));
  CHECK(histogram.verified(Twist::repeated, added, added) == "");
}

TEST_CASE("a kernel is not launched again if nothing changes or if its loops depend on what it has left") {
  const auto positive = kernel("positive", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(abs(y.tile(i).load()));
  });
  Compared unchanged({updated({n}, 1)}, bn(64), bn(512));
  CHECK_THAT(unchanged.verified(Twist::repeated, positive, positive), Catch::StartsWith("skipped: "));
  unchanged.situation().arguments[0] = updated({n});
  CHECK(unchanged.verified(Twist::repeated, positive, positive) == "");
  unchanged.situation().arguments[0].as_given = true;
  CHECK_THAT(unchanged.verified(Twist::repeated, positive, positive), Catch::StartsWith("skipped: "));
  const auto halved = kernel("halved", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = y.tile(i).load();
    y.tile(i).store(while_loop(t, [](auto u) { return any(u > 0.01f); }, [](auto u) { return u * 0.5f; }));
  });
  Compared loops({updated({n})}, bn(64), bn(512));
  CHECK_THAT(loops.verified(Twist::repeated, halved, halved), Catch::StartsWith("skipped: "));
}
