// Tests that random kernels compute as PTX on the emulated GPU what the interpreter computes from tile IR.
#include "kiln_kernel.h"
#include "test_seed.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <dsl/random_arguments.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/passes/passes.h>
#include <limits>
#include <random>
#include <span>

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
    // A kernel may be refused, for too much shared memory for example. PTX that the emulator does not know is
    // a failure.
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

TEST_CASE("the emulated GPU shifts by any 64-bit amount as the interpreter does", "[emulator]") {
  auto lowered = passes::lower_generic(*ir::parse(R"(
kernel @shifts(%x: view<const i64, 1>, %by: view<const i64, 1>, %y: view<i64, 1>) {
  %z = constant {value = 0} : i64
  %n = constant {value = 32} : i64
  %m = constant {value = 64} : i64
  %a = view_load %x, %z {axes = [0]} : tile<32 x i64>
  %b = view_load %by, %z {axes = [0]} : tile<32 x i64>
  %left = shl %a, %b : tile<32 x i64>
  %signed = shr %a, %b : tile<32 x i64>
  %bits = bitcast %a : tile<32 x u64>
  %amounts = bitcast %b : tile<32 x u64>
  %right = shr %bits, %amounts : tile<32 x u64>
  %back = bitcast %right : tile<32 x i64>
  view_store %y, %left, %z {axes = [0]}
  view_store %y, %signed, %n {axes = [0]}
  view_store %y, %back, %m {axes = [0]}
})",
                                                  "test"),
                                       {});
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> x(32),
      by = {0, 1, 63, 64, 65, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 3, -1};
  by.push_back(std::numeric_limits<std::int64_t>::min());
  while (by.size() < x.size())
    by.push_back(static_cast<std::int64_t>(random()));
  for (auto& v : x)
    v = static_cast<std::int64_t>(random());
  std::vector<std::int64_t> found(96), expected(96);
  auto words = [&](std::vector<std::int64_t>& y) {
    auto place = [](auto& v) { return reinterpret_cast<std::uint64_t>(v.data()); };
    return std::vector<std::uint64_t>{place(x), 32, 1, place(by), 32, 1, place(y), 96, 1};
  };
  auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  const std::vector<std::span<std::byte>> memories{bytes(x), bytes(by), bytes(found)};
  const std::vector<std::int64_t> grid{1};
  for (const char* arch : {"sm_80", "sm_90a"}) {
    test::EmulatedKernel kernel(*lowered, arch, 1);
    std::ranges::fill(found, 7);
    auto report = kernel.run(words(found).data(), memories, grid, {.checks = emulator::Checks::all()});
    INFO(report.text());
    REQUIRE(report.ok());
    ir::interpret(*lowered, words(expected).data(), grid);
    REQUIRE(found == expected);
  }
}
