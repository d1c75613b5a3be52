// Tests CPU targets by name: each compiles or is an error, and none runs without its instructions.
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/passes/passes.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>

using namespace kiln;

namespace {

constexpr const char* half_precision = R"(kernel @f(%x: view<f16, 1>) {
  %i = program_tile %x {dims = [BN]} : i64
  %v = view_load %x, %i {axes = [0]} : tile<BN x f16>
  %w = mul %v, %v : tile<BN x f16>
  view_store %x, %w, %i {axes = [0]}
})";

bool lacks(const cpu::Target& wanted, const cpu::Target& present, const char* feature) {
  auto missing = cpu::missing_features(wanted, present);
  return std::find(missing.begin(), missing.end(), feature) != missing.end();
}

} // namespace

#if defined(__x86_64__)
TEST_CASE("a 32-bit CPU is an error that lists the available names") {
  for (const char* name : {"i386", "pentium", "geode", "pentium4", "lakemont"}) {
    std::string text;
    try {
      cpu::named_target(name);
    } catch (const UserError& e) {
      text = e.what();
    }
    CHECK_THAT(
        text, Catch::StartsWith("the CPU " + std::string(name) + " does not run 64-bit code; choose among "));
    CHECK_THAT(text,
               Catch::Contains(", x86-64, ") && Catch::Contains(", znver4") && !Catch::Contains(", i386,"));
  }
  CHECK_THROWS_WITH(cpu::named_target("z80"),
                    Catch::StartsWith("LLVM knows no CPU named z80; choose among ") &&
                        Catch::Contains("haswell"));
}

TEST_CASE("code can be generated for every CPU that the error lists") {
  std::string text;
  try {
    cpu::named_target("i386");
  } catch (const UserError& e) {
    text = e.what();
  }
  auto kernel = ir::parse(half_precision);
  auto lowered = passes::lower_generic(*kernel, {Config::parse("BN=64"), {}});
  int count = 0;
  std::size_t at = text.find("choose among ") + 13;
  while (at < text.size()) {
    std::size_t end = std::min(text.find(", ", at), text.size());
    std::string name = text.substr(at, end - at);
    at = end + 2;
    INFO(name);
    CHECK_FALSE(cpu::compile(*lowered, cpu::named_target(name)).object.empty());
    ++count;
  }
  CHECK(count > 20);
}

TEST_CASE("instructions that one CPU has and another lacks are found, beyond vector widths") {
  auto named = [](const char* cpu) { return cpu::named_target(cpu); };
  CHECK(lacks(named("sapphirerapids"), named("icelake-server"), "avx512fp16"));
  CHECK(lacks(named("sapphirerapids"), named("icelake-server"), "amx-tile"));
  CHECK(lacks(named("graniterapids"), named("sapphirerapids"), "amx-fp16"));
  CHECK(lacks(named("icelake-server"), named("skylake-avx512"), "avx512vbmi"));
  CHECK(lacks(named("haswell"), named("ivybridge"), "bmi2"));
  CHECK_FALSE(lacks(named("haswell"), named("ivybridge"), "invpcid")); // only operating systems use it
  CHECK(cpu::missing_features(named("haswell"), named("skylake-avx512")).empty());
  CHECK(cpu::missing_features(named("x86-64-v3"), named("x86-64-v4")).empty());
  CHECK(cpu::missing_features(cpu::host_target(), cpu::host_target()).empty());
}
#endif
