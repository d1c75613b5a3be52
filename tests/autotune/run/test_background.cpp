// Tests searches in the background and how they end with their process.
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

// Installs a command that never answers, so that a search waits a minute for it.
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

// Records a kernel that applies the sine to each element `times` times.
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

// The seed takes about sixty times as long as necessary.
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

// Returns the configs that a background search of only the seed offers in place of `present`.
std::vector<std::string> offered_instead_of(const Config& present) {
  std::vector<std::string> offered;
  tune::TuneOptions options;
  options.trials = 1;
  options.record = false;
  tune::search_in_background(
      // Another bucket for each config, since there is one search per bucket.
      tune::make_task(compared, "", *present.get("times") == 1 ? "N=20000" : "N=40000", Device::cpu()),
      present, options, [&](const Config& config) { offered.push_back(config.to_string()); });
  tune::finish_background();
  return offered;
}

std::filesystem::path given_folder() { return std::getenv("KILN_CACHE_DIR"); }

} // namespace

// Hidden because its process ends while a search waits; a test below runs it in a separate process.
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

TEST_CASE("the result of a background search is used only if it is faster than the present config") {
  const OwnCache cache;
  CHECK(offered_instead_of({{"times", 1}, {"BN", 256}}).empty());
  CHECK(offered_instead_of({{"times", 64}, {"BN", 256}}).size() == 1);
}

TEST_CASE("a program without the command gets one warning, whatever it launches") {
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

// Hidden because its process ends while a search waits; the next test runs it in a separate process.
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
  if (thread_sanitized) return; // ThreadSanitizer does not allow threads in a forked child
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

TEST_CASE("a forked child can end or search while its parent searches") {
  const OwnCache cache;
  // Memory of the parent's other threads looks leaked in a child, which does not have these threads.
  const ScopedVariable sanitizer("ASAN_OPTIONS", "detect_leaks=0");
  CHECK(exit_code_of_test("[forks_while_it_searches]", 150) == 0);
}

// Hidden because its process ends while a search records; the next test runs it in a separate process.
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

TEST_CASE("a process exits without waiting for its search") {
  const OwnCache cache;
  CHECK(exit_code_of_test("[ends_while_it_records]", 60) == 0);
  CHECK(exit_code_of_test("[ends_while_it_searches]", 40) == 0);
}
