// The CPU computes what the interpreter computes, on random kernels.
#include "cpu_runner.h"

#include <catch2/catch.hpp>
#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/printer.h>

#include <random>

using namespace kiln;

namespace {

void compare(std::uint64_t seed, LayoutClass layout) {
  CAPTURE(seed, static_cast<int>(layout));
  auto random = test::random_kernel(seed, {.exact = true});
  const test::RandomArguments start(random, seed, layout);
  std::vector<LayoutClass> layouts;
  for (const auto& arg : random.kernel->body.args)
    if (arg->type.is_view()) layouts.push_back(layout);
  passes::PassOptions options{random.config, {}};
  auto bound = passes::lower_generic(*random.kernel, options);
  INFO(ir::print(*bound));
  test::RandomArguments expected = start, found = start;
  ir::interpret(*bound, expected.words(), ir::grid_of(*bound, expected.words()));
  test::CpuKernel compiled(*random.kernel, random.config, layouts);
  compiled.run(found.words(), ir::grid_of(*compiled.lowered, found.words()));
  CHECK(found.difference(expected) == "");
}

} // namespace

TEST_CASE("the CPU agrees with the interpreter on random kernels") {
  std::uint64_t first = std::random_device()();
  if (const char* text = std::getenv("KILN_TEST_SEED")) first = std::strtoull(text, nullptr, 10);
  std::uint64_t count = std::getenv("KILN_TEST_COUNT") ? std::strtoull(std::getenv("KILN_TEST_COUNT"), nullptr, 10) : 60;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    compare(seed, LayoutClass::Any);
    compare(seed, LayoutClass::Unit);
  }
}
