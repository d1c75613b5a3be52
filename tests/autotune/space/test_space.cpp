// Tests membership, size and uniform sampling of spaces against trying every combination.
#include <kiln/autotune/space/space.h>

#include "random_space.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::tune;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {

double seconds_of(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A space of ten knobs and 10^9 combinations, in which rules connect all knobs.
Space large_space() {
  Space s;
  for (int k = 0; k < 10; ++k)
    s.range("k" + std::to_string(k), 1, 8);
  for (int k = 0; k + 1 < 10; ++k)
    s.require("rule " + std::to_string(k), [a = "k" + std::to_string(k), b = "k" + std::to_string(k + 1)](
                                               const Choice& c) { return c[a] + c[b] <= 14; });
  return s;
}

} // namespace

TEST_CASE("a space has the members that trying every combination finds") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const auto [space, members] = test::random_space(random);
    BoundSpace bound(space, {}, Device::cpu());
    bool exact = false;
    REQUIRE(bound.size(&exact) == static_cast<double>(members.size()));
    REQUIRE(exact);
    // Sampling uses the graph, since nothing has been listed yet.
    for (int i = 0; i < 20; ++i) {
      const auto p = bound.sample(random);
      REQUIRE(p.has_value() == !members.empty());
      if (p) REQUIRE(std::binary_search(members.begin(), members.end(), *p));
    }
    REQUIRE(bound.points(members.size()));
    REQUIRE(*bound.points() == members);
    BoundSpace other(space, {}, Device::cpu());
    if (!members.empty()) REQUIRE(other.points(members.size() - 1) == nullptr);

    const std::set<Point> all(members.begin(), members.end());
    for (int i = 0; i < 20; ++i) {
      Point p;
      for (const Knob& k : space.knobs())
        p.push_back(static_cast<std::uint16_t>(random.below(k.values.size())));
      REQUIRE(other.contains(p) == all.contains(p));
      REQUIRE(other.refused_by(p).empty() == all.contains(p));
      std::vector<Point> near;
      for (const Point& m : members) {
        int different = 0;
        for (std::size_t k = 0; k < p.size(); ++k)
          different += m[k] != p[k];
        if (different == 1) near.push_back(m);
      }
      std::vector<Point> neighbours = other.neighbours(p);
      std::sort(neighbours.begin(), neighbours.end());
      REQUIRE(neighbours == near);
    }
  }
}

TEST_CASE("sampling a space is uniform") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const auto [space, members] = test::random_space(random);
    if (members.size() < 2 || members.size() > 2000) continue;
    BoundSpace bound(space, {}, Device::cpu());
    std::map<Point, double> counts;
    const double each = 20, n = each * static_cast<double>(members.size());
    for (int i = 0; i < static_cast<int>(n); ++i)
      counts[*bound.sample(random)] += 1;
    double chi_square = 0;
    for (const Point& m : members)
      chi_square += (counts[m] - each) * (counts[m] - each) / each;
    const double freedom = static_cast<double>(members.size()) - 1;
    CHECK(chi_square < freedom + 6 * std::sqrt(2 * freedom) + 20);
  }
}

TEST_CASE("sampling is nearly uniform in a space that cannot be counted") {
  // One rule reads all knobs and can be decided only at the end, so no two branches are alike.
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Space s;
  std::vector<std::string> names;
  for (int k = 0; k < 9; ++k)
    s.range(names.emplace_back("k" + std::to_string(k)), 1, 12);
  s.require("sum", [names](const Choice& c) {
    std::int64_t sum = 0;
    for (const std::string& n : names)
      sum = sum * 31 + c[n];
    return sum % 7 < 3;
  });
  BoundSpace bound(s, {}, Device::cpu());
  bool exact = true;
  const double all = std::pow(12, 9);
  CHECK(bound.size(&exact) == Approx(all * 3 / 7).epsilon(0.2));
  CHECK_FALSE(exact);
  CHECK(bound.points() == nullptr);
  Random random(seed);
  std::vector<double> counts(12);
  for (int i = 0; i < 6000; ++i) {
    const auto p = bound.sample(random);
    REQUIRE(p.has_value());
    REQUIRE(bound.contains(*p));
    counts[(*p)[3]] += 1;
  }
  for (const double c : counts)
    CHECK(std::abs(c - 500) < 150);
}

TEST_CASE("a space of a billion points is counted and sampled without listing it") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  // Compute the number of members along the chain of rules.
  std::vector<double> ways(9, 1);
  for (int k = 1; k < 10; ++k) {
    std::vector<double> next(9, 0);
    for (std::size_t a = 1; a <= 8; ++a)
      for (std::size_t b = 1; b <= 8; ++b)
        if (a + b <= 14) next[b] += ways[a];
    ways = next;
  }
  double members = 0;
  for (std::size_t a = 1; a <= 8; ++a)
    members += ways[a];

  BoundSpace bound(large_space(), {}, Device::cpu());
  bool exact = false;
  double count = 0;
  CHECK(seconds_of([&] { count = bound.size(&exact); }) < 1);
  CHECK(exact);
  CHECK(count == members);
  CHECK(bound.points() == nullptr);
  Random random(seed);
  const double seconds = seconds_of([&] {
    for (int i = 0; i < 1000; ++i)
      REQUIRE(bound.contains(*bound.sample(random)));
  });
  CHECK(seconds < 0.5); // for a thousand samples, also with sanitizers
}

TEST_CASE("the sizes of unconnected components multiply") {
  Space s;
  for (int k = 0; k < 40; ++k)
    s.range("k" + std::to_string(k), 1, 500);
  s.require("pair", [](const Choice& c) { return c["k3"] <= c["k30"]; });
  BoundSpace bound(s, {}, Device::cpu());
  bool exact = false;
  CHECK(bound.size(&exact) == Approx(std::pow(500.0, 38) * 125250));
  CHECK(exact);
}

TEST_CASE("a space whose rules reject nearly everything is counted exactly") {
  // This is the problem of the eight queens.
  Space s;
  std::vector<std::string> names;
  for (int k = 0; k < 8; ++k)
    s.range(names.emplace_back("q" + std::to_string(k)), 0, 7);
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < a; ++b)
      s.require(names[b] + " and " + names[a], [=](const Choice& c) {
        const std::int64_t d = c[names[a]] - c[names[b]];
        return d != 0 && std::abs(d) != static_cast<std::int64_t>(a - b);
      });
  BoundSpace bound(s, {}, Device::cpu());
  CHECK(bound.size() == 92);
  CHECK(bound.points()->size() == 92);
}

TEST_CASE("empty, contradictory and one-point spaces have clear outcomes") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  bool exact = false;

  Space contradictory;
  contradictory.range("a", 1, 8).range("b", 1, 8);
  contradictory.require("more", [](const Choice& c) { return c["a"] > c["b"]; });
  contradictory.require("less", [](const Choice& c) { return c["a"] < c["b"]; });
  contradictory.seed({{"a", 1}, {"b", 2}});
  BoundSpace none(contradictory, {}, Device::cpu());
  CHECK(none.size(&exact) == 0);
  CHECK(exact);
  CHECK_FALSE(none.sample(random).has_value());
  CHECK(none.points()->empty());
  CHECK(none.seeds().empty());
  CHECK_THAT(none.what_refuses(), Catch::Matchers::Contains("\"more\" rejects 5") &&
                                      Catch::Matchers::Contains("\"less\" rejects 4"));

  Space refused;
  refused.range("a", 1, 8).require("never on this problem",
                                   [](const Choice&, const Problem& p) { return p["M"] > 100; });
  CHECK(BoundSpace(refused, {{{"M", 7}}, ""}, Device::cpu()).size() == 0);
  CHECK(BoundSpace(refused, {{{"M", 700}}, ""}, Device::cpu()).size() == 8);

  Space empty_list;
  empty_list.range("a", 1, 8).only({});
  BoundSpace listed(empty_list, {}, Device::cpu());
  CHECK(listed.size() == 0);
  CHECK_FALSE(listed.sample(random).has_value());
  CHECK(listed.what_refuses() == "the list of points is empty");

  BoundSpace one(Space{}, {}, Device::cpu()); // without knobs there is exactly one point
  CHECK(one.size() == 1);
  CHECK(one.sample(random) == Point{});
  CHECK(one.neighbours({}).empty());
  CHECK(one.config({}).size() == 0);

  BoundSpace illegal(Space().range("a", 1, 8), {}, Device::cpu(), [](const Point&) { return false; });
  CHECK(illegal.size() == 0);
  CHECK_FALSE(illegal.sample(random).has_value());
  CHECK(illegal.refused_by({3}) == "the compiler");
}

TEST_CASE("the compiler's check is called after the rules, once for each point") {
  Space s;
  s.range("a", 0, 9).range("b", 0, 9).require("upper", [](const Choice& c) { return c["a"] < c["b"]; });
  std::map<Point, int> asked;
  BoundSpace bound(s, {}, Device::cpu(), [&](const Point& p) {
    ++asked[p];
    return p[0] % 2 == 0;
  });
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (int i = 0; i < 100; ++i)
    CHECK((*bound.sample(random))[0] % 2 == 0);
  CHECK(bound.size() == 9 + 7 + 5 + 3 + 1);
  for (const auto& [p, times] : asked) {
    CHECK(p[0] < p[1]);
    CHECK(times == 1);
  }
}

TEST_CASE("only() is a space of listed points") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  Space s;
  s.range("a", 0, 99).range("b", 0, 99);
  std::set<Point> points;
  while (points.size() < 300) {
    const auto a = static_cast<std::uint16_t>(random.below(100));
    points.insert({a, static_cast<std::uint16_t>(random.below(100))});
  }
  std::vector<Point> list(points.begin(), points.end());
  list.push_back(list[0]); // a duplicate counts once
  s.only(list);
  BoundSpace bound(s, {}, Device::cpu());
  CHECK(bound.size() == 300);
  std::map<Point, int> drawn;
  for (int i = 0; i < 6000; ++i)
    ++drawn[*bound.sample(random)];
  for (const auto& [p, times] : drawn) {
    CHECK(points.contains(p));
    CHECK(times < 60);
  }
  CHECK(drawn.size() > 290);
  s.require("even", [](const Choice& c) { return c["a"] % 2 == 0; });
  BoundSpace half(s, {}, Device::cpu());
  const auto even = std::count_if(points.begin(), points.end(), [](const Point& p) { return p[0] % 2 == 0; });
  CHECK(half.points()->size() == static_cast<std::size_t>(even));
}

TEST_CASE("points convert to configs and back") {
  Space s;
  s.pow2(BM, 16, 64).oneof(num_warps, {4, 8}).oneof("order", {"rows", "swizzled"}).range("k", 3, 9, 3);
  s.seed({{"BM", 32}, {"num_warps", 8}, {"order", 1}, {"k", 6}});
  BoundSpace bound(s, {{{"M", 512}, {"N", 128}}, "f32.nn"}, Device::cpu());
  CHECK(bound.problem().to_string() == "M=512,N=128 f32.nn");
  REQUIRE(bound.seeds() == std::vector<Point>{{1, 1, 1, 1}});
  CHECK(bound.text(bound.seeds()[0]) == "BM=32,num_warps=8,order=swizzled,k=6");
  CHECK(bound.config(bound.seeds()[0]).to_string() == "BM=32,k=6,num_warps=8");
  CHECK(bound.point(Config::parse("BM=64,BN=3,num_warps=4,k=9")) == Point{2, 0, 0, 2});
  CHECK_FALSE(bound.point(Config{BM = 64, num_warps = 4}).has_value());
  CHECK_FALSE(bound.point(Config::parse("BM=65,num_warps=4,k=9")).has_value());
  CHECK(bound.refused_by({0, 0, 0, 9}) == "not one of its values");
  CHECK(bound.neighbours({0, 0, 0, 9}).empty());
  CHECK(s.text() == "BM=16,32,64\nnum_warps=4,8\norder=rows,swizzled unordered\nk=3,6,9\n");
}

TEST_CASE("a rule may read labels, the problem and the device") {
  Space s;
  s.oneof("order", {"rows", "swizzled"}).range("k", 1, 4);
  s.implies(
      "swizzles are small", [](const Choice& c) { return c.label("order") == "swizzled"; },
      [](const Choice& c, const Problem& p, Device d) { return c["k"] <= p["M"] && d.is_cpu(); });
  BoundSpace bound(s, {{{"M", 2}}, ""}, Device::cpu());
  CHECK(bound.size() == 4 + 2);
  CHECK(bound.refused_by({1, 3}) == "swizzles are small");
}

TEST_CASE("a knob declared after a seed has its first value there") {
  Space s;
  s.range("a", 1, 4).seed({{"a", 3}}).range("b", 5, 6);
  CHECK(s.seeds() == std::vector<Point>{{2, 0}});
}

TEST_CASE("a knob that a rule reads for only a few points is discovered") {
  // Neither 16 random points nor 512 descents are likely to reveal that "rare" reads z.
  Space s;
  std::vector<std::string> names;
  for (int k = 0; k < 8; ++k)
    s.range(names.emplace_back("k" + std::to_string(k)), 0, 15);
  s.range("z", 0, 3);
  s.require("rare", [names](const Choice& c) {
    std::int64_t sum = 0;
    for (const std::string& n : names)
      sum = sum * 37 + c[n];
    return sum % 1999 != 7 || c["z"] == 2;
  });
  BoundSpace bound(s, {}, Device::cpu());
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  std::vector<int> counts(4);
  for (int i = 0; i < 4000; ++i) {
    const auto p = bound.sample(random);
    REQUIRE(p.has_value());
    REQUIRE(bound.contains(*p));
    ++counts[p->back()];
  }
  for (const int c : counts)
    CHECK(std::abs(c - 1000) < 200);
}

TEST_CASE("a rule may read knobs in an order that depends on their values") {
  Space chosen;
  chosen.range("which", 0, 1).range("a", 0, 5).range("b", 0, 5);
  chosen.require("the one that is named is small",
                 [](const Choice& c) { return c[c["which"] == 0 ? "a" : "b"] < 2; });
  BoundSpace small(chosen, {}, Device::cpu());
  REQUIRE(small.points());
  CHECK(small.points()->size() == 2 * 2 * 6);
}

// This is hidden because it is a measurement: it prints a time, which depends on the machine, and checks
// nothing beyond the tests above. It is for changes to the sampling: tune_tests "[draw_costs]".
TEST_CASE("measure the cost of a sample from a space too large to count", "[.][draw_costs]") {
  Space space;
  space.range("unroll", 1, 4).range("first", 1, 700).range("second", 1, 700).range("third", 1, 700);
  space.require("fits", [](const Choice& c) { return c["first"] * c["second"] + c["third"] <= 200'000; });
  BoundSpace bound(space, {}, Device::cpu());
  Random random(7);
  REQUIRE(bound.sample(random));
  constexpr int draws = 1000;
  std::uint64_t sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < draws; ++i)
    sum = 31 * sum + PointHash()(*bound.sample(random));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{:.1f} us per sample; the hash of the points is {:x}\n", 1e6 * took.count() / draws, sum);
}

TEST_CASE("counting a space ends on request, does not start again, and leaves a space that can be sampled") {
  int asked = 0;
  Space s;
  std::vector<std::string> names;
  for (int k = 0; k < 9; ++k)
    s.range(names.emplace_back("k" + std::to_string(k)), 1, 12);
  s.require("even", [&asked, names](const Choice& c) {
    ++asked;
    std::int64_t sum = 0;
    for (const std::string& n : names)
      sum = sum * 31 + c[n];
    return sum % 2 == 0;
  });
  BoundSpace bound(s, {}, Device::cpu());
  int left = 100;
  const Stop stop = [&left] { return --left <= 0; };
  CHECK(bound.points(4096, stop) == nullptr);
  CHECK(left == 0);
  CHECK(asked < 1000); // counting allows 600,000 calls
  const int before = asked;
  CHECK(bound.points(4096) == nullptr);
  CHECK(bound.points(1u << 20) == nullptr);
  CHECK(asked == before);
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const auto drawn = bound.sample(random);
  REQUIRE(drawn);
  CHECK(bound.contains(*drawn));
  bool exact = true;
  CHECK(bound.size(&exact) > 0);
  CHECK_FALSE(exact);
}

TEST_CASE("listing a space ends on request") {
  Space s;
  s.range("a", 1, 100).range("b", 1, 100);
  BoundSpace bound(s, {}, Device::cpu(), [](const Point&) { return true; });
  int left = 300; // more than counting uses
  CHECK(bound.points(1u << 20, [&left] { return --left <= 0; }) == nullptr);
  CHECK(left == 0);
}
