// The PTX of random kernels, run on the emulated GPU, does what the interpreter does with their tile IR.
#include "kiln_kernel.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <dsl/random_arguments.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/passes/passes.h>
#include <random>

using namespace kiln;

namespace {

void compare(std::uint64_t seed, const char* arch, int warps, LayoutClass layout) {
  auto random = test::random_kernel(seed, {.exact = true});
  test::RandomArgumentsOptions options{.layout = layout};
  const test::RandomArguments start(random, seed, options);
  std::vector<LayoutClass> layouts;
  for (const auto& arg : random.kernel->body.args)
    if (arg->type.is_view()) layouts.push_back(layout);
  auto lowered = passes::lower_generic(*random.kernel, {random.config, layouts});
  CAPTURE(seed, arch, warps, static_cast<int>(layout));
  INFO(ir::print(*lowered));
  std::unique_ptr<test::EmulatedKernel> kernel;
  try {
    kernel = std::make_unique<test::EmulatedKernel>(*lowered, arch, warps);
  } catch (const UserError& e) {
    // Refused by name: too much shared memory, say. What the emulator does not know must fail.
    INFO(e.what());
    REQUIRE(std::string(e.what()).find(".ptx") == std::string::npos);
    return;
  }
  test::RandomArguments found = start, expected = start;
  auto grid = ir::grid_of(*lowered, start.words());
  auto report =
      kernel->run(found.words(), found.memories(), grid, {.seed = seed, .checks = emulator::Checks::all()});
  INFO(report.text());
  REQUIRE(report.ok());
  ir::interpret(*lowered, expected.words(), grid);
  REQUIRE(found.difference(expected) == "");
}

} // namespace

TEST_CASE("the emulated GPU agrees with the interpreter on random kernels", "[emulator]") {
  std::uint64_t first = test::fresh_seed(), count = 6;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    for (const char* arch : {"sm_80", "sm_90a"})
      for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Aligned})
        compare(seed, arch, 1 << seed % 3, layout);
}
