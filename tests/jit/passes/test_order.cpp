// Runs passes in random orders on random kernels, and checks what lower_generic leaves.
#include "left_out.h"
#include "random_numbers.h"

#include <catch2/catch.hpp>

#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/passes.h>

using namespace kiln;
using namespace kiln::ir;

namespace {

// The memory that a kernel leaves, and the lines that it prints.
struct Outcome {
  test::RandomArguments memory;
  std::string lines;
  Outcome(const Kernel& kernel, const test::RandomArguments& arguments) : memory(arguments) {
    InterpreterOptions options{.print = [this](const std::string& line) { lines += line + "\n"; },
                               .device_asserts = false};
    interpret(kernel, memory.words(), grid_of(kernel, memory.words()), options);
  }
};

int count_ops(const Kernel& kernel) {
  int n = 0;
  walk(kernel.body, [&](const Op&) { ++n; });
  return n;
}

void check_pipeline(std::uint64_t seed, const std::vector<std::string_view>& names,
                    const test::RandomKernelOptions& draw) {
  CAPTURE(seed);
  auto random = test::random_kernel(seed, draw);
  Kernel& kernel = *random.kernel;
  passes::PassOptions options{random.config, {}};
  passes::bind(kernel, options);
  test::RandomArguments arguments(random, seed);
  Outcome before(kernel, arguments);
  for (std::string_view name : names) {
    CAPTURE(name);
    std::string text = print(kernel);
    passes::find_pass(name).run(kernel, options);
    INFO(text << "became\n" << print(kernel));
    REQUIRE(problems(kernel) == std::vector<std::string>{});
    Outcome after(kernel, arguments);
    REQUIRE(before.memory.difference(after.memory) == "");
    REQUIRE(before.lines == after.lines);
  }
}

} // namespace

TEST_CASE("passes in random order keep the meaning of random kernels") {
  test::Random random;
  KILN_SEED(random);
  std::vector<std::string_view> all{"expand-grid", "lower-views", "canonicalize", "cse", "licm", "dce"};
  for (int i = 0; i < test::rounds(200); ++i) {
    std::vector<std::string_view> names;
    for (int j = 0; j < 8; ++j)
      names.push_back(all[random() % all.size()]);
    check_pipeline(random(), names, {.steps = 40, .exact = true, .prints = i % 2 == 0});
  }
}

TEST_CASE("the standard order leaves no names, no program_tile, no dim_size and no views but parameters") {
  std::uint64_t first = test::fresh_seed();
  int before = 0, after = 0;
  for (std::uint64_t seed = first; seed < first + 100; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed);
    auto lowered = passes::lower_generic(*random.kernel, {random.config, {}});
    REQUIRE(problems(*lowered) == std::vector<std::string>{});
    REQUIRE(lowered->dimensions().empty());
    walk(lowered->body,
         [](const Op& op) { CHECK_FALSE((op.is(Opcode::ProgramTile) || op.is(Opcode::DimSize))); });
    walk(lowered->body,
         [](const Op& op) { CHECK_FALSE((op.is(Opcode::ViewSlice) || op.is(Opcode::ViewOf))); });
    before += count_ops(*random.kernel);
    after += count_ops(*lowered);
  }
  CHECK(after < before);
}
