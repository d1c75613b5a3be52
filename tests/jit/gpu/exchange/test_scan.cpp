// Tests plans of scans along an axis by executing them on simulated lanes, warps and shared memory.
#include "left_out.h"
#include "simulated_block.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/gpu/exchange/scan.h>

#include <optional>
#include <random>

using namespace kiln::gpu;
using namespace simulated;

namespace {

// Composes two functions x -> a * x + b with 32 bits for each of a and b: associative, but not commutative.
std::uint64_t compose(std::uint64_t first, std::uint64_t second) {
  const auto a1 = static_cast<std::uint32_t>(first), b1 = static_cast<std::uint32_t>(first >> 32);
  const auto a2 = static_cast<std::uint32_t>(second), b2 = static_cast<std::uint32_t>(second >> 32);
  return std::uint64_t{a1 * a2} | std::uint64_t{a2 * b1 + b2} << 32;
}

Block scanned(const Scan& plan, const Block& values, std::size_t& conflicts) {
  Block prefix = values, total = values;
  for (const auto& stage : plan.stages) {
    const Block before = total;
    Block parts;
    const auto* gather = std::get_if<Scan::Gather>(&stage.how);
    if (gather) parts = execute(gather->exchange, total, gather->gathered, 8, conflicts);
    for (std::uint32_t w = 0; w < total.size(); ++w)
      for (std::uint32_t l = 0; l < total[w].size(); ++l)
        for (std::size_t r = 0; r < total[w][l].size(); ++r) {
          const std::uint32_t upper = (plan.register_coordinate.at(r) ^ plan.coordinate(l, w)) >> stage.bit &
                                      ((1u << stage.bits) - 1);
          std::uint64_t &p = prefix[w][l][r], &t = total[w][l][r];
          if (const auto* flip = std::get_if<Scan::Flip>(&stage.how)) {
            const std::uint64_t other = before[w]
                                            .at(l ^ static_cast<std::uint32_t>(flip->lane_mask))
                                            .at(r ^ static_cast<std::size_t>(flip->register_flip));
            if (upper) p = compose(other, p);
            t = upper ? compose(other, t) : compose(t, other);
          } else {
            const std::uint32_t all = 1u << stage.bits;
            auto part = [&](std::uint32_t i) { return parts[w][l].at(r + i * total[w][l].size()); };
            for (std::uint32_t i = upper; i-- > 0;)
              p = compose(part(i), p);
            t = part(0);
            for (std::uint32_t i = 1; i < all; ++i)
              t = compose(t, part(i));
          }
        }
  }
  return prefix;
}

void check(const LinearLayout& layout, int axis, std::mt19937_64& random) {
  INFO(layout.to_string() << "along " << axis);
  const auto tile = random_tile(random, layout.out_bits(), 8);
  int low = 0, at = 0;
  for (const auto& d : layout.outs()) {
    if (at++ == axis) break;
    low += d.bits;
  }
  auto expected = tile;
  const std::uint64_t extent = std::uint64_t{1} << layout.out_bits(axis_name(axis));
  for (std::uint64_t e = 0; e < tile.size(); ++e)
    if ((e >> low) % extent != 0) expected[e] = compose(expected[e - (std::uint64_t{1} << low)], tile[e]);
  const Scan plan = plan_scan(layout, axis, 8);
  std::size_t conflicts = 0;
  const bool as_expected = scanned(plan, spread(layout, tile), conflicts) == spread(layout, expected);
  REQUIRE(as_expected);
  CHECK(conflicts == 0);
}

} // namespace

TEST_CASE("any layout scans along any axis, in order") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < kiln::test::rounds(2000); ++trial) {
    CAPTURE(trial);
    const LinearLayout layout = random_tile_layout(random);
    check(layout, static_cast<int>(random() % layout.outs().size()), random);
  }
}

TEST_CASE("a coalesced row scans in registers, by shuffles, then once between warps") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LinearLayout row = blocked({12}, {0}, 2, 3); // registers 2, lanes 5, warps 3, registers 2
  const Scan plan = plan_scan(row, 0, 4);
  REQUIRE(plan.stages.size() == 2 + 5 + 1 + 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::get<Scan::Flip>(plan.stages[i].how).lane_mask == 0);
    CHECK(std::get<Scan::Flip>(plan.stages[i].how).register_flip == 1 << i);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(std::get<Scan::Flip>(plan.stages[2 + i].how).lane_mask == 1 << i);
    CHECK(std::get<Scan::Flip>(plan.stages[2 + i].how).register_flip == 0);
  }
  CHECK(plan.stages[7].bit == 7);
  CHECK(plan.stages[7].bits == 3);
  CHECK(std::holds_alternative<Scan::Gather>(plan.stages[7].how));
  CHECK(plan.scratch_bytes() == 4 * 8 * 4); // a total for each warp and each of the 4 repeats
  check(row, 0, random);
  for (int axis : {0, 1}) {
    check(mma_accumulator(6, 6, 1, 1), axis, random);
    check(blocked({4, 6}, {1, 0}, 2, 2), axis, random);
    check(blocked({1, 3}, {1, 0}, 1, 2), axis, random);
  }
}
