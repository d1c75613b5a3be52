// Tests products on tensor cores: simulated warps agree with the interpreter, and PTX has mma.sync.
#include "simulated_device.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel/kernel.h>
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

// Floats are small whole numbers, so that every order of additions gives the same sum.
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

TEST_CASE("products of fragments of every dtype agree with the interpreter") {
  if (!test::simulates) return; // TSan does not follow fibers
  const std::uint64_t first = test::fresh_seed();
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

KILN_DIM(BB);
KILN_DIM(BH);

std::vector<float> small_numbers(std::mt19937_64& random, std::int64_t count, int most) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values)
    v = static_cast<float>(random() % static_cast<std::uint64_t>(2 * most + 1)) - static_cast<float>(most);
  return values;
}

template <class T> std::vector<T> narrowed(const std::vector<float>& values) {
  std::vector<T> result;
  for (float v : values)
    result.push_back(T(v));
  return result;
}

void append_view(std::vector<std::uint64_t>& words, const void* data, std::vector<std::int64_t> extents) {
  words.push_back(reinterpret_cast<std::uint64_t>(data));
  for (std::int64_t e : extents)
    words.push_back(static_cast<std::uint64_t>(e));
  for (std::size_t a = 0; a < extents.size(); ++a) {
    std::int64_t stride = 1;
    for (std::size_t b = a + 1; b < extents.size(); ++b)
      stride *= extents[b];
    words.push_back(static_cast<std::uint64_t>(stride));
  }
}

// Two products in a loop: one factor is the same in all iterations and stays in shared memory, one is
// permuted, and one is computed.
template <class T> void compare_chain(std::uint64_t seed) {
  auto chain =
      kernel("chain", [](View<const T, 2> q, View<const T, 2> k, View<const T, 2> v, View<float, 2> o) {
        auto [m] = program_tile(q, BM);
        auto d = offset(BH, 0);
        Tile queries = q.tile(m, d).load();
        auto sum = for_range(BN, k.rows(), zeros<float>(BM, BH), [&](auto n, auto sum) {
          Tile s = dot(queries, trans(k.tile(n, d).load()));
          return dot(cast<T>(s), v.tile(n, d).load(), sum);
        });
        o.tile(m, d).store(sum);
      });
  std::mt19937_64 random(seed);
  auto one_of = [&](std::initializer_list<std::int64_t> choices) {
    return choices.begin()[random() % choices.size()];
  };
  const Config config = {BM = one_of({16, 32, 64, 128}), BN = one_of({16, 32, 64}),
                         BH = one_of({16, 32, 64})};
  const int warps = static_cast<int>(one_of({1, 2, 4, 8}));
  const auto rows = static_cast<std::int64_t>(random() % 140 + 1),
             keys = static_cast<std::int64_t>(random() % 90 + 1),
             width = static_cast<std::int64_t>(random() % 40 + 1);
  CAPTURE(seed, config.to_string(), warps, rows, keys, width);
  const auto q = narrowed<T>(small_numbers(random, rows * width, 1)),
             k = narrowed<T>(small_numbers(random, keys * width, 1)),
             v = narrowed<T>(small_numbers(random, keys * width, 3));
  std::vector<float> expected(static_cast<std::size_t>(rows * width), -1), found = expected;
  auto words = [&](std::vector<float>& o) {
    std::vector<std::uint64_t> w;
    append_view(w, q.data(), {rows, width});
    append_view(w, k.data(), {keys, width});
    append_view(w, v.data(), {keys, width});
    append_view(w, o.data(), {rows, width});
    return w;
  };
  auto lowered =
      passes::lower_generic(*chain.record(config), {config, std::vector<LayoutClass>(4, LayoutClass::Unit)});
  auto of_expected = words(expected), of_found = words(found);
  auto grid = ir::grid_of(*lowered, of_found.data());
  test::SimulatedKernel simulated(*lowered, warps);
  CHECK(simulated.llvm().find("sim_mma") != std::string::npos);
  simulated.run(of_found.data(), grid, true, seed);
  ir::interpret(*lowered, of_expected.data(), grid);
  CHECK(found == expected);
}

template <class T> void compare_batch(std::uint64_t seed) {
  auto batched = kernel("batched", [](View<const T, 3> a, View<const T, 3> b, View<float, 3> c) {
    auto [batch] = program_tile(c, BB);
    auto m = offset(BM, 0);
    auto n = offset(BN, 0);
    c.tile(batch, m, n).store(for_range(BK, a.extent(2), zeros<float>(BB, BM, BN), [&](auto k, auto sum) {
      return sum + dot(a.tile(batch, m, k).load(), b.tile(batch, k, n).load());
    }));
  });
  std::mt19937_64 random(seed);
  auto one_of = [&](std::initializer_list<std::int64_t> choices) {
    return choices.begin()[random() % choices.size()];
  };
  const Config config = {BB = one_of({1, 2, 3, 4, 8}), BM = one_of({16, 24, 32}),
                         BN = one_of({8, 16, 24, 32}), BK = one_of({16, 32})};
  const int warps = static_cast<int>(one_of({1, 2, 4, 8}));
  const auto count = static_cast<std::int64_t>(random() % 9 + 1),
             m = static_cast<std::int64_t>(random() % 32 + 1),
             n = static_cast<std::int64_t>(random() % 32 + 1),
             inner = static_cast<std::int64_t>(random() % 60 + 1);
  CAPTURE(seed, config.to_string(), warps, count, m, n, inner);
  const auto a = narrowed<T>(small_numbers(random, count * m * inner, 8)),
             b = narrowed<T>(small_numbers(random, count * inner * n, 8));
  std::vector<float> expected(static_cast<std::size_t>(count * m * n), -1), found = expected;
  auto words = [&](std::vector<float>& c) {
    std::vector<std::uint64_t> w;
    append_view(w, a.data(), {count, m, inner});
    append_view(w, b.data(), {count, inner, n});
    append_view(w, c.data(), {count, m, n});
    return w;
  };
  auto lowered = passes::lower_generic(*batched.record(config),
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

TEST_CASE("products that follow each other in a loop agree with the interpreter") {
  if (!test::simulates) return;
  const std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + 8; ++seed) {
    compare_chain<f16>(seed);
    compare_chain<bf16>(seed);
  }
}

TEST_CASE("batches of products go to tensor cores") {
  if (!test::simulates) return;
  const std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + 8; ++seed) {
    compare_batch<f16>(seed);
    compare_batch<bf16>(seed);
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
    if (gpu::ptxas_path().empty()) continue; // there is nothing to assemble it
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
