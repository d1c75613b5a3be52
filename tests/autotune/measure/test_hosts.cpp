// Tests that measuring and assembling do not depend on what a program does with its child processes.
#include "autotune/other_process.h"
#include "measured.h"

#include <kiln/jit/gpu/ptxas.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include <sys/wait.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

// While it lives, the kernel removes ended children of this process at once.
class IgnoresChildren {
public:
  IgnoresChildren() { before_ = std::signal(SIGCHLD, SIG_IGN); }
  ~IgnoresChildren() { std::signal(SIGCHLD, before_); }

private:
  sighandler_t before_;
};

// While it lives, a thread waits for any child of this process and takes its status.
class TakesChildren {
public:
  TakesChildren()
      : thread_([this] {
          while (!stop_)
            if (waitpid(-1, nullptr, WNOHANG) <= 0) std::this_thread::yield();
        }) {}
  ~TakesChildren() {
    stop_ = true;
    thread_.join();
  }

private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Measurement measure_with(const std::string& fault) {
  constexpr std::int64_t side = 48;
  BoundSpace space(matmul_space(), {.sizes = {{"M", side}, {"N", side}, {"K", side}}, .kind = "f32"},
                   Device::cpu());
  MeasureOptions options = quick_options();
  options.check_reference = false;
  if (!fault.empty()) options.faults = {1, {fault}};
  const Config fallback = Config::parse("BM=32,BN=32,BK=32");
  LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
  const auto results = measurer.measure(std::vector<Point>{*space.point(fallback)});
  REQUIRE(results.size() == 1);
  return results[0];
}

void check_workers() {
  CHECK(measure_with("").ok());
  const Stopwatch watch;
  const Measurement crashed = measure_with("crash");
  CHECK(crashed.status == Status::crash);
  if (!sanitized) CHECK_THAT(crashed.error, Catch::Contains("killed by signal 11"));
  CHECK(watch.seconds() < 30);
}

void check_assembler() {
  CHECK(gpu::assemble("right", "sm_80").ok);
  const gpu::Assembled wrong = gpu::assemble("wrong", "sm_80");
  CHECK_FALSE(wrong.ok);
  CHECK(wrong.log == "it is wrong\n");
}

} // namespace

TEST_CASE("workers are measured and crash in the same way in every program") {
  SECTION("that ignores SIGCHLD") {
    const IgnoresChildren host;
    check_workers();
  }
  SECTION("that waits for all children") {
    const TakesChildren host;
    check_workers();
  }
}

// Hidden because the path of ptxas is determined once in a process; the next test runs it in another one.
TEST_CASE("assembles in every program", "[.][assembles_in_every_program]") {
  check_assembler();
  {
    const IgnoresChildren host;
    check_assembler();
  }
  const TakesChildren host;
  check_assembler();
}

TEST_CASE("ptxas gives the same results in every program") {
  const TemporaryFolder folder;
  const std::filesystem::path ptxas = folder.path() / "ptxas";
  // It writes an object in both cases, so that only its exit code distinguishes them.
  std::ofstream(ptxas) << "#!/bin/sh\nprintf '\\177ELF' > \"$6\"\ngrep -q wrong \"$4\" || exit 0\n"
                          "echo it is wrong\nexit 1\n";
  std::filesystem::permissions(ptxas, std::filesystem::perms::owner_all);
  const ScopedVariable variable("KILN_PTXAS", ptxas.c_str());
  CHECK(exit_code_of_test("[assembles_in_every_program]", 60) == 0);
}
