// Tests that index maps are equal if and only if they name the same elements.
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cpu/facts/index_maps.h>

#include <catch2/catch.hpp>

#include <memory>
#include <string>

using namespace kiln;
using namespace kiln::cpu;

namespace {

// Operations, from the tile that is evaluated to the tile that a nest iterates over.
struct Chain {
  std::unique_ptr<ir::Kernel> kernel;
  std::vector<const ir::Op*> ops;

  // `lines` is tile IR that computes %last from %0, a tile of 4 x 6 x 8.
  explicit Chain(const std::string& lines)
      : kernel(ir::parse(
            "kernel @chain(%x: view<const f32, 3>) {\n"
            "  %zero = constant {value = 0} : i64\n"
            "  %0 = view_load %x, %zero, %zero, %zero {axes = [0, 1, 2]} : tile<4 x 6 x 8 x f32>\n" +
            lines + "}\n")) {
    for (const auto& op : kernel->body.ops)
      if (!op->is(ir::Opcode::Constant) && !op->is(ir::Opcode::ViewLoad)) ops.push_back(op.get());
  }
  // The map by which a nest over the last result evaluates %0.
  IndexMap map(IndexMaps& maps) const {
    IndexMap at = maps.identity(ops.back()->result()->type.shape.size());
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      at = maps.of_operand(**op, at);
    return at;
  }
};

} // namespace

TEST_CASE("index maps name elements, however they are reached") {
  IndexMaps maps;
  const IndexMap same = maps.identity(3);
  auto map = [&](const std::string& lines) { return Chain(lines).map(maps); };
  CHECK(map("  %1 = neg %0 : tile<4 x 6 x 8 x f32>\n") == same);
  CHECK(map("  %1 = permute %0 {order = [1, 2, 0]} : tile<6 x 8 x 4 x f32>\n"
            "  %2 = permute %1 {order = [2, 0, 1]} : tile<4 x 6 x 8 x f32>\n") == same);
  CHECK(map("  %1 = permute %0 {order = [1, 0, 2]} : tile<6 x 4 x 8 x f32>\n") != same);
  CHECK(map("  %1 = expand_dims %0 {axis = 1} : tile<4 x 1 x 6 x 8 x f32>\n"
            "  %2 = squeeze %1 {axis = 1} : tile<4 x 6 x 8 x f32>\n") == same);
  // A reshape keeps the axes that it does not divide.
  CHECK(map("  %1 = reshape %0 : tile<4 x 48 x f32>\n")[0] == same[0]);
  CHECK(map("  %1 = reshape %0 : tile<4 x 48 x f32>\n") ==
        map("  %1 = reshape %0 : tile<4 x 1 x 48 x f32>\n"
            "  %2 = squeeze %1 {axis = 1} : tile<4 x 48 x f32>\n"));
  CHECK(map("  %1 = extract %0 {axis = 0, index = 1} : tile<6 x 8 x f32>\n") !=
        map("  %1 = extract %0 {axis = 0, index = 2} : tile<6 x 8 x f32>\n"));
  // Both halves of pairs are picked from one vector that is evaluated once; rows are not.
  const std::string pairs = "  %1 = reshape %0 : tile<4 x 24 x 2 x f32>\n",
                    rows = "  %1 = reshape %0 : tile<2 x 2 x 6 x 8 x f32>\n";
  CHECK(map(pairs + "  %2 = extract %1 {axis = 2, index = 0} : tile<4 x 24 x f32>\n") ==
        map(pairs + "  %2 = extract %1 {axis = 2, index = 1} : tile<4 x 24 x f32>\n"));
  CHECK(map(rows + "  %2 = extract %1 {axis = 0, index = 0} : tile<2 x 6 x 8 x f32>\n") !=
        map(rows + "  %2 = extract %1 {axis = 0, index = 1} : tile<2 x 6 x 8 x f32>\n"));
}
