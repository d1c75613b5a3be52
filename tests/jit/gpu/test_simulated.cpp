// Tests that kernels lowered by the GPU back end and executed thread by thread agree with the interpreter.
#include "simulated_device.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/record.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <random>

using namespace kiln;

namespace {

KILN_DIM(BN);

void compare(std::uint64_t seed, int warps, LayoutClass layout) {
  CAPTURE(seed, warps, static_cast<int>(layout));
  test::RandomKernelOptions wanted{.exact = true};
  auto random = test::random_kernel(seed, wanted);
  test::RandomArgumentsOptions options{.layout = layout};
  const test::RandomArguments start(random, seed, options);
  std::vector<LayoutClass> layouts;
  for (const auto& arg : random.kernel->body.args)
    if (arg->type.is_view()) layouts.push_back(layout);
  auto lowered = passes::lower_generic(*random.kernel, {random.config, layouts});
  INFO(ir::print(*lowered));
  test::SimulatedKernel simulated(*lowered, warps);
  test::RandomArguments found = start, expected = start;
  auto grid = ir::grid_of(*lowered, start.words());
  simulated.run(found.words(), grid, true, seed);
  ir::interpret(*lowered, expected.words(), grid);
  REQUIRE(found.difference(expected) == "");
}

} // namespace

TEST_CASE("simulated GPU threads agree with the interpreter on random kernels") {
  if (!test::simulates) return; // TSan does not follow fibers
  std::uint64_t first = test::fresh_seed(), count = 8;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    for (int warps : {1, seed % 2 ? 4 : 2})
      for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Aligned})
        compare(seed, warps, layout);
}

TEST_CASE("a softmax takes two barriers, a copy takes none") {
  if (!test::simulates) return; // TSan does not follow fibers
  auto barriers = [](const ir::Kernel& recorded, const Config& config) {
    auto lowered =
        passes::lower_generic(recorded, {config, std::vector<LayoutClass>(2, LayoutClass::Aligned)});
    test::SimulatedKernel simulated(*lowered, 4);
    std::vector<float> x(4096, 1), y(4096);
    auto word = [](auto v) { return reinterpret_cast<std::uint64_t>(v); };
    const std::uint64_t words[] = {word(x.data()), 1, 4096, 4096, 1, word(y.data()), 1, 4096, 4096, 1};
    simulated.run(words, {1}, false, 1);
    return simulated.barriers();
  };
  const Config config = {BN = 4096};
  auto copy = record("copy", [](View<const float, 2> x, View<float, 2> y) {
    auto [row] = program_tile(x, 1_c);
    y.tile(row, offset(BN, 0)).store(x.tile(row, offset(BN, 0)).load());
  });
  CHECK(barriers(*copy, config) == 0);
  auto softmax = record("softmax", [](View<const float, 2> x, View<float, 2> y) {
    auto [row] = program_tile(x, 1_c);
    Tile t = x.tile(row, offset(BN, 0)).load_or(-INFINITY);
    Tile e = exp(t - max(t, BN, keep));
    y.tile(row, offset(BN, 0)).store(e / sum(e, BN, keep));
  });
  CHECK(barriers(*softmax, config) == 2);
}

namespace {

// Compares a kernel on one matrix, simulated and interpreted, for several numbers of iterations.
template <class F> void compare_in_loop(F body, std::uint64_t seed, std::int64_t barriers) {
  auto recorded = record("looped", [&](View<float, 2> y, Scalar<std::int64_t> count) { body(y, count); });
  for (std::int64_t count : {0, 1, 5}) {
    CAPTURE(seed, count);
    auto lowered = passes::lower_generic(*recorded, {Config{BN = 128}, {LayoutClass::Aligned}});
    test::SimulatedKernel simulated(*lowered, 4);
    std::vector<float> found(128 * 136), expected;
    std::mt19937_64 random(seed);
    for (float& v : found)
      v = static_cast<float>(random() % 100);
    expected = found;
    auto words = [&](std::vector<float>& y) {
      return std::vector<std::uint64_t>{reinterpret_cast<std::uint64_t>(y.data()), 128, 136, 136, 1,
                                        static_cast<std::uint64_t>(count)};
    };
    auto of_found = words(found), of_expected = words(expected);
    simulated.run(of_found.data(), {1}, false, seed);
    ir::interpret(*lowered, of_expected.data(), std::vector<std::int64_t>{1});
    CHECK(found == expected);
    if (count == 5 && barriers >= 0) CHECK(simulated.barriers() == barriers);
  }
}

} // namespace

TEST_CASE("iterations see what earlier ones stored, and a loop that did not run orders nothing") {
  if (!test::simulates) return; // TSan does not follow fibers
  const std::uint64_t seed = test::fresh_seed();
  auto add_to = [](auto y, auto row, auto col) {
    Tile t = y.tile(row, col).load();
    y.tile(row, col).store(t + 1.f);
  };
  // The counter moves the tile by one column, so that neighbouring iterations share elements.
  compare_in_loop(
      [&](View<float, 2> y, Scalar<std::int64_t> count) {
        for_range(0, count, 1, [&](auto k) { add_to(y, offset(BN, 0), offset(BN, k)); });
      },
      seed, 5);
  // The same column in all iterations, and then another row in each iteration.
  compare_in_loop(
      [&](View<float, 2> y, Scalar<std::int64_t> count) {
        for_range(0, count, 1, [&](auto) { add_to(y, offset(BN, 0), offset(1_c, 0)); });
        for_range(0, count, 1, [&](auto k) { add_to(y, offset(1_c, k), offset(BN, 0)); });
      },
      seed, 1);
  // A store, a loop with a barrier that may not run, and a load of elements of other threads.
  compare_in_loop(
      [&](View<float, 2> y, Scalar<std::int64_t> count) {
        Tile t = y.tile(offset(BN, 0), offset(BN, 0)).load();
        y.tile(offset(BN, 0), offset(BN, 0)).store(t * 2.f);
        auto total = for_range(0, count, 1, full(0.f, 1_c), [&](auto k, auto total) {
          return total + sum(sum(y.tile(offset(BN, 0), offset(1_c, k)).load(), axis<1>), BN, keep);
        });
        Tile column = y.tile(offset(BN, 0), offset(1_c, 3)).load();
        y.tile(offset(BN, 0), offset(1_c, 5)).store(column + total);
      },
      seed, -1);
}

TEST_CASE("asserts fail and prints print on a simulated GPU") {
  if (!test::simulates) return; // TSan does not follow fibers
  auto recorded = record("checked", [](View<const float, 1> x) {
    auto [i] = program_tile(x, BN);
    Tile t = x.tile(i).load();
    device_assert(t < 3.f, "small");
    device_print("t", t);
  });
  auto lowered = passes::lower_generic(*recorded, {Config{BN = 64}, {LayoutClass::Unit}});
  std::vector<float> x(64, 1);
  x[17] = 5;
  const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(x.data()), 64, 1};
  test::SimulatedKernel checked(*lowered, 4, /*debug=*/true), unchecked(*lowered, 4);
  checked.run(words, {1}, false, 1);
  CHECK(checked.failed() >= 1);
  CHECK(checked.printed() > 64); // the compared values, too
  unchecked.run(words, {1}, false, 1);
  CHECK(unchecked.failed() == 0);
  CHECK(unchecked.printed() == 64);
}

TEST_CASE("an index that was read from memory is checked when debugging, with the user's line") {
  if (!test::simulates) return; // TSan does not follow fibers
  auto recorded = record("gather", [](View<const float, 1> x, View<const int, 1> index, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile at = index.tile(i).load();
    y.tile(i).store(x.at(at).load()); // the line in the debug information
  });
  const std::vector<LayoutClass> layouts(3, LayoutClass::Unit);
  const Config config{BN = 64};
  auto lowered = passes::lower_generic(*recorded, {config, layouts, /*debug=*/true});
  std::vector<float> x(100, 1), y(64);
  std::vector<int> index(64, 99);
  auto word = [](auto& v) { return reinterpret_cast<std::uint64_t>(v.data()); };
  const std::uint64_t words[] = {word(x), 100, 1, word(index), 64, 1, word(y), 64, 1};
  test::SimulatedKernel checked(*lowered, 4, /*debug=*/true);
  checked.run(words, {1}, false, 1);
  CHECK(checked.failed() == 0);
  index[40] = 100;
  checked.run(words, {1}, false, 1);
  CHECK(checked.failed() >= 1);

  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    const std::string ptx = gpu::compile_to_ptx(*lowered, {arch}, {.debug = true}).text;
    CHECK(ptx.find("__assertfail") != std::string::npos);
    CHECK(ptx.find("\t.loc") != std::string::npos);
    CHECK(ptx.find("test_simulated.cpp") != std::string::npos);
    CHECK(ptx.find(", debug") == std::string::npos); // ptxas would not optimise it
    if (gpu::ptxas_path().empty()) continue;         // there is nothing to assemble it
    const gpu::Assembled assembled = gpu::assemble(ptx, arch);
    INFO(assembled.log);
    CHECK(assembled.ok);
    const std::string cubin(assembled.cubin.begin(), assembled.cubin.end());
    CHECK(cubin.find("debug_line") != std::string::npos);
  }
}
