// Searches in the background: how they end with their process.
#include "autotune/other_process.h"
#include "autotune/own_cache.h"
#include "autotune/row_sums.h"
#include "scoped_variable.h"

#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/sanitized.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using Catch::Matchers::Contains;

namespace {

// A command that never says anything, so that a search waits for it for a minute.
void use_silent_command(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "silent";
  std::ofstream(path) << "#!/bin/sh\n: >\"" << (folder / "asked").string() << "\"\nexec sleep 600\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  setenv("KILN_COMMAND", path.c_str(), 1);
}

// Returns once a search waits for the silent command.
void wait_until_asked(const std::filesystem::path& folder) {
  while (!std::filesystem::exists(folder / "asked"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// The sine of each element, taken so often.
std::shared_ptr<ir::Kernel> record_sines(const Config& config) {
  const std::int64_t times = config.get("times").value_or(1);
  const auto sines = kernel("sines, compared", [times](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    Tile<float, BN> t = x.tile(i).load();
    for (std::int64_t s = 0; s < times; ++s)
      t = sin(t);
    out.tile(i).store(where(t == t, x.tile(i).load(), t));
  });
  auto recorded = sines.record({});
  recorded->config_specific = true;
  recorded->recorded_with = config;
  return recorded;
}

// Whose seed takes sixty times as long as it must.
const tune::TunableKernel compared{
    .name = "sines, compared",
    .summary = "out = x, after many sines",
    .dtypes = {DType::F32},
    .record = [](DType, const tune::Problem&, const Config& config) { return record_sines(config); },
    .space =
        [](DType, const tune::Problem&, Device) {
          tune::Space space;
          return space.oneof("times", {1, 64}).oneof(BN, {256, 1024}).seed({{"times", 64}, {"BN", 256}});
        },
    .sizes = "N=20000",
    .parameters = "x=N out=N",
};

// What a search in the background that tries the seed alone has to offer.
std::vector<std::string> offered_instead_of(const Config& present) {
  std::vector<std::string> offered;
  tune::TuneOptions options;
  options.trials = 1;
  options.record = false;
  tune::search_in_background(
      tune::make_task(compared, "", "N=" + std::to_string(20'000 + *present.get("times")), Device::cpu()),
      present, options, [&](const Config& config) { offered.push_back(config.to_string()); });
  tune::finish_background();
  return offered;
}

std::filesystem::path given_folder() { return std::getenv("KILN_CACHE_DIR"); }

} // namespace

// Hidden, since its process ends while a search waits: a test below runs it in one of its own.
TEST_CASE("ends while it searches", "[.][ends_while_it_searches]") {
  use_silent_command(given_folder());
  Rows rows(64, 500);
  Stream stream;
  tuned(row_sums("row sums, left"), row_space(), with_mode(tune::Mode::online))
      .launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  wait_until_asked(given_folder());
}

TEST_CASE("what a search in the background finds is used only if it is faster than what is used now") {
  const OwnCache cache;
  CHECK(offered_instead_of({{"times", 1}, {"BN", 256}}).empty());
  CHECK(offered_instead_of({{"times", 64}, {"BN", 256}}).size() == 1);
}

TEST_CASE("a program without the command hears of it once, whatever it launches") {
  const OwnCache cache;
  const ScopedVariable command("KILN_COMMAND", "/nowhere/kiln");
  const auto sums = tuned(row_sums("row sums, alone"), row_space(), with_mode(tune::Mode::online));
  Stream stream;
  const LogCapture log;
  for (std::int64_t size : {90, 91, 92}) {
    Rows rows(size, size);
    sums.launch(stream, rows.x, rows.out);
    stream.synchronize();
    rows.check();
  }
  tune::finish_background();
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines()[0], Contains("tuning in the background: KILN_COMMAND is /nowhere/kiln"));
}

// Hidden, since its process ends while a search waits: the next test runs it in one of its own.
TEST_CASE("forks while it searches", "[.][forks_while_it_searches]") {
  use_silent_command(given_folder());
  Rows rows(64, 501);
  Stream stream;
  tuned(row_sums("row sums, of the parent"), row_space(), with_mode(tune::Mode::online))
      .launch(stream, rows.x, rows.out);
  stream.synchronize();
  wait_until_asked(given_folder());
  const auto ends_in_a_child = [](auto use) {
    const pid_t child = fork();
    if (child == 0) {
      use();
      std::exit(0);
    }
    return exit_code_of(child, 60) == 0;
  };
  CHECK(ends_in_a_child([] {}));
  if (thread_sanitized) return; // it allows a forked child no threads
  CHECK(ends_in_a_child([] {
    unsetenv("KILN_COMMAND");
    Rows rows(64, 502);
    Stream stream;
    const char* name = "row sums, of the child";
    tuned(row_sums(name), row_space(), with_mode(tune::Mode::online)).launch(stream, rows.x, rows.out);
    stream.synchronize();
    tune::finish_background();
    const auto again = tuned(row_sums(name), row_space(), with_mode(tune::Mode::cached));
    if (!again.pick(stream, rows.x, rows.out).known) std::_Exit(1);
  }));
}

TEST_CASE("a forked child ends, and searches, while its parent does") {
  const OwnCache cache;
  // What the parent's other threads hold looks lost in a child, which has none of them.
  const ScopedVariable sanitizer("ASAN_OPTIONS", "detect_leaks=0");
  CHECK(exit_code_of_test("[forks_while_it_searches]", 150) == 0);
}

// Hidden, since its process ends while a search records: the next test runs it in one of its own.
TEST_CASE("ends while it records", "[.][ends_while_it_records]") {
  Rows rows(64, 503);
  Stream stream;
  static std::atomic<bool> measured{false};
  tune::TunedOptions options = with_mode(tune::Mode::online);
  options.search.trials = 36;
  options.search.progress = [](const tune::SearchResult&) {
    measured = true;
    return true;
  };
  tuned(row_sums("row sums, left with trials"), row_space(), options).launch(stream, rows.x, rows.out);
  stream.synchronize();
  while (!measured)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("a process that ends does not wait for its search") {
  const OwnCache cache;
  CHECK(exit_code_of_test("[ends_while_it_records]", 60) == 0);
  CHECK(exit_code_of_test("[ends_while_it_searches]", 40) == 0);
}
