// Runs every pass on random kernels, and compares what they compute before and after.
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/cpu/rewrite/passes.h>
#include <kiln/jit/passes/passes.h>

using namespace kiln;

namespace {
void run(const ir::Kernel& kernel, const test::RandomArguments& arguments) {
  ir::interpret(kernel, arguments.words(), ir::grid_of(kernel, arguments.words()));
}
} // namespace

TEST_CASE("passes keep what random kernels compute") {
  std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + test::rounds(60u); ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.exact = true});
    const test::RandomArguments start(random, seed);
    passes::PassOptions options{random.config, {}};

    auto bound = random.kernel->clone();
    passes::find_pass("bind").run(*bound, options);
    test::RandomArguments expected = start;
    run(*bound, expected);

    // In the order of the list, each on the kernel that the one before leaves.
    auto kernel = random.kernel->clone();
    for (const passes::PassInfo& pass : passes::generic_passes()) {
      if (pass.name == "check-bounds") continue; // random indices are out of bounds and fail its checks
      std::string before = ir::print(*kernel);
      pass.run(*kernel, options);
      INFO("after " << pass.name << " on\n" << before << "which made\n" << ir::print(*kernel));
      REQUIRE(ir::problems(*kernel) == std::vector<std::string>{});
      test::RandomArguments found = start;
      run(*kernel, found);
      REQUIRE(found.difference(expected) == "");
    }
  }
}

TEST_CASE("the CPU's passes keep what random kernels compute") {
  std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + test::rounds(60u); ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.exact = true});
    const test::RandomArguments start(random, seed);
    passes::PassOptions options{random.config, {}};
    auto lowered = passes::lower_generic(*random.kernel, options);
    test::RandomArguments expected = start;
    run(*lowered, expected);

    for (const passes::PassInfo& pass : cpu::cpu_passes()) {
      // cpu-widen binds a recorded kernel; the others run on a lowered one.
      auto kernel = (pass.name == "cpu-widen" ? *random.kernel : *lowered).clone();
      pass.run(*kernel, options);
      INFO("after " << pass.name << " on\n" << ir::print(*lowered) << "which made\n" << ir::print(*kernel));
      REQUIRE(ir::problems(*kernel) == std::vector<std::string>{});
      test::RandomArguments found = start;
      run(*kernel, found);
      REQUIRE(found.difference(expected) == "");
    }
    const auto together = cpu::lower_for_cpu(*lowered);
    REQUIRE(ir::problems(*together) == std::vector<std::string>{});
    test::RandomArguments found = start;
    run(*together, found);
    REQUIRE(found.difference(expected) == "");
  }
}

TEST_CASE("the order of programs does not matter to random kernels") {
  std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + 40; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.exact = true});
    passes::find_pass("bind").run(*random.kernel, {random.config, {}});
    const test::RandomArguments start(random, seed);
    test::RandomArguments in_order = start, shuffled = start;
    run(*random.kernel, in_order);
    ir::interpret(*random.kernel, shuffled.words(), ir::grid_of(*random.kernel, shuffled.words()),
                  {.shuffle_seed = seed});
    REQUIRE(in_order.difference(shuffled) == "");
  }
}
