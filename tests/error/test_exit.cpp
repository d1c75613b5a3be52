// Launches while the program ends: from the destructor of a static object, after all else is gone.
#include "error_test.h"

#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BN);

constexpr int as_expected = 42;

int launch_and_check() {
  try {
    std::vector<float> x(100, 2), y(100);
    Stream stream;
    const auto twice = kernel("launched_at_exit", [](View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      y.tile(i).store(x.tile(i).load() * 2.f + 0.f);
    });
    twice.launch(stream, {BN = 64}, TensorView(x), TensorView(y));
    stream.synchronize();
    for (float v : y)
      if (v != 4) return 1;
    return as_expected;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}

constexpr const char* variable = "KILN_TEST_LAUNCH_AT_EXIT";

// Made before main and so destroyed behind everything that main made.
struct LaunchesAtExit {
  const bool armed = std::getenv(variable) != nullptr;
  ~LaunchesAtExit() {
    if (armed) _exit(launch_and_check());
  }
} at_exit;

} // namespace

TEST_CASE("a static object's destructor may be the first to launch") {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) { // this program again, which does nothing but end
    setenv(variable, "1", 1);
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // so that it compiles
    setenv("KILN_LOG", "error", 1);
    if (freopen("/dev/null", "w", stdout)) execl("/proc/self/exe", "api_tests", "-h", nullptr);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  INFO("wait status " << status);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == as_expected);
}
