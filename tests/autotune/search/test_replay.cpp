// Tests replays on recorded tables: counts, reproducibility, and the classification of tables.
#include <kiln/autotune/search/replay.h>

#include "autotune/random_table.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include "temporary_folder.h"
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;

namespace {

// The first `good` of `count` configs are within 5 % of the best; the time of the others increases with their
// index.
Table line_table(const std::string& name, std::size_t count, std::size_t good) {
  Table table;
  table.name = name;
  table.family = name.substr(0, name.find('-'));
  table.space.range("a", 0, static_cast<std::int64_t>(count) - 1);
  for (std::size_t i = 0; i < count; ++i) {
    table.points.push_back({static_cast<std::uint16_t>(i)});
    Measurement m;
    m.seconds =
        i < good ? 1 + 0.01 * static_cast<double>(i) / static_cast<double>(good) : 2 + static_cast<double>(i);
    table.results.push_back(m);
  }
  table.space.only(table.points);
  return table;
}

ReplayOptions quiet(std::vector<std::string> strategies) {
  ReplayOptions options;
  options.strategies = std::move(strategies);
  options.progress = false;
  options.jobs = 1;
  return options;
}

} // namespace

TEST_CASE("a replay counts trials and misses") {
  const std::vector<Table> tables{line_table("line", 999, 9)};
  ReplayOptions options = quiet({"random"});
  options.seeds = 400;
  options.trials = 1000;
  const auto replays = replay(tables, options);
  REQUIRE(replays.size() == 1);
  double sum = 0;
  for (const int n : replays[0].reached[1])
    sum += n;
  CHECK(sum / 400 == Approx(tables[0].random_trials(0.95)).epsilon(0.2));
  CHECK(replays[0].reached[0] == replays[0].reached[2]);
  CHECK(replays[0].share[3] > replays[0].share[0]);

  options.trials = 4; // most searches miss and count twice
  const auto short_replays = replay(tables, options);
  CHECK(short_replays[0].median[1] == 8);
  CHECK(trials_to(short_replays, tables, Difficulty::listed, "random", false, 1) == Approx(8));
  CHECK(trials_to(short_replays, tables, Difficulty::easy, "random", false, 1) == 0);
}

TEST_CASE("replays depend on seeds, not on the number of parallel searches") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const std::vector<Table> tables{test::random_table(random, 100), test::random_table(random, 100)};
  ReplayOptions options = quiet({"random", "genetic", "annealing"});
  options.seeds = 6;
  options.trials = 64;
  options.noise = 0.05;
  const auto one = replay(tables, options);
  options.jobs = 3;
  const auto three = replay(tables, options);
  REQUIRE(one.size() == three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].strategy == three[i].strategy);
    CHECK(one[i].reached == three[i].reached);
    CHECK(one[i].share == three[i].share);
  }
}

TEST_CASE("tables are classified by the trials of random search, and listed ones come first") {
  const std::vector<Table> tables{line_table("easy", 100, 50), line_table("needle", 2000, 1),
                                  line_table("listed", 1000, 9)};
  CHECK(difficulty(tables[0]) == Difficulty::easy);
  CHECK(difficulty(tables[1]) == Difficulty::needle);
  CHECK(difficulty(tables[2]) == Difficulty::listed);
  ReplayOptions options = quiet({"random", "grid"});
  options.seeds = 3;
  options.trials = 40;
  const auto replays = replay(tables, options);
  const std::string text = replay_text(tables, replays, options);
  CHECK(text.find("listed") < text.find("easy"));
  CHECK(text.find("easy") < text.find("needle"));
  CHECK_THAT(text, Contains("the list (random search needs 50 to 600 trials to 95 %), 1 of 3"));
  CHECK_THAT(text, Contains("3 seeds, at most 40 trials, a miss counts as 80"));
  const auto json = nlohmann::json::parse(replay_json(tables, replays, options));
  CHECK(json["tables"].size() == 3);
  CHECK(json["tables"][2]["class"] == "listed");
  CHECK(json["summary"].size() == 3);
  CHECK(json["runs"].size() == 6);
  CHECK(json["runs"][0]["reached"][1].size() == 3);
}

TEST_CASE("the columns of a family are its knobs and sizes by name") {
  auto table = [](const char* family, Space space, Problem problem, std::size_t points) {
    Table t;
    t.family = family;
    t.space = std::move(space);
    t.problem = std::move(problem);
    BoundSpace bound(t.space, {}, Device::cpu());
    t.points = *bound.points();
    t.points.resize(std::min(points, t.points.size()));
    for (std::size_t i = 0; i < t.points.size(); ++i) {
      t.results.emplace_back();
      t.results.back().seconds = 1 + static_cast<double>(i);
    }
    t.results[1].status = Status::crash;
    t.space.only(t.points);
    return t;
  };
  const std::vector<Table> tables{
      table("f", Space().pow2("BM", 16, 64).oneof("order", {"z", "rows"}), {{{"M", 8}, {"splits", 1}}, ""},
            6),
      table("g", Space().range("BM", 1, 9), {}, 9),
      table("f", Space().oneof("order", {"rows", "swizzled"}).pow2("BM", 32, 64).range("splits", 1, 2),
            {{{"M", 9}}, ""}, 8)};
  const FamilyColumns family(tables, 0);
  CHECK(family.names == std::vector<std::string>{"BM", "M", "order", "splits"});
  std::vector<float> row(4);
  family.columns(0, {2, 0}, row); // BM=64, order=z
  CHECK(row == std::vector<float>{64, 8, 2, 1});
  family.columns(2, {1, 0, 1}, row); // order=swizzled, BM=32, splits=2
  CHECK(row == std::vector<float>{32, 9, 1, 2});
  CHECK(family.records() == 8);
  CHECK(FamilyColumns(tables, 1).records() == 0);
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const auto records = family.draw(5, random);
  CHECK(records.size() == 5);
  CHECK(family.draw(100, random).size() == 8);
  int failures = 0;
  double best = 1e9;
  for (const Sibling& s : family.draw(8, random)) {
    CHECK(s.columns[1] == 9);
    failures += std::isinf(s.log_seconds);
    best = std::min(best, s.log_seconds);
  }
  CHECK(failures == 1);
  CHECK(best == 0);
}

TEST_CASE("invalid replays are errors") {
  ReplayOptions options = quiet({"random"});
  CHECK_THROWS_WITH(read_tables({}), Contains("there is no table to replay"));
  const test::TemporaryFolder temporary;
  const std::string folder = temporary.path().string();
  CHECK_THROWS_WITH(read_tables({folder}),
                    Contains("contains no table; tables are files named *.json or *.json.gz"));
  write_table(line_table("line-b", 9, 2), folder + "/b.json.gz");
  write_table(line_table("line-a", 9, 2), folder + "/a.json");
  const auto tables = read_tables({folder});
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].name == "line-a");
  CHECK(tables[0].family == "line");
  options.seeds = 0;
  CHECK_THROWS_WITH(replay(tables, options), Contains("a replay of 0 seeds and 256 trials measures nothing"));
  options.seeds = 1;
  options.strategies = {"clairvoyant"};
  CHECK_THROWS_AS(replay(tables, options), UserError);
}
