// Tests that PTX is assembled with or without `.minnctapersm 1`, whichever spills less.
#include <catch2/catch.hpp>
#include <kiln/dsl/language.h>
#include <kiln/jit/gpu/block_bound.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel/kernel.h>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

constexpr double binomial[] = {1. / 16, 4. / 16, 6. / 16, 4. / 16, 1. / 16};

// A kernel with 25 loads of doubles, all of which ptxas may issue at once.
gpu::Ptx stencil(int max_registers) {
  auto recorded = kernel("stencil", [](View<const double, 2> in, View<double, 2> out, Scalar<double> amount) {
                    auto [y, x] = program_tile(out, BM, BN);
                    Tile blurred = zeros<double>(BM, BN), weight = blurred;
                    for (int dy = -2; dy <= 2; ++dy)
                      for (int dx = -2; dx <= 2; ++dx) {
                        const double w = binomial[dy + 2] * binomial[dx + 2];
                        auto neighbour = in.tile(y + dy, x + dx);
                        blurred = blurred + neighbour.load() * w;
                        weight = weight + where(neighbour.mask(), w, 0.0);
                      }
                    Tile centre = in.tile(y, x).load();
                    out.tile(y, x).store(clamp(centre + amount * (centre - blurred / weight), 0.0, 1.0));
                  }).record();
  const auto lowered =
      passes::lower_generic(*recorded, {{BM = 16, BN = 32}, {LayoutClass::Unit, LayoutClass::Unit}});
  return gpu::compile_to_ptx(*lowered, {"sm_90a"}, {.max_registers = max_registers});
}

} // namespace

TEST_CASE("the bound of one block per multiprocessor is added and removed") {
  const std::string bound = stencil(0).text, unbound = gpu::with_other_block_bound(bound);
  CHECK(bound.find("\n.minnctapersm 1\n{") != std::string::npos);
  CHECK(unbound.find("minnctapersm") == std::string::npos);
  CHECK(unbound.size() + std::string("\n.minnctapersm 1").size() == bound.size());
  CHECK(gpu::with_other_block_bound(unbound) == bound);
  CHECK(gpu::with_other_block_bound(stencil(128).text).empty());
  CHECK(gpu::with_other_block_bound("").empty());
}

TEST_CASE("spills are read from the output of ptxas") {
  CHECK(gpu::spilled_bytes("ptxas info    : Function properties for f\n"
                           "    264 bytes stack frame, 268 bytes spill stores, 264 bytes spill loads\n") ==
        532);
  CHECK(gpu::spilled_bytes("    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n") == 0);
  CHECK(gpu::spilled_bytes("") == 0);
}

TEST_CASE("a kernel that spills with or without the bound is assembled the other way") {
  if (gpu::ptxas_path().empty()) {
    WARN("skipped: there is no ptxas here");
    return;
  }
  const std::string guess = stencil(0).text, other = gpu::with_other_block_bound(guess);
  for (std::string ptx : {guess, other}) {
    const std::int64_t spilled = gpu::spilled_bytes(gpu::assemble(ptx, "sm_90a").log);
    const gpu::Assembled best = gpu::assemble_either_way(ptx, "sm_90a");
    INFO("spilled " << spilled << '\n' << best.log);
    REQUIRE(best.ok);
    CHECK(gpu::spilled_bytes(best.log) == 0);
    CHECK(gpu::spilled_bytes(gpu::assemble(ptx, "sm_90a").log) == 0); // `ptx` is what was assembled
  }
  std::string broken = "not PTX";
  CHECK_FALSE(gpu::assemble_either_way(broken, "sm_90a").ok);
  CHECK(broken == "not PTX");
}
