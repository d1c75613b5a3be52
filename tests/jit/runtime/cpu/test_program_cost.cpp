// Tests the estimate of a program's time.
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/cpu/program_cost.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>

using namespace kiln;

TEST_CASE("a loop of unknown length inside one that does not run has an unknown time, which is no NaN") {
  const auto doubled = kernel("doubled", [](View<float, 1> x, Scalar<std::int64_t> times) {
    auto [i] = program_tile(x, 8_c);
    for_range(0, times, 1, [&](auto) {
      const Tile t = while_loop(
          Tile(x.tile(i).load()), [](auto t) { return max(t, 8_c) < 9.0f; }, [](auto t) { return t * 2.0f; });
      x.tile(i).store(t);
    });
  });
  const auto cost = CostModel::of(*passes::lower_generic(*doubled.record({}), {}));
  std::uint64_t words[] = {0, 8, 1, 0}; // the view's address, extent and stride, and times
  CHECK(std::isinf(cost.program_ns(words)));
  words[3] = 1;
  CHECK(std::isinf(cost.program_ns(words)));
}
