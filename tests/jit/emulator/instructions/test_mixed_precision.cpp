// Tests sums and multiply-adds of sm_100 with 16-bit operands: they equal those of widened operands.
#include "one_instruction.h"
#include "test_seed.h"

using namespace kiln;
using test::OneInstruction;

TEST_CASE("mixed precision of f16 and bf16 into f32", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::string narrow : {"f16", "bf16"})
    for (const std::string op : {"add", "sub", "fma"})
      for (const std::string how : {"", ".rn", ".rz", ".rm", ".rp", ".rn.sat", ".rp.sat"}) {
        const bool fused = op == "fma";
        if (fused && how.empty()) continue;
        const std::string last = fused ? "%a, %b, %c;" : "%a, %b;";
        const std::vector<std::string> types =
            fused ? std::vector<std::string>{"b16", "b16", "b32"} : std::vector<std::string>{"b16", "b32"};
        const OneInstruction mixed{op + how + ".f32." + narrow + " %d, " + last, "b32", types};
        const OneInstruction widened{
            "{ .reg .f32 %v, %w; cvt.f32." + narrow + " %v, %a; " +
                (fused ? "cvt.f32." + narrow + " %w, %b; fma" + how + ".f32 %d, %v, %w, %c; }"
                       : op + how + ".f32 %d, %v, %b; }"),
            "b32", types};
        std::vector<std::vector<std::uint64_t>> in(types.size());
        for (std::size_t n = 0; n < in.size(); ++n)
          for (int k = 0; k < 1024; ++k)
            in[n].push_back(test::random_bits(random, types[n] == "b16" ? 16 : 32, true));
        CAPTURE(mixed.text);
        const auto found = test::run(mixed, in, "sm_100a"), expected = test::run(widened, in, "sm_100a");
        REQUIRE(found == expected);
      }
}

TEST_CASE("mixed precision that does not exist", "[emulator]") {
  auto refused = [](const std::string& text, const std::string& why, const std::string& arch = "sm_100a") {
    const OneInstruction i{text, "b32", {"b16", "b16", "b32"}};
    CHECK_THROWS_WITH(test::run(i, {{1}, {2}, {3}}, arch), Catch::Contains(why));
  };
  refused("add.f32.f16 %d, %a, %c;", "'add.f32.f16' requires sm_100 or newer, and this module is for sm_90a",
          "sm_90a");
  refused("add.ftz.f32.f16 %d, %a, %c;", ".ftz");
  refused("add.f32.f64 %d, %a, %c;", "does not exist for .f64");
  refused("add.f64.f16 %d, %a, %c;", "does not exist for .f64");
  refused("fma.rn.relu.f32.f16 %d, %a, %b, %c;", "does not exist for .f32");
  refused("fma.rn.f32.f16 %d, %c, %b, %c;", "bits");
}
