// Tests that free tiles, which each use computes again, do not make the code explode in size.
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

using namespace kiln;

KILN_DIM(B);

TEST_CASE("arithmetic on an arange that uses each result twice takes one operation each") {
  std::string text = "kernel @squares(%out: view<i64, 1>) {\n"
                     "  %s = program_tile %out {dims = [B]} : i64\n"
                     "  %v0 = arange {start = 0} : tile<B x i64>\n";
  const int steps = 60;
  for (int i = 0; i < steps; ++i)
    text += "  %v" + std::to_string(i + 1) + " = mul %v" + std::to_string(i) + ", %v" + std::to_string(i) +
            " : tile<B x i64>\n";
  text += "  view_store %out, %v" + std::to_string(steps) + ", %s {axes = [0]}\n}\n";
  auto recorded = ir::parse(text);
  auto lowered = passes::lower_generic(*recorded, {Config{B = 128}, {LayoutClass::Any}});
  const std::string ptx = gpu::compile_to_ptx(*lowered, {"sm_80"}).text; // one element a thread
  int products = 0;
  for (std::size_t at = ptx.find("mul.lo.s64"); at != std::string::npos; at = ptx.find("mul.lo.s64", at + 1))
    ++products;
  CHECK(products >= steps);
  CHECK(products < steps + 10);
}
