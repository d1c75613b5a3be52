// Products on tensor cores: simulated warps compute what the interpreter does, and PTX has mma.sync.
#include "simulated_device.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel.h>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

template <class T> using Sum = std::conditional_t<std::is_integral_v<T>, int, float>;

template <class T> auto product() {
  return kernel("product", [](View<const T, 2> a, View<const T, 2> b, View<Sum<T>, 2> c) {
    auto [row, col] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<Sum<T>>(BM, BN), [&](auto k, auto sum) {
      return sum + dot(a.tile(row, k).load(), b.tile(k, col).load(), Precision::tf32);
    });
    c.tile(row, col).store(sum);
  });
}

// Small whole numbers as floats, so that every order of adding gives the same.
template <class T> void compare(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto one_of = [&](std::initializer_list<std::int64_t> choices) {
    return choices.begin()[random() % choices.size()];
  };
  const Config config = {BM = one_of({16, 32, 48, 64}), BN = one_of({8, 16, 24, 32, 64}),
                         BK = one_of({32, 64})};
  const int warps = static_cast<int>(one_of({1, 2, 4, 8}));
  const auto m = static_cast<std::int64_t>(random() % 90 + 1),
             n = static_cast<std::int64_t>(random() % 90 + 1),
             k = static_cast<std::int64_t>(random() % 100 + 1);
  CAPTURE(seed, config.to_string(), warps, m, n, k);
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (auto* v : {&a, &b})
    for (auto& x : *v)
      if constexpr (std::is_integral_v<T>)
        x = static_cast<T>(random());
      else
        x = T(static_cast<float>(random() % 17) - 8);
  std::vector<Sum<T>> expected(static_cast<std::size_t>(m * n), -1), found = expected;
  auto words = [&](std::vector<Sum<T>>& c) {
    auto word = [](auto v) { return static_cast<std::uint64_t>(v); };
    return std::vector<std::uint64_t>{
        reinterpret_cast<std::uint64_t>(a.data()), word(m), word(k), word(k), 1,
        reinterpret_cast<std::uint64_t>(b.data()), word(k), word(n), word(n), 1,
        reinterpret_cast<std::uint64_t>(c.data()), word(m), word(n), word(n), 1};
  };
  auto lowered = passes::lower_generic(*product<T>().record(config),
                                       {config, std::vector<LayoutClass>(3, LayoutClass::Unit)});
  auto of_expected = words(expected), of_found = words(found);
  auto grid = ir::grid_of(*lowered, of_found.data());
  test::SimulatedKernel simulated(*lowered, warps);
  CHECK(simulated.llvm().find("sim_mma") != std::string::npos);
  simulated.run(of_found.data(), grid, true, seed);
  ir::interpret(*lowered, of_expected.data(), grid);
  CHECK(found == expected);
}

} // namespace

TEST_CASE("fragments of every dtype multiply to what the interpreter computes") {
  if (!test::simulates) return;
  const std::uint64_t first = std::random_device()();
  for (std::uint64_t seed = first; seed < first + 6; ++seed) {
    compare<f16>(seed);
    compare<bf16>(seed);
    compare<float>(seed);
    compare<f8e4m3>(seed);
    compare<f8e5m2>(seed);
    compare<std::int8_t>(seed);
    compare<std::uint8_t>(seed);
  }
}

namespace {

template <class T> void check_instruction(const std::string& instruction) {
  const Config config = {BM = 64, BN = 64, BK = 32};
  auto recorded = product<T>().record(config);
  auto lowered =
      passes::lower_generic(*recorded, {config, std::vector<LayoutClass>(3, LayoutClass::Aligned)});
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    std::string ptx = gpu::compile_to_ptx(*lowered, {arch}).text;
    INFO(instruction);
    CHECK(ptx.find("mma.sync.aligned." + instruction) != std::string::npos);
    if (gpu::ptxas_path().empty()) continue;
    auto assembled = gpu::assemble(ptx, arch);
    INFO(assembled.log);
    CHECK(assembled.ok);
    CHECK_FALSE(gpu::has_complaint(assembled.log));
  }
}

} // namespace

TEST_CASE("a product of narrow factors becomes mma.sync on every architecture") {
  check_instruction<bf16>("m16n8k16.row.col.f32.bf16.bf16.f32");
  check_instruction<f16>("m16n8k16.row.col.f32.f16.f16.f32");
  check_instruction<f8e4m3>("m16n8k16.row.col.f32.f16.f16.f32");
  check_instruction<float>("m16n8k8.row.col.f32.tf32.tf32.f32");
  check_instruction<std::int8_t>("m16n8k32.row.col.s32.s8.s8.s32");
  check_instruction<std::uint8_t>("m16n8k32.row.col.s32.u8.u8.s32");
}
