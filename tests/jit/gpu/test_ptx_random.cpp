// Tests that random kernels become PTX that ptxas accepts, or are refused with a UserError.
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <dsl/random_kernel.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <random>

using namespace kiln;

TEST_CASE("random kernels become PTX for every architecture") {
  std::uint64_t first = test::fresh_seed(), count = 10;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  const char* archs[] = {"sm_80", "sm_90a", "sm_100a"};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {});
    std::vector<LayoutClass> layouts;
    const LayoutClass layout = seed % 2 ? LayoutClass::Aligned : LayoutClass::Any;
    for (const auto& arg : random.kernel->body.args)
      if (arg->type.is_view()) layouts.push_back(layout);
    auto lowered = passes::lower_generic(*random.kernel, {random.config, layouts});
    for (const char* arch : archs) {
      CAPTURE(arch);
      INFO(ir::print(*lowered));
      std::string ptx;
      try {
        ptx = gpu::compile_to_ptx(*lowered, {arch}).text;
      } catch (const UserError&) {
        continue; // refused
      }
      CHECK(ptx.find(std::string(".target ") + arch) != std::string::npos);
      if (gpu::ptxas_path().empty()) continue; // there is nothing to assemble it
      auto assembled = gpu::assemble(ptx, arch);
      INFO(assembled.log);
      REQUIRE(assembled.ok);
    }
  }
}
