// Tests plans of reductions along an axis by executing them on simulated lanes, warps and shared memory.
#include "left_out.h"
#include "simulated_block.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/gpu/exchange/reduction.h>

#include <random>

using namespace kiln::gpu;
using namespace simulated;

namespace {

// Executes a plan with any commutative operation on 64-bit values.
template <typename Combine>
Block reduced(const Reduction& plan, Block block, const Combine& combine, int element_bytes,
              std::size_t& conflicts) {
  auto in_threads = [&](const std::vector<Reduction::Pair>& pairs, const std::vector<int>& holder) {
    for (Warp& warp : block)
      for (Thread& thread : warp) {
        for (auto [into, from] : pairs)
          thread.at(static_cast<std::size_t>(into)) =
              combine(thread.at(static_cast<std::size_t>(into)), thread.at(static_cast<std::size_t>(from)));
        Thread kept;
        for (int r : holder)
          kept.push_back(thread.at(static_cast<std::size_t>(r)));
        thread = kept;
      }
  };
  in_threads(plan.in_thread, plan.holder);
  for (const auto& step : plan.lanes)
    for (Warp& warp : block) {
      const Warp before = warp;
      for (std::size_t l = 0; l < warp.size(); ++l)
        for (std::size_t r = 0; r < warp[l].size(); ++r)
          warp[l][r] = combine(before[l][r], before.at(l ^ static_cast<std::size_t>(step.lane_mask))
                                                 .at(r ^ static_cast<std::size_t>(step.register_flip)));
    }
  if (plan.warps) {
    block = execute(plan.warps->exchange, block, plan.warps->gathered, element_bytes, conflicts);
    in_threads(plan.warps->in_thread, plan.warps->holder);
  }
  return block;
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a + b; }

std::uint64_t float_sum(std::uint64_t a, std::uint64_t b) {
  double x, y;
  std::memcpy(&x, &a, 8), std::memcpy(&y, &b, 8);
  x += y;
  std::memcpy(&a, &x, 8);
  return a;
}

// The sums of a tile along an axis, for each element of the result.
std::vector<std::uint64_t> sums(const LinearLayout& layout, const LinearLayout& result, int axis,
                                const std::vector<std::uint64_t>& tile) {
  std::vector<std::uint64_t> all(std::size_t{1} << result.out_bits(), 0);
  for (std::uint64_t e = 0; e < tile.size(); ++e) {
    int low = 0, at = 0;
    for (const auto& d : layout.outs()) {
      if (at++ == axis) break;
      low += d.bits;
    }
    const int bits = layout.out_bits(axis_name(axis));
    const std::uint64_t below = e & ((std::uint64_t{1} << low) - 1);
    all[below | (e >> (low + bits) << low)] += tile[e];
  }
  return all;
}

std::uint64_t mask_of(int bytes) {
  return bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * bytes) - 1;
}

void check(const LinearLayout& layout, int axis, int element_bytes, std::mt19937_64& random) {
  INFO(layout.to_string() << "along " << axis << ", " << element_bytes << " bytes");
  const Reduction plan = plan_reduction(layout, axis, element_bytes);
  CHECK(plan.result == sliced(layout, axis));
  const std::uint64_t mask = mask_of(element_bytes);
  const auto tile = random_tile(random, layout.out_bits(), element_bytes);
  auto expected = sums(layout, plan.result, axis, tile);
  for (auto& v : expected)
    v &= mask;
  std::size_t conflicts = 0;
  auto wrapped = [&](std::uint64_t a, std::uint64_t b) { return sum(a, b) & mask; };
  const bool as_expected =
      reduced(plan, spread(layout, tile), wrapped, element_bytes, conflicts) == spread(plan.result, expected);
  REQUIRE(as_expected);
  CHECK(conflicts == 0);
}

} // namespace

TEST_CASE("any layout reduces along any axis, and copies count once") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < kiln::test::rounds(5000); ++trial) {
    CAPTURE(trial);
    const LinearLayout layout = random_tile_layout(random);
    check(layout, static_cast<int>(random() % layout.outs().size()), 1 << random() % 4, random);
  }
}

TEST_CASE("all copies of a sum of floats agree to the last bit") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const LinearLayout::Dims outs{{"dim0", static_cast<int>(random() % 4)},
                                  {"dim1", static_cast<int>(random() % 7)}};
    const LinearLayout layout = random_layout(random, outs, lane_bits, static_cast<int>(random() % 3),
                                              static_cast<int>(random() % 4));
    const Reduction plan = plan_reduction(layout, 1, 8);
    std::vector<std::uint64_t> tile(std::size_t{1} << layout.out_bits());
    for (auto& v : tile) {
      const double x = number(random);
      std::memcpy(&v, &x, 8);
    }
    std::size_t conflicts = 0;
    const Block got = reduced(plan, spread(layout, tile), float_sum, 8, conflicts);
    std::map<std::uint64_t, std::uint64_t> first;
    for (std::uint32_t w = 0; w < got.size(); ++w)
      for (std::uint32_t l = 0; l < got[w].size(); ++l)
        for (std::uint32_t r = 0; r < got[w][l].size(); ++r) {
          const auto [at, fresh] = first.try_emplace(element_at(plan.result, r, l, w), got[w][l][r]);
          require(at->second == got[w][l][r], "copies of a sum agree");
        }
    CHECK(first.size() == std::size_t{1} << plan.result.out_bits());
  }
}

TEST_CASE("a row of an mma accumulator reduces in registers, by two shuffles, and between two warps") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LinearLayout c = mma_accumulator(6, 6, 1, 1); // 2 x 2 warps of 32 x 32
  const Reduction rows = plan_reduction(c, 1, 4);
  // Of 2 x 4 fragments of 16 x 8, a thread has 4 rows (g and g + 8, twice) of 8 elements each.
  CHECK(rows.holder.size() == 4);
  CHECK(rows.in_thread.size() == 4 * 7);
  REQUIRE(rows.lanes.size() == 2);
  CHECK(rows.lanes[0].lane_mask == 1);
  CHECK(rows.lanes[1].lane_mask == 2);
  CHECK(rows.lanes[0].register_flip == 0);
  REQUIRE(rows.warps);
  CHECK(rows.scratch_bytes() == 64 * 2 * 4); // two partial sums for each row
  const auto& shared = std::get<SharedExchange>(rows.warps->exchange);
  CHECK(shared.silent.lanes == 0b00011); // one of four lanes stores
  CHECK(shared.load_elements >= 2);      // both parts by one load
  check(c, 1, 4, random);

  // Rows within one warp need no shared memory, and rows within one thread need no shuffles.
  const Reduction in_warp_only = plan_reduction(mma_accumulator(6, 6, 2, 0), 1, 4);
  CHECK_FALSE(in_warp_only.warps);
  CHECK(in_warp_only.scratch_bytes() == 0);
  const Reduction in_thread_only = plan_reduction(blocked({7, 2}, {1, 0}, 2, 2), 1, 4);
  CHECK(in_thread_only.lanes.empty());
  CHECK(in_thread_only.in_thread.size() == 3);
  CHECK_FALSE(in_thread_only.warps);
}

TEST_CASE("usual layouts reduce along both axes") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int element_bytes : {1, 2, 4, 8})
    for (int warps = 0; warps <= 3; ++warps)
      for (int axis : {0, 1}) {
        check(mma_accumulator(6, 6, warps / 2, warps - warps / 2), axis, element_bytes, random);
        check(blocked({4, 7}, {1, 0}, 2, warps), axis, element_bytes, random);
        check(blocked({7, 4}, {0, 1}, 3, warps), axis, element_bytes, random);
        check(blocked({1, 3}, {1, 0}, 1, warps), axis, element_bytes, random);
        check(expanded(sliced(blocked({5, 5}, {1, 0}, 2, warps), 0), axis), 1 - axis, element_bytes, random);
        check(mma_operand(axis, mma_accumulator(6, 6, warps, 0), 5, 16), axis, element_bytes, random);
      }
}
