// Tests that compiled code, and all memory that belongs to it, is freed with its last owner.
#include <kiln/kiln.h>

#include <kiln/jit/base/options.h>
#include <kiln/jit/base/sanitized.h>

#include <catch2/catch.hpp>

#include <fstream>
#include <malloc.h>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BN);

constexpr bool measurable = !sanitized; // sanitizers delay the release of memory

void launch_fresh_kernels(int count) {
  std::vector<float> y(100, 2);
  Stream stream;
  for (int i = 0; i < count; ++i) {
    const auto twice = kernel("made_and_dropped", [](View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      y.tile(i).store(y.tile(i).load() + 1.f);
    });
    twice.launch(stream, {BN = 64}, TensorView(y));
    stream.synchronize();
  }
  REQUIRE(y[99] == 2 + static_cast<float>(count));
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

} // namespace

TEST_CASE("kernels that are made, launched and destroyed leave no memory behind") {
  if (!measurable) return;
  for (bool debug : {false, true}) {
    INFO("debug " << debug);
    Options options = kiln::options();
    options.debug = debug;
    ScopedOptions scope(options);
    launch_fresh_kernels(200);
    const std::int64_t heap = static_cast<std::int64_t>(mallinfo2().uordblks), resident = resident_bytes();
    const int count = debug ? 500 : 2000;
    launch_fresh_kernels(count);
    // LLVM keeps some hundred bytes per kernel for names and lists.
    CHECK((static_cast<std::int64_t>(mallinfo2().uordblks) - heap) / count < 1000);
    CHECK((resident_bytes() - resident) / count < 2500);
  }
}
