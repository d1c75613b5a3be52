// Tests tuning runs that end early: without a legal seed, without time, by interruption or by a signal.
#include "autotune/other_process.h"
#include "autotune/own_cache.h"
#include "autotune/row_sums.h"

#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/task.h>

using namespace kiln;
using namespace kiln::test;
using Catch::Matchers::Contains;

namespace {

tune::Tuning tune_in(const char* name, const tune::Space& space, tune::TuneOptions options = {}) {
  Rows rows(37, 301);
  Stream stream;
  if (options.trials == 0) options.trials = 6;
  return tuned(row_sums(name), space, with_mode(tune::Mode::cached)).tune(stream, options, rows.x, rows.out);
}

std::vector<tune::Record> records_of(const char* kernel) {
  tune::Filter filter;
  filter.kernel = kernel;
  return tune::RecordStore::standard().load(filter).records;
}

} // namespace

TEST_CASE("a space without a legal seed is an error that gives the reason") {
  const OwnCache cache;
  tune::Space empty = row_space();
  empty.require("nothing is small enough", [](const tune::Choice& c) { return c[BM] < 1; });
  CHECK_THROWS_WITH(tune_in("row sums, empty", empty),
                    Contains("no config satisfies all rules") && Contains("\"nothing is small enough\""));
  tune::Space contradictory = row_space();
  contradictory.require("low", [](const tune::Choice& c) { return c[BM] < 4; })
      .require("high", [](const tune::Choice& c) { return c[BM] > 3; });
  CHECK_THROWS_WITH(tune_in("row sums, contradictory", contradictory),
                    Contains("contradict each other") && Contains("\"low\" rejects the first"));
  tune::Space badly_seeded = row_space();
  badly_seeded.require("many rows", [](const tune::Choice& c) { return c[BM] > 4; });
  CHECK_THROWS_WITH(
      tune_in("row sums, badly seeded", badly_seeded),
      Contains("no seed satisfies the rules of the space (\"many rows\" rejects the first); give"));
  tune::Space illegal;
  illegal.pow2(BM, 1, 1 << 20).pow2(BN, 16, 1 << 20).seed({{"BM", 1 << 20}, {"BN", 1 << 20}});
  CHECK_THROWS_WITH(tune_in("row sums, illegal", illegal),
                    Contains("no seed is legal on cpu: {BM=1048576,BN=1048576}: "));
  CHECK(records_of("row sums, empty").empty());
}

TEST_CASE("a space of one point is measured once, and is its winner") {
  const OwnCache cache;
  tune::Space space;
  space.oneof(BM, {4}).oneof(BN, {64}).seed({{"BM", 4}, {"BN", 64}});
  const tune::Tuning tuning = tune_in("row sums, one point", space);
  CHECK(tuning.search.trials.size() == 1);
  CHECK(tuning.search.stopped_by == "one point");
  CHECK(tuning.search.is_confirmed(*tuning.search.best));
  CHECK(tuning.config().to_string() == "BM=4,BN=64");
}

TEST_CASE("if the first seed is illegal, the next one is the fallback") {
  const OwnCache cache;
  tune::Space space;
  space.pow2(BM, 1, 1 << 20).pow2(BN, 16, 1 << 20);
  space.seed({{"BM", 1 << 20}, {"BN", 1 << 20}}).seed({{"BM", 2}, {"BN", 32}});
  const tune::Tuning tuning = tune_in("row sums, second seed", space, {.trials = 2, .strategy = "random"});
  REQUIRE(tuning.fallback);
  CHECK(tuning.space->text(*tuning.fallback) == "BM=2,BN=32");
  CHECK(tuning.found());
}

TEST_CASE("a run that is interrupted keeps its trials and publishes nothing") {
  const OwnCache cache;
  tune::TuneOptions options;
  options.trials = 40;
  options.strategy = "random";
  options.progress = [](const tune::SearchResult&) {
    tune::interrupt_tuning(); // as a signal handler does
    return true;
  };
  const tune::Tuning tuning = tune_in("row sums, interrupted", row_space(), options);
  CHECK(tuning.search.stopped_by == "interrupted");
  REQUIRE(tuning.found());
  CHECK(tuning.search.confirmed.empty());
  CHECK_FALSE(tuning.search.is_confirmed(*tuning.search.best));
  CHECK(tuning.search.trials.size() >= 1);
  CHECK(tuning.search.trials.size() < 40);
  CHECK(records_of("row sums, interrupted").size() == tuning.search.trials.size());
  CHECK(tune::RecordStore::standard().bests("row sums, interrupted").empty());

  // Its best trial is used, but is marked as unconfirmed.
  Rows rows(37, 301);
  Stream stream;
  const auto sums = tuned(row_sums("row sums, interrupted"), row_space(), with_mode(tune::Mode::cached));
  const tune::Picked picked = sums.pick(stream, rows.x, rows.out);
  CHECK(picked.known);
  CHECK(picked.stale);
  CHECK(picked.config == tuning.config());
}

TEST_CASE("an interruption between the beginning of a run and its search ends the run") {
  const OwnCache cache;
  tune::TuneOptions options;
  options.interruptions_before = tune::interruptions();
  tune::interrupt_tuning();
  const tune::Tuning tuning = tune_in("row sums, interrupted early", row_space(), options);
  CHECK(tuning.search.stopped_by == "interrupted");
  CHECK(tuning.search.trials.empty());
  CHECK_FALSE(tuning.found());
}

TEST_CASE("a run that has no time to measure the default reports that") {
  const OwnCache cache;
  std::vector<std::string> heard;
  tune::TuneOptions options;
  options.seconds = 0.005; // starting a process takes longer
  options.announce = [&](const std::string& what) { heard.push_back(what); };
  const tune::Tuning tuning = tune_in("row sums, no time", row_space(), options);
  CHECK(heard == std::vector<std::string>{"measuring the default {BM=4,BN=64}"});
  CHECK(tuning.search.stopped_by == "seconds");
  CHECK(tuning.search.trials.empty());
  CHECK_THROWS_WITH(tuning.config(), Contains("the budget of 0.005 s ended before the default was measured"));
  CHECK(records_of("row sums, no time").empty());
}

TEST_CASE("a run that is interrupted before its first process ends without a trial") {
  const OwnCache cache;
  tune::Space space = row_space();
  space.require("called while the space is counted", [](const tune::Choice& c) {
    tune::interrupt_tuning();
    return c[BM] > 0;
  });
  const tune::Tuning tuning = tune_in("row sums, interrupted early", space);
  CHECK(tuning.search.stopped_by == "interrupted");
  CHECK(tuning.search.trials.empty());
  CHECK_FALSE(tuning.found());
  CHECK_THROWS_WITH(tuning.config(), Contains("no config worked"));
}

TEST_CASE("a run that is interrupted while it samples a large space stops sampling") {
  const OwnCache cache;
  static std::atomic<int> asked, at_interrupt;
  asked = at_interrupt = 0;
  tune::Space space;
  space.range(BM, 1, 2000).range(BN, 1, 2000).seed({{"BM", 4}, {"BN", 64}});
  space.require("most of them", [](const tune::Choice& c) {
    constexpr int counted = 3'000'000; // by then the counting has ended or was given up
    if (++asked == counted) tune::interrupt_tuning(), at_interrupt = counted;
    return c[BM] * c[BN] < 3'000'000;
  });
  tune::TuneOptions options;
  options.seconds = 3600; // a tenth may be used for sampling, which sanitizers slow down
  const tune::Tuning tuning = tune_in("row sums, interrupted draws", space, options);
  CHECK(tuning.search.stopped_by == "interrupted");
  REQUIRE(at_interrupt > 0);
  CHECK(asked - at_interrupt < 5'000'000); // 4096 samples would take two hundred million calls
}

TEST_CASE("a search of a large space learns from other problems too") {
  const OwnCache cache;
  tune::Space space;
  space.range(BM, 1, 8).range(BN, 1, 600).seed({{"BM", 4}, {"BN", 64}});
  const auto sums = tuned(row_sums("row sums, large space"), space, with_mode(tune::Mode::cached));
  Stream stream;
  Rows few(37, 301), more(64, 512);
  const tune::Tuning first =
      sums.tune(stream, {.trials = 28, .strategy = "random", .cold = false}, few.x, few.out);
  CHECK_FALSE(first.space->points(4096));
  CHECK(first.sibling_records == 0);
  const tune::Tuning second = sums.tune(stream, {.trials = 8, .cold = false}, more.x, more.out);
  CHECK(second.sibling_records >= 24);
  CHECK(second.search.model_seconds > 0);
  CHECK(second.found());
}

// Hidden because it kills its process; the next test runs it in a separate process.
TEST_CASE("is killed during a batch", "[.][is_killed_amid_a_batch]") {
  tune::TuneOptions options;
  options.trials = 40;
  options.progress = [](const tune::SearchResult& so_far) {
    if (so_far.trials.size() == 3) raise(SIGKILL);
    return true;
  };
  tune_in("row sums, killed", row_space(), options);
}

TEST_CASE("a tuner that is killed leaves the records of its trials, also in the middle of a batch") {
  const OwnCache cache;
  CHECK(exit_code_of_test("[is_killed_amid_a_batch]", 60) == -1);
  CHECK(records_of("row sums, killed").size() == 3);
}
