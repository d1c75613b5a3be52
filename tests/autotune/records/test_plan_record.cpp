// Tests that plans become records and come back, and that the commands cope with them.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <kiln/autotune/cli/records_list.h>
#include <kiln/autotune/cli/records_text.h>
#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/records/plan_record.h>
#include <kiln/jit/cli/support/registry.h>

#include <cmath>

using namespace records_test;

namespace {

RecordKey plan_key(std::int64_t rows = 64) {
  return make_key("collective_plan", {}, {3, 4}, {{{"ranks", 2}, {"rows", rows}}, "gather_matmul"},
                  Device::cpu());
}

double random_time(std::mt19937_64& random) { return std::ldexp(random_seconds(random), -40); }

StoredPlan random_plan(std::mt19937_64& random) {
  StoredPlan plan{.computation = random_time(random), .communication = random_time(random)};
  plan.time = 1'766'000'000'000;
  for (const char* name : {"direct, 3 chunks 3:2:1", "ring, 16 chunks", "serial"})
    plan.options.push_back({name, random_time(random), random() % 2 ? random_time(random) : -1});
  plan.chosen = random() % plan.options.size();
  plan.options[plan.chosen].measured = random_time(random);
  return plan;
}

} // namespace

TEST_CASE("a plan survives its record's line, and wisdom", "[records]") {
  std::mt19937_64 random(fresh_seed());
  for (int i = 0; i < 100; ++i) {
    const StoredPlan plan = random_plan(random);
    const Record record = record_of_plan(plan_key(), plan);
    const std::string line = to_line(record);
    REQUIRE(check_line(line.substr(0, line.size() - 1)) == LineState::good);
    const auto by_line = LineReader().read(line.substr(0, line.size() - 1));
    const auto by_wisdom = read_wisdom(wisdom_text({std::make_shared<Record>(record)})).records;
    REQUIRE(by_line);
    REQUIRE(by_wisdom.size() == 1);
    for (const Record* read : std::initializer_list<const Record*>{by_line.get(), by_wisdom[0].get()}) {
      const std::optional<StoredPlan> found = plan_of(*read);
      REQUIRE(found);
      CHECK(found->chosen == plan.chosen);
      CHECK(found->computation == plan.computation);
      CHECK(found->communication == plan.communication);
      CHECK(found->time == plan.time);
      REQUIRE(found->options.size() == plan.options.size());
      for (std::size_t o = 0; o < plan.options.size(); ++o) {
        CHECK(found->options[o].name == plan.options[o].name);
        CHECK(found->options[o].forecast == plan.options[o].forecast);
        CHECK(found->options[o].measured == plan.options[o].measured);
      }
    }
  }
  CHECK(!plan_of(example_record(example_key())));
}

TEST_CASE("stores with plans are listed, verified, merged and repaired", "[records]") {
  const TemporaryFolder folder, other_folder;
  RecordStore store(folder.path()), other(other_folder.path());
  std::mt19937_64 random(fresh_seed());
  for (std::int64_t rows : {32, 64}) {
    const Record record = record_of_plan(plan_key(rows), random_plan(random));
    REQUIRE(store.append(record));
    REQUIRE(store.publish_best(record));
  }
  CHECK(cli::list_records(store, {}, {}) == 0);
  CHECK(cli::show_records(store, "collective_plan", {}) == 0);
  CHECK(cli::show_records(store, "collective_plan", {.json = true}) == 0);
  CHECK(cli::to_json_object(*store.best(plan_key()))["options"].size() == 3);
  CHECK(verify(store, Repair::no).damage.empty());
  CHECK(merge(other, folder.path()).bests == 2);
  CHECK(other.bests().size() == 2);
  CHECK(plan_of(*other.best(plan_key())));
  for (const fs::path& file : files_of(folder.path() / "best", ".json"))
    write_bytes(file, "{}\n");
  CHECK(verify(store, Repair::yes).damage.size() == 2);
  REQUIRE(store.best(plan_key()));
  CHECK(plan_of(*store.best(plan_key())));
}

TEST_CASE("kiln records why refers to the command that shows plans", "[records]") {
  const TemporaryFolder folder;
  std::mt19937_64 random(fresh_seed());
  RecordStore store(folder.path());
  REQUIRE(store.publish_best(record_of_plan(plan_key(), random_plan(random))));
  std::vector<std::string> arguments{"records",         "why",      "collective_plan",     "--shape",
                                     "ranks=2,rows=64", "--folder", folder.path().string()};
  std::vector<char*> argv;
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  CHECK_THROWS_WITH(cli::find_command("records")->run(static_cast<int>(argv.size()), argv.data()),
                    "collective_plan is not a kernel, but stands for plans; `kiln records show "
                    "collective_plan` prints them with their options");
}
