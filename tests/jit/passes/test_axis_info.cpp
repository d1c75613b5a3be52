// Compares the facts of the axis analysis with the values that random kernels compute.
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/jit/passes/axis_info.h>
#include <kiln/jit/passes/passes.h>

using namespace kiln;
using namespace kiln::ir;

namespace {

// How the cells of a value contradict a fact along one axis; "" if they do not.
std::string contradiction(const Type& type, std::span<const Cell> cells, std::size_t axis,
                          const passes::AxisInfo::Axis& claim) {
  std::int64_t extent = 1, inner = 1;
  for (std::size_t a = 0; a < type.shape.size(); ++a) {
    if (a == axis) extent = type.shape[a].value();
    if (a > axis) inner *= type.shape[a].value();
  }
  bool number = type.pointer || is_integer(type.dtype);
  Cell step = type.pointer ? static_cast<Cell>(size_of(type.dtype)) : 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::int64_t at = static_cast<std::int64_t>(i) / inner % extent;
    Cell before = at == 0 ? 0 : cells[i - static_cast<std::size_t>(inner)];
    if (at % claim.constancy != 0 && cells[i] != before) return "not constant at " + std::to_string(i);
    if (!number) continue;
    if (at % claim.contiguity != 0 && cells[i] != before + step)
      return "not contiguous at " + std::to_string(i);
    if (at % claim.contiguity == 0 && cells[i] % static_cast<Cell>(claim.divisibility) != 0)
      return "not divisible at " + std::to_string(i);
  }
  return "";
}

} // namespace

TEST_CASE("axis facts hold for the values that random kernels compute") {
  auto layout = GENERATE(LayoutClass::Any, LayoutClass::Aligned);
  std::uint64_t first = test::fresh_seed();
  int contiguous = 0;
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.exact = true});
    passes::PassOptions options{random.config, {}};
    for (const auto& arg : random.kernel->body.args)
      if (arg->type.is_view()) options.layouts.push_back(layout);
    Kernel& kernel = *random.kernel;
    passes::bind(kernel, options);
    if (seed % 2) passes::run_passes(kernel, "expand-grid,canonicalize,cse,licm,dce", options);
    passes::AxisInfos infos = passes::axis_info(kernel);
    ValueNames names(kernel);
    test::RandomArguments arguments(random, seed, layout);
    std::string wrong;
    InterpreterOptions watch{.observe = [&](const Value& v, std::span<const Cell> cells) {
      const passes::AxisInfo& info = infos.at(&v);
      for (std::size_t a = 0; a < v.type.shape.size() || a == 0; ++a) {
        contiguous += info.axes[a].contiguity > 1;
        std::string found = contradiction(v.type, cells, a, info.axes[a]);
        if (!found.empty() && wrong.empty())
          wrong = names.line(*v.def) + ": " + info.to_string() + ", but along axis " + std::to_string(a) +
                  " " + found;
      }
    }};
    interpret(kernel, arguments.words(), grid_of(kernel, arguments.words()), watch);
    INFO(print(kernel));
    REQUIRE(wrong == "");
  }
  CHECK(contiguous > 0);
}

TEST_CASE("axis facts of the extreme constants") {
  const auto kernel = parse(R"(kernel @constants(%x: view<i64, 1>) {
  %zero = constant {value = 0} : i64
  %least = constant {value = -9223372036854775808} : i64
  %greatest = constant {value = 9223372036854775807} : i64
  %tile = splat %least : tile<4 x i64>
  view_store %x, %tile, %zero {axes = [0]}
  %other = splat %greatest : tile<4 x i64>
  view_store %x, %other, %zero {axes = [0]}
})");
  passes::bind(*kernel, {});
  int tiles = 0;
  for (const auto& [value, info] : passes::axis_info(*kernel)) {
    if (!value->type.is_tile()) continue;
    ++tiles;
    CHECK(info.axes[0].constancy == 4);
    const bool of_greatest = value->def->operand(0)->def->integer("value") > 0;
    CHECK(info.axes[0].divisibility == (of_greatest ? 1 : std::int64_t{1} << 40));
  }
  CHECK(tiles == 2);
}
