// Tests kernels that get their configs from the tuner: modes, lookups, searches, wisdom files.
#include "autotune/own_cache.h"
#include "autotune/row_sums.h"
#include "scoped_variable.h"

#include <kiln/autotune/records/database.h>
#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/recorder.h>
#include <kiln/dsl/raw.h>
#include <kiln/jit/base/log.h>

#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using Catch::Matchers::Contains;

TEST_CASE("without a search a tuned kernel uses its seed or the choice of the analytic model") {
  const OwnCache cache;
  const auto sums = row_sums("row sums by mode");
  Rows rows(37, 301);
  Stream stream;
  const auto off = tuned(sums, row_space(), with_mode(tune::Mode::off));
  CHECK(off.pick(stream, rows.x, rows.out).config.to_string() == "BM=4,BN=64");
  for (tune::Mode mode :
       {tune::Mode::off, tune::Mode::analytic, tune::Mode::cached, tune::Mode::deterministic}) {
    CAPTURE(tune::name(mode));
    const auto gemv = tuned(sums, row_space(), with_mode(mode));
    const tune::Picked picked = gemv.pick(stream, rows.x, rows.out);
    CHECK_FALSE(picked.known);
    if (mode == tune::Mode::deterministic) CHECK(picked.config.get("BN") == 64);
    rows.out.fill(NAN);
    gemv.launch(stream, rows.x, rows.out);
    stream.synchronize();
    rows.check();
  }
  const auto pinned = tuned(sums, row_space(), with_mode(tune::Mode::pinned));
  CHECK_THROWS_WITH(pinned.launch(stream, rows.x, rows.out),
                    Contains("row sums by mode") && Contains("M=37,N=301") && Contains("pinned") &&
                        Contains("records export"));
}

TEST_CASE("a config for which the kernel's code throws is not launched, and a search rejects it") {
  const OwnCache cache;
  const auto sums = kernel("row sums, that throw", [](View<const float, 2> x, View<float, 1> out) {
    if (value(BM) != 4 && value(BN) > 16) throw std::runtime_error("four rows only");
    if (value(BM) != 4) throw 4;
    auto [m] = program_tile(out, BM);
    auto total = for_range(BN, x.cols(), zeros<float>(BM),
                           [&](auto n, auto total) { return total + sum(x.tile(m, n).load(), BN); });
    out.tile(m).store(total);
  });
  Rows rows(37, 301);
  Stream stream;
  for (tune::Mode mode : {tune::Mode::off, tune::Mode::analytic, tune::Mode::cached, tune::Mode::tune,
                          tune::Mode::deterministic}) {
    CAPTURE(tune::name(mode));
    const auto gemv = tuned(sums, row_space(), with_mode(mode));
    rows.out.fill(NAN);
    gemv.launch(stream, rows.x, rows.out);
    stream.synchronize();
    rows.check();
    CHECK(gemv.pick(stream, rows.x, rows.out).config.get("BM") == 4);
  }
  tune::Filter filter;
  filter.kernel = "row sums, that throw";
  bool refused = false;
  for (const tune::Record& record : tune::RecordStore::standard().load(filter).records)
    refused |= record.result.error.find("threw for {") != std::string::npos;
  CHECK(refused);
}

TEST_CASE("KILN_TUNE is read when a tuned kernel is first used, and that call reports an error in it") {
  const OwnCache cache;
  Rows rows(8, 100);
  Stream stream;
  const ScopedVariable wrong("KILN_TUNE", "fast");
  tune::TunedOptions options;
  const auto sums = tuned(row_sums("row sums, made before main"), row_space(), options);
  CHECK_THROWS_WITH(sums.pick(stream, rows.x, rows.out), Contains("KILN_TUNE") && Contains("\"fast\""));
  const ScopedVariable right("KILN_TUNE", "pinned");
  CHECK_THROWS_WITH(sums.pick(stream, rows.x, rows.out), Contains("the tuner's mode is pinned"));
  const ScopedVariable late("KILN_TUNE", "off");
  CHECK_THROWS_WITH(sums.pick(stream, rows.x, rows.out), Contains("the tuner's mode is pinned"));
}

TEST_CASE("the integers of a kernel without views are its problem") {
  const OwnCache cache;
  const auto twice = kernel("twice, by pointers", [](raw::Ptr<float> p, Scalar<float> by, Scalar<int> n) {
    const auto i = program_id(0) * BN + arange(BN);
    raw::store(p + i, raw::load(p + i, i < n, 0.0f) * by, i < n);
  });
  tune::TunedOptions options;
  options.mode = tune::Mode::pinned; // so that the error names the problem
  const auto tuned_twice = tuned(twice, tune::Space().pow2(BN, 16, 64).seed({{"BN", 16}}), options);
  Stream stream;
  float x[48] = {};
  CHECK_THROWS_WITH(tuned_twice.pick(stream, x, 2.0f, 48), Contains("no config for arg2=48 f32.f32.i32 on"));
}

TEST_CASE(
    "the result of a search is used by later processes, for other sizes of the bucket, and in wisdom files") {
  const OwnCache cache;
  const auto sums = row_sums("row sums, searched");
  Rows rows(300, 1000), close(290, 996);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  options.buckets = tune::Bucketing::hybrid();
  const auto first = tuned(sums, row_space(), options);
  const tune::Tuning tuning = first.tune(stream, options.search, rows.x, rows.out);
  REQUIRE(tuning.found());
  CHECK(tuning.search.trials.size() >= 2);
  CHECK(tuning.search.trials.front().source == "seed");
  for (float v : rows.out)
    REQUIRE(std::isnan(v)); // a search does not touch the arguments
  CHECK(first.pick(stream, rows.x, rows.out).source == "tuned");

  const auto second = tuned(row_sums("row sums, searched"), row_space(), options); // as in another process
  const tune::Picked picked = second.pick(stream, close.x, close.out);
  CHECK(picked.source == "the database");
  CHECK(picked.known);
  CHECK_FALSE(picked.stale);
  CHECK(picked.config.to_string() == tuning.config().to_string());
  second.launch(stream, close.x, close.out);
  stream.synchronize();
  close.check();

  const std::string file = (cache.path() / "wisdom.json").string();
  CHECK(tune::export_wisdom(file, "row sums, searched") == 1);
  CHECK(tune::add_wisdom(file) == 1);
  options.mode = tune::Mode::pinned;
  const auto pinned = tuned(row_sums("row sums, searched"), row_space(), options);
  CHECK(pinned.pick(stream, rows.x, rows.out).source == "the program's wisdom");
  CHECK(pinned.pick(stream, rows.x, rows.out).config == tuning.config());

  // A space with other values has another key.
  tune::Space other = row_space();
  other.oneof("unroll", {1, 2});
  CHECK_FALSE(tuned(sums, other, with_mode(tune::Mode::cached)).pick(stream, rows.x, rows.out).known);
}

TEST_CASE("wisdom files include results that a search had no time to confirm") {
  const OwnCache cache;
  const auto sums = row_sums("row sums, unconfirmed");
  Rows rows(37, 301);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  options.search.record = false;
  const tune::Tuning tuning =
      tuned(sums, row_space(), options).tune(stream, options.search, rows.x, rows.out);
  tune::Recorder(*tuning.task, *tuning.space, {}).add_trials(tuning.search);
  REQUIRE(tune::RecordStore::standard().bests("row sums, unconfirmed").empty());

  const std::string file = (cache.path() / "unconfirmed.json").string();
  CHECK(tune::export_wisdom(file, "row sums, unconfirmed") == 1);
  CHECK(tune::add_wisdom(file) == 1);
  const auto pinned = tuned(sums, row_space(), with_mode(tune::Mode::pinned));
  CHECK(pinned.pick(stream, rows.x, rows.out).source == "the program's wisdom");
}

TEST_CASE("the error of mode pinned mentions a config that exists only for other silicon") {
  const OwnCache cache;
  const auto sums = row_sums("row sums, elsewhere");
  Rows rows(37, 301);
  Stream stream;
  const tune::TunedOptions options = with_mode(tune::Mode::cached);
  REQUIRE(tuned(sums, row_space(), options).tune(stream, options.search, rows.x, rows.out).found());
  tune::Filter filter;
  filter.kernel = "row sums, elsewhere";
  const auto bests = tune::export_winners(tune::RecordStore::standard(), filter);
  REQUIRE(bests.size() == 1);
  const auto key = std::make_shared<tune::RecordKey>(*bests[0]->key);
  key->silicon = "znver9:64K";
  const auto record = std::make_shared<tune::Record>(*bests[0]);
  record->key = key;
  tune::Database::standard().add_wisdom({record}, tune::Source::project);
  const auto pinned = tuned(sums, row_space(), with_mode(tune::Mode::pinned));
  CHECK_THROWS_WITH(
      pinned.pick(stream, rows.x, rows.out),
      Contains("pinned; there is one for other silicon, znver9:64K, and this is " + bests[0]->key->silicon));
}

TEST_CASE("threads get configs for more problems than a tuned kernel remembers") {
  const OwnCache cache;
  const auto sums = tuned(row_sums("row sums of many shapes"), row_space(), with_mode(tune::Mode::off));
  constexpr std::int64_t problems_each = 33'000; // it remembers 65536
  constexpr int thread_count = 2;
  std::atomic<std::int64_t> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      Stream stream;
      auto out = Tensor<float, 1>::empty({problems_each * thread_count});
      const float one = 1;
      for (std::int64_t i = 1; i <= problems_each; ++i) {
        const std::int64_t rows = t * problems_each + i;
        const tune::Picked picked = sums.pick(stream, TensorView<const float, 2>(&one, {rows, 1}, {0, 1}),
                                              TensorView<float, 1>(out.data(), {rows}));
        right += picked.config.get("BM") == 4;
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(right == problems_each * thread_count);
}

TEST_CASE("in mode tune a launch that finds nothing searches once") {
  const OwnCache cache;
  Rows rows(65, 129);
  Stream stream;
  const auto sums = tuned(row_sums("row sums, tuned at launch"), row_space(), with_mode(tune::Mode::tune));
  sums.launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  const tune::Picked picked = sums.pick(stream, rows.x, rows.out);
  CHECK(picked.source == "tuned");
  sums.launch(stream, rows.x, rows.out);
  stream.synchronize();
  CHECK(sums.pick(stream, rows.x, rows.out).config == picked.config);
}

TEST_CASE(
    "a kernel of raw pointers can be tuned, with a grid per config, if the sizes of the memory are given") {
  const OwnCache cache;
  const auto copy =
      kernel("copy, by pointers", [](raw::Ptr<const float> from, raw::Ptr<float> to, Scalar<int> n) {
        const auto i = program_id(0) * BN + arange(BN);
        raw::store(to + i, raw::load(from + i, i < n, 0.0f), i < n);
      });
  tune::TunedOptions options;
  options.mode = tune::Mode::cached;
  options.key = {{"n", 2}};
  options.grid = [](const Config& config, const tune::Problem& problem) -> Grid {
    const std::int64_t block = *config.get("BN");
    return {(problem["n"] + block - 1) / block};
  };
  const tune::Space space = tune::Space().pow2(BN, 16, 1024).seed({{"BN", 64}});
  const tune::TuneOptions few{.trials = 4, .seconds = 60, .strategy = "random"};
  Stream stream;
  constexpr int count = 1000;
  auto from = Tensor<float, 1>::empty({count}), to = Tensor<float, 1>::empty({count});
  for (int i = 0; i < count; ++i)
    from.data()[i] = static_cast<float>(i);
  const auto sizeless = tuned(copy, space, options);
  CHECK_THROWS_WITH(sizeless.tune(stream, few, from.data(), to.data(), count),
                    Contains("parameter 0 is a raw pointer") && Contains("TunedOptions::pointer_bytes"));
  options.pointer_bytes = [](const tune::Problem& problem) -> std::vector<std::int64_t> {
    return {4 * problem["n"], 4 * problem["n"]};
  };
  const auto sized = tuned(copy, space, options);
  const tune::Tuning tuning = sized.tune(stream, few, from.data(), to.data(), count);
  REQUIRE(tuning.found());
  CHECK(tuning.search.trials.size() == 4);
  for (const tune::Trial& trial : tuning.search.trials)
    CHECK(trial.result.ok());
  to.fill(NAN);
  sized.launch(stream, from.data(), to.data(), count);
  stream.synchronize();
  CHECK(std::equal(from.begin(), from.end(), to.begin()));
}

TEST_CASE("threads that launch the same problem in mode tune wait for one search") {
  const OwnCache cache;
  tune::TunedOptions options = with_mode(tune::Mode::tune);
  std::atomic<int> searches{0}, together{0};
  options.search.trials = 1; // so that progress is called once
  options.search.progress = [&](const tune::SearchResult&) {
    ++searches;
    return true;
  };
  const char* name = "row sums, for threads";
  const auto sums = tuned(row_sums(name), row_space(), options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Stream stream;
      Rows rows(77, 131);
      // One thread uses another handle, as another part of a program would.
      const auto own = t ? sums : tuned(row_sums(name), row_space(), options);
      own.launch(stream, rows.x, rows.out);
      stream.synchronize();
      together += own.pick(stream, rows.x, rows.out).known;
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(searches == 1);
  CHECK(together == 4);
}

TEST_CASE("a launch whose search fails warns once and uses the config that it would use without a search") {
  const OwnCache cache;
  const ScopedVariable command("KILN_COMMAND", "/nowhere/kiln");
  const auto sums = tuned(row_sums("row sums, unsearched"), row_space(), with_mode(tune::Mode::tune));
  Rows rows(66, 130), others(66, 131);
  Stream stream;
  const LogCapture log;
  for (Rows* r : {&rows, &rows, &others}) {
    sums.launch(stream, r->x, r->out);
    stream.synchronize();
    r->check();
  }
  CHECK_FALSE(sums.pick(stream, rows.x, rows.out).known);
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines()[0],
             Contains("KILN_COMMAND is /nowhere/kiln") && Contains("continuing as in mode cached"));
  // There is no second attempt, although it would now find the command.
  unsetenv("KILN_COMMAND");
  sums.launch(stream, rows.x, rows.out);
  CHECK_FALSE(sums.pick(stream, rows.x, rows.out).known);
}

TEST_CASE("in mode online launches continue during a search and then use its result") {
  const OwnCache cache;
  Rows rows(64, 2000);
  Stream stream;
  const auto sums = tuned(row_sums("row sums, tuned online"), row_space(), with_mode(tune::Mode::online));
  sums.launch(stream, rows.x, rows.out);
  CHECK_FALSE(sums.pick(stream, rows.x, rows.out).known);
  for (int i = 0; i < 20; ++i)
    sums.launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  tune::finish_background();
  // The seed may be the best config, so check only that the search was recorded.
  const auto again = tuned(row_sums("row sums, tuned online"), row_space(), with_mode(tune::Mode::cached));
  CHECK(again.pick(stream, rows.x, rows.out).known);
}

TEST_CASE("a config that was found with other tool versions is confirmed with at most eight trials") {
  const OwnCache cache;
  const tune::Mode mode = GENERATE(tune::Mode::online, tune::Mode::tune);
  CAPTURE(tune::name(mode));
  const std::string name = std::string("row sums, of other tools, ") + tune::name(mode);
  Rows rows(100, 2000);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  options.search.trials = 1;
  options.search.cold = false; // with cold caches a slow config is not much slower
  tuned(row_sums(name.c_str()), row_space(), options).tune(stream, options.search, rows.x, rows.out);
  const auto found = tune::RecordStore::standard().bests(name);
  REQUIRE(found.size() == 1);
  tune::Record other = *found[0];
  auto key = std::make_shared<tune::RecordKey>(*other.key);
  key->tools.llvm = "1.0";
  other.key = key;
  other.config = "BM=1,BN=16";
  tune::Database::standard().publish(other);

  options = with_mode(mode);
  options.search.trials = 30;
  options.search.cold = false;
  std::size_t trials = 0;
  options.search.progress = [&](const tune::SearchResult& so_far) {
    trials = so_far.trials.size();
    return true;
  };
  const auto sums = tuned(row_sums(name.c_str()), row_space(), options);
  const tune::Picked before = sums.pick(stream, rows.x, rows.out);
  CHECK(before.stale);
  CHECK(before.config.to_string() == "BM=1,BN=16");
  sums.launch(stream, rows.x, rows.out);
  tune::finish_background();
  CHECK(trials > 1);
  CHECK(trials <= 8);
  const tune::Picked picked = sums.pick(stream, rows.x, rows.out);
  CHECK(picked.source == "tuned");
  CHECK_FALSE(picked.config == before.config); // a row at a time, in parts of 16, is slow
  // A config from a background search has been compiled already.
  std::optional<ScopedCompilePolicy> policy;
  if (mode == tune::Mode::online) policy.emplace(CompilePolicy::forbid);
  const CompileStatistics before_launch = compile_statistics();
  sums.launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  if (mode == tune::Mode::online) CHECK(compile_statistics().disk_hits == before_launch.disk_hits);
}

TEST_CASE(
    "a config that older rules of verification confirmed is not used until a search confirms it again") {
  const OwnCache cache;
  const char* name = "row sums, of older rules";
  Rows rows(90, 1500);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  options.search.trials = 2;
  tuned(row_sums(name), row_space(), options).tune(stream, options.search, rows.x, rows.out);
  const auto found = tune::RecordStore::standard().bests(name);
  REQUIRE(found.size() == 1);
  CHECK(found[0]->key->tools.verification == tune::verification_version);
  tune::Record older = *found[0];
  auto key = std::make_shared<tune::RecordKey>(*older.key);
  key->tools.verification = 0; // as in a record that does not name the rules
  older.key = key;
  older.config = "BM=32,BN=16";
  tune::Database::standard().publish(older);

  const auto picked_in = [&](tune::Mode mode) {
    return tuned(row_sums(name), row_space(), with_mode(mode)).pick(stream, rows.x, rows.out);
  };
  for (tune::Mode mode : {tune::Mode::cached, tune::Mode::deterministic, tune::Mode::tune}) {
    CAPTURE(tune::name(mode));
    CHECK_FALSE(picked_in(mode).known);
    CHECK_FALSE(picked_in(mode).config.to_string() == older.config);
  }
  CHECK(picked_in(tune::Mode::cached).stale);
  Rows close(92, 1500); // its neighbour is not used either
  CHECK(tuned(row_sums(name), row_space(), with_mode(tune::Mode::cached))
            .pick(stream, close.x, close.out)
            .source.find("the database") == std::string::npos);

  options = with_mode(tune::Mode::tune);
  options.search.strategy = "learned";
  std::size_t trials = 0;
  bool tried = false;
  options.search.progress = [&](const tune::SearchResult& so_far) {
    trials = so_far.trials.size();
    for (const tune::Trial& trial : so_far.trials)
      tried |= tune::config_text(row_space().knobs(), trial.point) == older.config;
    return true;
  };
  tuned(row_sums(name), row_space(), options).launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  CHECK(tried); // it is a starting point
  CHECK(trials <= 8);
  CHECK(picked_in(tune::Mode::cached).known);
}

TEST_CASE("if compiling is forbidden, mode online keeps the compiled config") {
  const OwnCache cache;
  const auto kernel = row_sums("row sums, of a service");
  tune::Space space;
  space.pow2(BM, 1, 32).pow2(BN, 16, 512).seed({{"BM", 1}, {"BN", 16}}); // slow
  Rows rows(1000, 2000);
  Stream stream;
  const auto sums = tuned(kernel, space, with_mode(tune::Mode::online));
  const tune::Picked before =
      tuned(kernel, space, with_mode(tune::Mode::cached)).pick(stream, rows.x, rows.out);
  kernel.launch(stream, before.config, rows.x, rows.out);
  const ScopedCompilePolicy policy(CompilePolicy::forbid);
  const LogCapture log; // captures the warning that the policy forbids a search
  for (int i = 0; i < 2; ++i) {
    sums.launch(stream, rows.x, rows.out);
    stream.synchronize();
    rows.check();
    tune::finish_background();
  }
  CHECK(sums.pick(stream, rows.x, rows.out).config == before.config);
}

TEST_CASE("a deterministic search keeps the seed's order of additions") {
  const OwnCache cache;
  Rows rows(128, 700);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::deterministic);
  const auto sums = tuned(row_sums("row sums, one order"), row_space(), options);
  const tune::Tuning tuning = sums.tune(stream, options.search, rows.x, rows.out);
  for (const tune::Trial& trial : tuning.search.trials)
    CHECK(tuning.space->config(trial.point).get("BN") == 64);
}

TEST_CASE("a search learns from the records of another problem") {
  const OwnCache cache;
  Rows first(40, 200), second(64, 300);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  const auto sums = tuned(row_sums("row sums, taught"), row_space(), options);
  const auto first_tuning = sums.tune(stream, options.search, first.x, first.out);
  CHECK(first_tuning.sibling_records == 0);
  const auto second_tuning = sums.tune(stream, options.search, second.x, second.out);
  // The records contain all trials, and the confirmed ones twice.
  CHECK(second_tuning.sibling_records >= first_tuning.search.trials.size());
}

TEST_CASE("a known better config stays in use until a search has measured it") {
  const OwnCache cache;
  Rows rows(50, 240);
  Stream stream;
  tune::TunedOptions options = with_mode(tune::Mode::cached);
  const auto sums = tuned(row_sums("row sums, known"), row_space(), options);
  options.search.trials = 1; // which is the seed
  const auto seed_alone = sums.tune(stream, options.search, rows.x, rows.out);
  tune::Database& known = tune::Database::standard();
  const auto bests = known.store().bests("row sums, known");
  REQUIRE(bests.size() == 1);
  CHECK(bests[0]->config == "BM=4,BN=64");
  tune::Record faster = *bests[0];
  faster.config = "BM=1,BN=512";
  faster.result.seconds = 1e-12;
  REQUIRE(known.publish(faster));
  sums.tune(stream, options.search, rows.x, rows.out);
  CHECK(known.store().best(*faster.key)->config == "BM=1,BN=512");
  options.search.trials = 128; // more than the space has, so that the search measures all
  options.search.seconds = 900;
  const auto all = sums.tune(stream, options.search, rows.x, rows.out);
  REQUIRE(all.search.trials.size() == 36);
  CHECK(known.store().best(*faster.key)->result.seconds > 1e-12);
}

TEST_CASE("an invalid space or key is reported with the source location of the tuned kernel") {
  const auto sums = row_sums("row sums, refused");
  tune::Space seedless;
  seedless.pow2(BM, 1, 8).pow2(BN, 16, 64);
  CHECK_THROWS_WITH(tuned(sums, seedless), Contains("test_tuned.cpp") && Contains("no seed"));
  tune::TunedOptions options;
  options.key = {{"M", 2, 0}};
  CHECK_THROWS_WITH(tuned(sums, row_space(), options), Contains("\"M\"") && Contains("parameter 2"));
  options.key = {{"M", 0, 2}};
  CHECK_THROWS_WITH(tuned(sums, row_space(), options), Contains("axis 2 of parameter 0"));
  CHECK_THROWS_WITH(tune::parse_mode("fast", "KILN_TUNE"), Contains("KILN_TUNE") && Contains("pinned"));
}
