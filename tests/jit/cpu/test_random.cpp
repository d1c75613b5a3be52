// Tests that the CPU and the interpreter agree on random kernels.
//
// KILN_TEST_SEED and KILN_TEST_COUNT choose seeds; by default there are a few fresh ones.
#include "cpu_runner.h"
#include "left_out.h"
#include "other_cpus.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/printer.h>

#include <random>

using namespace kiln;

namespace {

struct Draw {
  test::RandomKernelOptions kernel{.exact = true};
  test::RandomArgumentsOptions arguments;
};

// All programs, or only the first one if views share memory.
std::vector<std::int64_t> grid_for(const ir::Kernel& kernel, const test::RandomArguments& arguments,
                                   const Draw& draw) {
  auto grid = ir::grid_of(kernel, arguments.words());
  if (draw.arguments.overlap) std::fill(grid.begin(), grid.end(), 1);
  return grid;
}

void compare(std::uint64_t seed, const Draw& draw, const cpu::Target& target = cpu::host_target()) {
  CAPTURE(seed, static_cast<int>(draw.arguments.layout), target.cpu);
  auto random = test::random_kernel(seed, draw.kernel);
  const test::RandomArguments start(random, seed, draw.arguments);
  std::vector<LayoutClass> layouts;
  for (const auto& arg : random.kernel->body.args)
    if (arg->type.is_view()) layouts.push_back(draw.arguments.layout);
  if (std::getenv("KILN_TEST_VERBOSE"))
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  // Half of the kernels defer their last store however narrow its row is, and a third consist of many small
  // functions.
  cpu::CompileOptions options{.deferred_columns = seed % 2 ? 1 : 1024};
  if (seed % 3 == 0) options.whole_instructions = 1;
  test::CpuKernel compiled(*random.kernel, random.config, layouts, options, target);
  INFO(ir::print(*compiled.lowered));
  test::RandomArguments found = start, again = start;
  auto grid = grid_for(*compiled.lowered, start, draw);
  compiled.run(found.words(), grid);
  compiled.run(again.words(), grid, 0x00); // no result depends on the content of scratch
  REQUIRE(found.difference(again) == "");
  if (!draw.kernel.exact) return;
  passes::PassOptions unspecialised{random.config, {}};
  auto bound = passes::lower_generic(*random.kernel, unspecialised);
  test::RandomArguments expected = start;
  ir::interpret(*bound, expected.words(), grid);
  REQUIRE(found.difference(expected) == "");
}

template <class F> void for_seeds(std::uint64_t count, F&& run) {
  std::uint64_t first = test::fresh_seed();
  count = test::rounds(count);
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    run(seed);
}

} // namespace

TEST_CASE("the CPU agrees with the interpreter on random kernels") {
  for_seeds(30, [](std::uint64_t seed) {
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit, LayoutClass::Aligned})
      compare(seed, {.arguments = {.layout = layout}});
  });
}

TEST_CASE("the CPU agrees with the interpreter where strides are zero or negative and views are empty") {
  for_seeds(20, [](std::uint64_t seed) {
    compare(seed, {.arguments = {.strange_strides = true, .empty_extents = true}});
    compare(seed, {.arguments = {.layout = LayoutClass::Unit, .empty_extents = true}});
  });
}

TEST_CASE("the CPU agrees with the interpreter where views share memory") {
  for_seeds(30, [](std::uint64_t seed) {
    Draw draw;
    draw.kernel.atomics = false;
    draw.arguments.overlap = true;
    compare(seed, draw);
    draw.arguments.strange_strides = true;
    compare(seed, draw);
    draw.arguments.layout = seed % 2 ? LayoutClass::Unit : LayoutClass::Aligned;
    compare(seed, draw);
  });
}

TEST_CASE("the CPU agrees with the interpreter on random kernels with large tiles") {
  for_seeds(4, [](std::uint64_t seed) {
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit})
      compare(seed, {.kernel = {.exact = true, .large = true}, .arguments = {.layout = layout}});
  });
}

TEST_CASE("inexact random kernels stay inside their views and give the same result twice on the CPU") {
  for_seeds(20, [](std::uint64_t seed) {
    compare(seed, {.kernel = {.steps = 35}, .arguments = {.strange_strides = true}});
    compare(seed, {.kernel = {.steps = 35}, .arguments = {.layout = LayoutClass::Unit}});
  });
}

TEST_CASE("code for older and other CPUs agrees with the interpreter") {
  for (const cpu::Target& target : test::other_cpus())
    for_seeds(5, [&](std::uint64_t seed) {
      for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit})
        compare(seed, {.arguments = {.layout = layout}}, target);
    });
}
