// Tests that memory accesses of the threads of a block stay in program order, over branches and iterations.
#include "simulated_device.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

// Runs a kernel whose arguments are x, of 64 x 64 elements, and the given numbers, and compares it with the
// interpreter. Returns the number of barriers.
std::int64_t check(const ir::Kernel& recorded, const Config& config, std::vector<std::uint64_t> numbers,
                   std::uint64_t row_stride = 64) {
  if (!test::simulates) return 0; // TSan does not follow fibers
  auto lowered = passes::lower_generic(recorded, {config, {LayoutClass::Unit}});
  const auto data_seed = test::fresh_seed();
  CAPTURE(data_seed);
  INFO(ir::print(*lowered));
  test::SimulatedKernel simulated(*lowered, 4);
  std::vector<float> start(64 * 64);
  std::mt19937_64 random(data_seed);
  for (float& v : start)
    v = static_cast<float>(random() % 1000);
  auto run = [&](auto call) {
    std::vector<float> x = start;
    std::vector<std::uint64_t> words = {reinterpret_cast<std::uint64_t>(x.data()), 64, 64, row_stride, 1};
    words.insert(words.end(), numbers.begin(), numbers.end());
    call(words.data());
    return x;
  };
  const auto expected =
      run([&](const std::uint64_t* words) { ir::interpret(*lowered, words, std::vector<std::int64_t>{1}); });
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto found =
        run([&](const std::uint64_t* words) { simulated.run(words, {1}, row_stride < 64, seed); });
    const auto differs = std::mismatch(found.begin(), found.end(), expected.begin());
    CAPTURE(differs.first - found.begin());
    REQUIRE(differs.first == found.end());
  }
  return simulated.barriers();
}

} // namespace

TEST_CASE("what an iteration stores, the next one loads") {
  // The same reference is to another tile in each iteration.
  auto shifted = record("shifted", [](View<float, 2> x, Scalar<std::int64_t> n) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    for_range(std::int64_t{0}, n, std::int64_t{1}, [&](auto k) {
      auto here = x.tile(offset(BM, k), offset(BN, k));
      here.store(here.load() * 0.5f + cast<float>(k)); // the order matters for each element
    });
  });
  check(*shifted, {BM = 32, BN = 32}, {17});
  auto fixed = record("fixed", [](View<float, 2> x, Scalar<std::int64_t> n) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    for_range(std::int64_t{0}, n, std::int64_t{1}, [&](auto k) {
      auto here = x.tile(offset(BM, 3), offset(BN, 5));
      here.store(here.load() + cast<float>(k));
    });
  });
  check(*fixed, {BM = 32, BN = 32}, {17});
}

TEST_CASE("an exchange in a loop waits for that of the iteration before") {
  auto turned = record("turned", [](View<float, 2> x, Scalar<std::int64_t> n) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    auto here = x.tile(offset(BM, 0), offset(BM, 0));
    Tile t = here.load();
    auto result = for_range(std::int64_t{0}, n, std::int64_t{1}, t,
                            [&](auto k, auto t) { return trans(t) + cast<float>(k); });
    here.store(result);
  });
  for (std::int64_t size : {8, 16, 32, 64})
    for (std::uint64_t n : {0, 1, 2, 3, 7})
      check(*turned, {BM = size}, {n});
}

TEST_CASE("a loop that does not run orders nothing") {
  auto reduced = record("reduced", [](View<float, 2> x, Scalar<std::int64_t> n) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    auto here = x.tile(offset(BM, 0), offset(BN, 0));
    here.store(here.load() + 1);
    auto total = for_range(std::int64_t{0}, n, std::int64_t{1}, Scalar<float>(0.f),
                           [&](auto k, auto total) { return total + sum(here.load() + cast<float>(k)); });
    auto there = x.tile(offset(BM, 1), offset(BN, 1)); // elements that other threads stored
    there.store(there.load() * 2 + total);
  });
  auto stored = record("stored", [](View<float, 2> x, Scalar<std::int64_t> n) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    auto here = x.tile(offset(BM, 0), offset(BN, 0));
    here.store(here.load() + 1);
    while_loop(
        Scalar<std::int64_t>(n), [](auto i) { return i > 0; },
        [&](auto i) {
          auto there = x.tile(offset(BM, i), offset(BN, 1));
          there.store(there.load() + 3);
          return i - 1;
        });
    auto there = x.tile(offset(BM, 1), offset(BN, 2));
    there.store(there.load() * 2);
  });
  for (std::uint64_t n : {0, 1, 2, 5}) {
    check(*reduced, {BM = 32, BN = 16}, {n});
    check(*stored, {BM = 32, BN = 16}, {n});
  }
}

TEST_CASE("accesses by different indices of one element are ordered") {
  auto repeated = record("repeated", [](View<float, 2> x) {
    [[maybe_unused]] auto [row] = program_tile(x, 64_c);
    auto here = x.tile(offset(BM, 0), offset(BN, 0));
    here.store(broadcast(cast<float>(expand<0>(arange(BN))), BM, BN)); // the same in all rows
    here.store(here.load() + 1);
  });
  check(*repeated, {BM = 32, BN = 32}, {}, /*row_stride=*/0);
  check(*repeated, {BM = 32, BN = 32}, {});
}
