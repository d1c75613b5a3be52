// Tests errors and interruptions of `kiln tune` before it measures anything.
#include <catch2/catch.hpp>

#include "autotune/own_cache.h"

#include <kiln/autotune/run/registry.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/kiln.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;

namespace {

KILN_DIM(BN);

const auto doubled = kernel("doubled", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.tile(i).load() * 2.0f);
});

// How often this process still sends itself Ctrl-C while rules are called.
std::atomic<int> interrupts{0};

const TunableKernel tunable{
    .name = "huge doubled",
    .summary = "y = 2 x",
    .dtypes = {DType::F32},
    .record = [](DType, const Problem&, const Config& config) { return doubled.record(config); },
    .space =
        [](DType, const Problem&, Device) {
          Space space;
          space.pow2("BN", 16, 128).range("a", 1, 1000).range("b", 1, 1000).range("c", 1, 1000);
          space.require("a is not b", [](const Choice& choice) {
            if (interrupts > 0 && interrupts-- > 0) std::raise(SIGINT);
            return choice["a"] != choice["b"];
          });
          space.seed({{"BN", 32}, {"a", 1}, {"b", 2}, {"c", 3}});
          return space;
        },
    .sizes = "N=100",
    .parameters = "x=N y=N",
};
const TunableRegistration registration(tunable);

void tune_huge_as_table() {
  std::vector<std::string> words{"tune", "huge doubled", "--quiet", "--table", "huge.json"};
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  cli::find_command("tune")->run(static_cast<int>(argv.size()), argv.data());
}

} // namespace

TEST_CASE("a table of more configs than can be measured is rejected", "[tune command]") {
  const OwnCache cache;
  CHECK_THROWS_WITH(tune_huge_as_table(),
                    "--table measures every config, but there are about 3996000000 of them; reduce the space "
                    "to at most 100000, or search it without --table");
  CHECK_FALSE(std::filesystem::exists("huge.json"));
}

TEST_CASE("Ctrl-C ends the counting of a table's configs", "[tune command]") {
  const OwnCache cache;
  interrupts = 1;
  CHECK_THROWS_WITH(tune_huge_as_table(), Contains("--table: interrupted while the configs were counted"));
}

TEST_CASE("a second Ctrl-C ends the process", "[tune command]") {
  const OwnCache cache;
  const pid_t child = fork();
  if (child == 0) {
    interrupts = 2;
    try {
      tune_huge_as_table();
    } catch (const Error&) {
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)); // exit code 130 in a shell
}
