// Tests compiled kernels in tools: unwinding, perf's map, gdb.
#include <catch2/catch.hpp>

#include "jit/cpu/cpu_runner.h"

#include <kiln/jit/base/options.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace kiln;
using kiln::test::CpuKernel;

namespace {

std::unique_ptr<ir::Kernel> debug_me() {
  std::string path = KILN_TESTS_DIR "/jit/debug_me.kir";
  std::ifstream file(path);
  REQUIRE(file);
  return ir::parse(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

// A kernel that computes y = 3 x over 100 elements and prints where each program starts.
struct ScaleLaunch {
  std::vector<float> x = std::vector<float>(100, 2.0f), y = std::vector<float>(100, -1.0f);
  void* return_address = nullptr; // return address of `run`

  __attribute__((noinline)) void run(const CpuKernel& kernel) {
    return_address = __builtin_return_address(0);
    std::uint32_t factor;
    float three = 3;
    std::memcpy(&factor, &three, sizeof factor);
    const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(x.data()), 100, 1, factor,
                                   reinterpret_cast<std::uint64_t>(y.data()), 100, 1};
    kernel.run(words, {2});
  }
  bool right() const {
    return std::all_of(y.begin(), y.end(), [](float v) { return v == 6; });
  }
};

// The stack that the unwinder found when the kernel printed.
struct Stack {
  std::vector<void*> frames;
  static ssize_t write(void* self, const char*, std::size_t size) {
    void* found[100];
    int count = backtrace(found, 100);
    static_cast<Stack*>(self)->frames.assign(found, found + count);
    return static_cast<ssize_t>(size);
  }
};

} // namespace

TEST_CASE("the unwinder walks through a kernel's frame to its caller", "[visibility]") {
  bool line_info = GENERATE(false, true);
  CpuKernel kernel(*debug_me(), {}, {}, {.line_info = line_info});
  ScaleLaunch launch;
  Stack stack;
  std::fflush(stdout);
  FILE* real = stdout;
  FILE* watched =
      fopencookie(&stack, "w", {.read = nullptr, .write = &Stack::write, .seek = nullptr, .close = nullptr});
  REQUIRE(watched);
  stdout = watched;
  launch.run(kernel);
  std::fflush(watched);
  stdout = real;
  std::fclose(watched);
  CHECK(launch.right());
  CHECK(std::count(stack.frames.begin(), stack.frames.end(), launch.return_address) == 1);
}

TEST_CASE("with KILN_PERF each kernel is in the map that perf reads, under its name", "[visibility]") {
  Options with_perf = options();
  with_perf.perf = true;
  ScopedOptions scope(with_perf);
  CpuKernel kernel(*debug_me(), {});
  auto address = reinterpret_cast<std::uint64_t>(kernel.code->entry());
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::ifstream map(path);
  int found = 0;
  for (std::string line; std::getline(map, line);) {
    std::istringstream words(line);
    std::uint64_t start = 0, size = 0;
    std::string name;
    words >> std::hex >> start >> size >> name;
    if (start != address) continue;
    ++found;
    CHECK(size > 0);
    CHECK(name == "kiln::scale_for_debuggers");
  }
  CHECK(found == 1);
  unlink(path.c_str());
}

// Run under perf by tests/integration/check_perf.sh.
TEST_CASE("a kernel computes for a while for a profiler to look at", "[.profiler]") {
  CpuKernel kernel(*ir::parse(R"(
kernel @busy_for_profilers(%x: view<f32, 1>) {
  %start = program_tile %x {dims = [4096]} : i64
  %value = view_load %x, %start {axes = [0]} : tile<4096 x f32>
  %sine = sin %value : tile<4096 x f32>
  view_store %x, %sine, %start {axes = [0]}
})"),
                   {});
  std::vector<float> x(1 << 20, 1.0f);
  const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(x.data()), x.size(), 1};
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  do
    kernel.run(words, {static_cast<std::int64_t>(x.size() / 4096)});
  while (std::chrono::steady_clock::now() < end);
  CHECK(x.front() == x.back());
}

// Run under gdb by tests/integration/check_gdb.sh.
TEST_CASE("a kernel with line info runs for a debugger to stop in", "[.debugger]") {
  CpuKernel kernel(*debug_me(), {}, {}, {.line_info = true});
  ScaleLaunch launch;
  launch.run(kernel);
  CHECK(launch.right());
}
