// Tests recorded tables: both formats, and invalid files.
#include <kiln/autotune/search/table.h>

#include "autotune/random_table.h"
#include "temporary_folder.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;

namespace {

struct Folder : test::TemporaryFolder {
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
    return (path() / name).string();
  }
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string error_of(const std::string& path) {
  try {
    read_table(path);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

std::string t4_row(const std::string& configuration, const std::string& time,
                   const char* invalidity = "correct") {
  return R"({"configuration": {)" + configuration + R"(}, "invalidity": ")" + invalidity +
         R"(", "times": {"compilation": 250.0, "runtimes": [1, 2, 3]}, "measurements": [{"name": "time", "value": )" +
         time + R"(, "unit": ""}], "objectives": ["time"]})";
}
std::string t4(const std::vector<std::string>& rows, const std::string& unit = "miliseconds") {
  std::string text =
      R"({"schema_version": "1.0.0", "metadata": {"timeunit": ")" + unit + R"("}, "results": [)";
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += (i ? "," : "") + rows[i];
  return text + "]}";
}

} // namespace

TEST_CASE("a T4 file becomes a table") {
  const Folder folder;
  const std::string path = folder.file(
      "conv-A100_T4.json",
      t4({t4_row(R"("x": 16, "w": "b", "filter": 15, "flag": true)", "2.5"),
          t4_row(R"("x": 4, "w": "b", "filter": 15, "flag": false)", "1.5"),
          t4_row(R"("x": 4, "w": "a", "filter": 15, "flag": true)", "\"RuntimeFailedConfig\"", "runtime"),
          t4_row(R"("x": 8, "w": "a", "filter": 15, "flag": true)", "\"CompilationFailedConfig\"", "compile"),
          t4_row(R"("x": 8, "w": "b", "filter": 15, "flag": true)", "\"nothing\""),
          t4_row(R"("x": 16, "w": "b", "filter": 15, "flag": true)", "99")})); // recorded twice
  const Table table = read_table(path);
  CHECK(table.name == "conv-A100");
  CHECK(table.family == "conv");
  CHECK(table.device == "A100");
  CHECK(table.problem.to_string() == "filter=15");
  CHECK(table.space.text().starts_with("flag=0,1\nw=a,b unordered\nx=4,8,16\nonly 5 points"));
  REQUIRE(table.points.size() == 5);
  CHECK(table.points[0] == Point{1, 1, 2});
  CHECK(table.results[0].seconds == Approx(2.5e-3));
  CHECK(table.results[0].compile_seconds == Approx(0.25));
  CHECK(table.results[0].launches == 3);
  CHECK(table.best_seconds() == Approx(1.5e-3));
  CHECK(table.results[2].status == Status::launch_error);
  CHECK(table.results[3].status == Status::compile_error);
  CHECK(table.results[4].status == Status::not_a_number);
  CHECK(table.random_trials(0.95) == Approx(3));
  CHECK(table.random_trials(0.5) == Approx(2));

  BoundSpace space(table.space, table.problem, Device::cpu());
  CHECK(space.size() == 5);
  CHECK(space.text(table.points[0]) == "flag=1,w=b,x=16");
  const auto measurer = table_measurer(table);
  const std::vector<Point> asked{{0, 1, 0}, {0, 0, 0}};
  const auto measured = measurer->measure(asked);
  CHECK(measured[0].seconds == Approx(1.5e-3));
  CHECK(measured[1].status == Status::refused);
}

TEST_CASE("times of a T4 file may be in other units") {
  const Folder folder;
  for (const auto& [unit, seconds] :
       {std::pair("seconds", 2.0), {"ms", 2e-3}, {"microseconds", 2e-6}, {"ns", 2e-9}, {"", 2e-3}})
    CHECK(read_table(folder.file("t.json", t4({t4_row(R"("x": 1)", "2")}, unit))).best_seconds() ==
          Approx(seconds));
  CHECK_THAT(error_of(folder.file("t.json", t4({t4_row(R"("x": 1)", "2")}, "fortnights"))),
             Contains("its times have the unit \"fortnights\"; known are s, ms, us and ns"));
}

TEST_CASE("Kiln's own tables are read back as they were written") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Folder folder;
  for (const char* name : {"own.json", "own.json.gz"})
    for (int round = 0; round < 10; ++round) {
      Table table = test::random_table(random, 3);
      table.results[0].facts["registers"] = 12;
      table.results[0].compile_seconds = 0.25;
      table.space.seed(table.points[1]);
      const std::string path = (folder.path() / name).string();
      write_table(table, path);
      const Table again = read_table(path);
      CHECK(again.name == table.name);
      CHECK(again.family == table.family);
      CHECK(again.device == table.device);
      CHECK(again.problem == table.problem);
      CHECK(again.space.text() == table.space.text());
      CHECK(again.space.seeds() == table.space.seeds());
      CHECK(again.points == table.points);
      CHECK(again.results[0].facts == table.results[0].facts);
      CHECK(again.results[0].compile_seconds == 0.25);
      for (std::size_t i = 0; i < table.results.size(); ++i) {
        REQUIRE(again.results[i].status == table.results[i].status);
        REQUIRE(again.results[i].seconds == Approx(table.results[i].seconds).epsilon(1e-5));
      }
    }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2); // no temporary files
}

TEST_CASE("invalid tables are rejected with a reason") {
  const Folder folder;
  auto error = [&](const std::string& text) { return error_of(folder.file("t.json", text)); };
  CHECK_THAT(error_of((folder.path() / "none.json").string()),
             Contains("none.json: No such file or directory; check the name"));
  CHECK_THAT(error_of(folder.path().string()), Contains("Is a directory"));
  CHECK_THAT(error(""), Contains("it is not a valid table: parse error at line 1, column 1"));
  CHECK_THAT(error("[1, 2]"), Contains("it is not a JSON object"));
  CHECK_THAT(error("{}"), Contains("it has neither \"results\" (T4) nor \"kiln_table\""));
  CHECK_THAT(error(t4({})), Contains("\"results\" holds no configs"));
  CHECK_THAT(error(t4({"3"})), Contains("it is not a valid table: ") && !Contains("json.exception"));
  CHECK_THAT(error(t4({t4_row(R"("x": 1)", "2"), t4_row(R"("y": 1)", "2")})),
             Contains("the configuration of result 1 has other knobs than that of result 0"));
  CHECK_THAT(error(t4({t4_row(R"("x": [1])", "2")})),
             Contains("knob x of result 0 is neither a number nor a word"));
  CHECK_THAT(error(t4({t4_row(R"("x": 1)", "2", "timeout")})), Contains("none of its 1 configs has a time"));
  CHECK_THAT(error(R"({"kiln_table": 9})"),
             Contains("its format is version 9, but this Kiln reads version 1"));
  const std::string own = R"({"kiln_table": 1, "knobs": [{"name": "a", "values": [1, 2]}], )";
  CHECK_THAT(error(own + R"("points": [[0]], "seconds": []})"), Contains("two lists of the same length"));
  CHECK_THAT(error(own + R"("points": [[2]], "seconds": [1]})"), Contains("point 0 does not hold one index"));
  CHECK_THAT(error(own + R"("points": [[0], [0]], "seconds": [1, 1]})"), Contains("point 1 occurs twice"));
  CHECK_THAT(error(own + R"("points": [[0]], "seconds": [-1]})"), Contains("it must be more than 0"));
  CHECK_THAT(error(own + R"("points": [[0]], "seconds": ["tired"]})"),
             Contains("is neither a time nor a known failure"));
  CHECK_THAT(error(own + R"("points": [[0]], "seconds": [1], "seeds": [[7]]})"),
             Contains("a seed does not hold"));
}

TEST_CASE("damaged tables are either rejected or read") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Folder folder;
  const Table table = test::random_table(random, 30);
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < 20; ++i)
    rows.push_back(t4_row("\"x\": " + std::to_string(i) + ", \"y\": \"w\"", std::to_string(i + 1)));
  std::vector<std::string> files{t4(rows)};
  for (const char* name : {"own.json", "own.json.gz"}) {
    write_table(table, (folder.path() / name).string());
    files.push_back(content((folder.path() / name).string()));
  }
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = files[random.below(files.size())];
    if (random.below(2)) text.resize(random.below(text.size()));
    for (std::size_t flips = random.below(4); flips > 0 && !text.empty(); --flips)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    refused += error_of(folder.file("damaged.json", text)) != "no error"; // other exceptions escape
  }
  CHECK(refused > 300);
  const std::string& zipped = files[2];
  CHECK_THAT(error_of(folder.file("cut.json.gz", zipped.substr(0, zipped.size() / 2))),
             Contains("it is truncated"));
}

TEST_CASE("a table that cannot be written is an error and leaves no file") {
  const Folder folder;
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Table table = test::random_table(random);
  CHECK_THROWS_WITH(write_table(table, (folder.path() / "no" / "such.json").string()),
                    Contains("No such file or directory; choose another folder"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("random search needs as many trials as random_trials() predicts") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Table table = test::random_table(random, 200);
  const double enough = table.best_seconds() / 0.9;
  double sum = 0;
  constexpr int searches = 4000;
  std::vector<std::size_t> order(table.points.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (int s = 0; s < searches; ++s) {
    random.shuffle(order);
    std::size_t i = 0;
    while (!table.results[order[i]].ok() || table.results[order[i]].seconds > enough)
      ++i;
    sum += static_cast<double>(i) + 1;
  }
  CHECK(sum / searches == Approx(table.random_trials(0.9)).epsilon(0.1));
}

TEST_CASE("the noise of a table is seeded, and smaller in confirmations") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Table table = test::random_table(random, 200, 0);
  auto errors = [&](std::uint64_t noise_seed, bool confirm) {
    const auto measurer = table_measurer(table, 0.1, noise_seed);
    const auto measured = confirm ? measurer->confirm(table.points) : measurer->measure(table.points);
    std::vector<double> result;
    for (std::size_t i = 0; i < measured.size(); ++i)
      result.push_back(std::log(measured[i].seconds / table.results[i].seconds));
    return result;
  };
  auto sigma = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values)
      sum += v * v;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  CHECK(errors(7, false) == errors(7, false));
  CHECK(errors(7, false) != errors(8, false));
  CHECK(sigma(errors(7, false)) == Approx(0.1).epsilon(0.25));
  CHECK(sigma(errors(7, true)) < 0.06);
}

TEST_CASE("public tables can be read, if they are installed") {
  const char* folder = std::getenv("KILN_TUNING_SPACES");
  if (!folder || !*folder) {
    WARN("skipped: KILN_TUNING_SPACES does not name a folder of tables");
    return;
  }
  int tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().string().ends_with(".json.gz")) continue;
    const Table table = read_table(entry.path().string());
    CHECK(table.points.size() == table.results.size());
    CHECK(table.random_trials(0.95) >= 1);
    BoundSpace space(table.space, table.problem, Device::cpu());
    CHECK(space.size() == static_cast<double>(table.points.size()));
    ++tables;
  }
  CHECK(tables > 0);
}
