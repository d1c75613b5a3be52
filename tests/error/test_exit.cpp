// Launches while the program ends: from the destructor of a static object, after all else is gone.
#include "error_test.h"

#include <kiln/ops/kiln.h>

#include <cstdio>
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
    TensorView<float, 2> matrix(y, {10, 10}), result(x, {10, 10});
    ops::matmul(stream, matrix, matrix, result);
    ops::softmax(stream, result, result);
    stream.synchronize();
    for (float v : y)
      if (v != 4) return 1;
    for (float v : x)
      if (v != 0.1f) return 2;
    return as_expected;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}

// Made before main and so destroyed behind everything that main made.
struct LaunchesAtExit {
  bool armed = false;
  ~LaunchesAtExit() {
    if (armed) _exit(launch_and_check());
  }
} at_exit;

} // namespace

TEST_CASE("a static object's destructor may launch, even first") {
  for (bool warm : {false, true}) {
    if (warm) REQUIRE(launch_and_check() == as_expected);
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      at_exit.armed = true;
      std::exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    INFO("wait status " << status);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == as_expected);
  }
}
