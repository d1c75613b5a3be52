// Tests launches while the program ends, from the destructor of a static object that is destroyed last.
#include "error_test.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BN);

constexpr int as_expected = 42;

int launch_and_check(float factor) {
  try {
    std::vector<float> x(100, 2), y(100);
    Stream stream;
    const auto scaled = kernel("launched_at_exit", [factor](View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      y.tile(i).store(x.tile(i).load() * factor + 0.f);
    });
    scaled.launch(stream, {BN = 64}, TensorView(x), TensorView(y));
    stream.synchronize();
    for (float v : y)
      if (v != 2 * factor) return 1;
    return as_expected;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}

constexpr const char* variable = "KILN_TEST_LAUNCH_AT_EXIT";

bool asked_for(const char* what) {
  const char* asked = std::getenv(variable);
  return asked && std::string_view(asked).find(what) != std::string_view::npos;
}

// An object that is created before main, and therefore destroyed after everything that main creates.
struct LaunchesAtExit {
  const bool armed = asked_for("end");
  ~LaunchesAtExit() {
    if (armed) _exit(launch_and_check(2));
  }
} at_exit;

// Launches before main, but after `at_exit` was created, so that LLVM's static objects are younger than it.
struct LaunchesAtStart {
  LaunchesAtStart() {
    if (asked_for("start") && launch_and_check(3) != as_expected) _exit(4);
  }
} at_start;

void check_child(const char* launches) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) { // runs this program again, without any test
    setenv(variable, launches, 1);
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // so that it has to compile
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

} // namespace

TEST_CASE("a static object's destructor may be the first to launch") { check_child("end"); }

TEST_CASE("a static object's destructor may compile though kernels were compiled before") {
  check_child("start end");
}
