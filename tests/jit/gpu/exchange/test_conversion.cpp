// Tests plans of conversions between layouts by executing them on simulated lanes, warps and shared memory.
#include "left_out.h"
#include "simulated_block.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/gpu/exchange/conversion.h>

#include <random>

using namespace kiln::gpu;
using namespace simulated;

namespace {

int between(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Runs a plan on random values, compares every register of every thread, and returns the bank conflicts.
std::size_t check(const Conversion& plan, const LinearLayout& from, const LinearLayout& to, int element_bytes,
                  std::mt19937_64& random) {
  const LinearLayout target = to.with_ins({in_register, in_lane, in_warp});
  const auto tile = random_tile(random, from.out_bits(), element_bytes);
  std::size_t conflicts = 0;
  const Block got = execute(plan, spread(from, tile), target, element_bytes, conflicts);
  INFO("from\n" << from.to_string() << "to\n" << to.to_string() << element_bytes << " bytes");
  const bool as_expected = got == spread(target, tile); // the thousands of values are not printed
  REQUIRE(as_expected);
  return conflicts;
}

// Checks that the accesses of a plan agree with the layout of memory in it.
void check_memory(const SharedExchange& plan, const LinearLayout& from, const LinearLayout& to,
                  int element_bytes) {
  auto agree = [&](const LinearLayout& layout, const std::vector<SharedExchange::Access>& accesses,
                   const ThreadFunction& offset) {
    for (std::uint32_t w = 0; w < count(layout, in_warp); ++w)
      for (std::uint32_t l = 0; l < count(layout, in_lane); ++l)
        for (std::size_t i = 0; i < accesses.size(); ++i)
          for (std::uint32_t p = 0; p < accesses[i].registers.size(); ++p) {
            const std::uint32_t at =
                (offset(l, w) ^ accesses[i].offset) / static_cast<std::uint32_t>(element_bytes) + p;
            const std::uint64_t pass = i / (accesses.size() / static_cast<std::size_t>(plan.passes));
            const auto r = static_cast<std::uint32_t>(accesses[i].registers.at(p));
            require(plan.memory.apply(at | pass << plan.memory.in_bits(in_offset)) ==
                        element_at(layout, r, l, w),
                    "an offset holds the element of its layout");
          }
  };
  agree(from, plan.stores, plan.store_offset);
  agree(to, plan.loads, plan.load_offset);
}

LinearLayout any_layout(std::mt19937_64& random, const LinearLayout::Dims& outs, int warps) {
  const int copies = random() % 2 ? 0 : between(random, 0, 3);
  return random() % 3 ? random_permutation(random, outs, lane_bits, warps, copies)
                      : random_layout(random, outs, lane_bits, warps, copies);
}

} // namespace

TEST_CASE("any two layouts convert, and shared memory has no bank conflict") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::size_t kinds[4] = {};
  for (int trial = 0; trial < kiln::test::rounds(5000); ++trial) {
    CAPTURE(trial);
    const LinearLayout::Dims outs{{"dim0", between(random, 0, 4)}, {"dim1", between(random, 0, 6)}};
    const int warps = between(random, 0, 3), element_bytes = 1 << between(random, 0, 3);
    const LinearLayout from = any_layout(random, outs, warps), to = any_layout(random, outs, warps);
    const Conversion plan = plan_conversion(from, to, element_bytes);
    ++kinds[plan.index()];
    CHECK(check(plan, from, to, element_bytes, random) == 0);
    // Check the other kinds of plans too, if they are possible.
    if (const auto shuffles = plan_shuffles(from, to, 32)) check(*shuffles, from, to, element_bytes, random);
    const SharedExchange shared = plan_shared_exchange(from, to, element_bytes);
    CHECK(check(shared, from, to, element_bytes, random) == 0);
    check_memory(shared, from, to, element_bytes);
    const SharedExchange small = in_passes(shared, element_bytes, shared.bytes >> between(random, 0, 3));
    CHECK(small.bytes * small.passes == shared.bytes);
    CHECK(check(small, from, to, element_bytes, random) == 0);
    check_memory(small, from, to, element_bytes);
  }
  CHECK(kinds[2] > 0);
  CHECK(kinds[3] > 0);
}

TEST_CASE("any two layouts of one warp convert by at most one shuffle for each register") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 1000; ++trial) {
    CAPTURE(trial);
    const LinearLayout::Dims outs{{"dim0", between(random, 0, 4)}, {"dim1", between(random, 0, 5)}};
    const LinearLayout from = any_layout(random, outs, 0), to = any_layout(random, outs, 0);
    const auto plan = plan_shuffles(from, to);
    REQUIRE(plan);
    CHECK(plan->rounds == 1);
    CHECK(plan->steps.size() <= count(to, in_register));
    check(*plan, from, to, 4, random);
    const SharedExchange shared = plan_shared_exchange(from, to, 4);
    CHECK(shared.within_warp);
    CHECK(shared.bytes == 4 << from.out_bits());
  }
}

TEST_CASE("the cheapest plan is chosen") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LinearLayout rows = blocked({5, 5}, {1, 0}, 2, 2), columns = blocked({5, 5}, {0, 1}, 2, 2);
  CHECK(std::holds_alternative<Nothing>(plan_conversion(rows, rows, 4)));
  CHECK(std::holds_alternative<SharedExchange>(plan_conversion(rows, columns, 4)));

  // Registers in another order.
  const LinearLayout a({{in_register, 2}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", 7}},
                       {1, 2, 4, 8, 16, 32, 64});
  const LinearLayout b({{in_register, 2}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", 7}},
                       {2, 3, 4, 8, 16, 32, 64});
  const Conversion moves = plan_conversion(a, b, 2);
  REQUIRE(std::holds_alternative<RegisterMoves>(moves));
  CHECK(std::get<RegisterMoves>(moves).source == std::vector<int>{0, 2, 3, 1});
  check(moves, a, b, 2, random);

  // A transpose of registers and lanes: one step for each register, and in one step no element moves.
  const LinearLayout c({{in_register, 2}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", 7}},
                       {4, 8, 1, 2, 16, 32, 64});
  const Conversion transpose = plan_conversion(a, c, 4);
  REQUIRE(std::holds_alternative<WarpShuffles>(transpose));
  CHECK(std::get<WarpShuffles>(transpose).steps.size() == 4);
  CHECK(std::get<WarpShuffles>(transpose).shuffles() == 3);
  check(transpose, a, c, 4, random);

  // Every lane holds all elements and keeps some of them: this takes selects only.
  const LinearLayout all({{in_register, 5}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", 5}},
                         {1, 2, 4, 8, 16, 0, 0, 0, 0, 0});
  const LinearLayout own({{in_register, 0}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", 5}}, {1, 2, 4, 8, 16});
  const Conversion keep = plan_conversion(all, own, 4);
  REQUIRE(std::holds_alternative<WarpShuffles>(keep));
  CHECK(std::get<WarpShuffles>(keep).shuffles() == 0);
  check(keep, all, own, 4, random);
  check(plan_conversion(own, all, 4), own, all, 4, random);
}

TEST_CASE("elements of one lane that several lanes need take several rounds, or shared memory of the warp") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int held : {1, 2, 3}) {
    // All warps hold all elements, 2^held of them in the registers of each lane. Then each warp keeps a part,
    // and different lanes need the different registers of one lane.
    std::vector<std::uint64_t> from_columns, to_columns;
    for (int i = 0; i < 5 + held; ++i)
      from_columns.push_back(std::uint64_t{1} << i);
    from_columns.insert(from_columns.end(), static_cast<std::size_t>(held), 0);
    for (int i = 0; i < 5 + held; ++i)
      to_columns.push_back(std::uint64_t{1} << i);
    const LinearLayout from({{in_register, held}, {in_lane, 5}, {in_warp, held}}, {{"dim0", 5 + held}},
                            from_columns);
    const LinearLayout to({{in_register, 0}, {in_lane, 5}, {in_warp, held}}, {{"dim0", 5 + held}},
                          to_columns);
    const Conversion plan = plan_conversion(from, to, 4);
    check(plan, from, to, 4, random);
    const auto rounds = plan_shuffles(from, to, 32);
    REQUIRE(rounds);
    CHECK(rounds->rounds == 1 << held);
    check(*rounds, from, to, 4, random);
    if (held <= 2)
      CHECK(std::holds_alternative<WarpShuffles>(plan));
    else {
      REQUIRE(std::holds_alternative<SharedExchange>(plan));
      CHECK(std::get<SharedExchange>(plan).within_warp);
    }
  }
}

TEST_CASE("coalesced layouts, mma fragments and their slices convert into each other") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int element_bytes : {1, 2, 4, 8}) {
    for (int m = 4; m <= 6; ++m)
      for (int n = 5; n <= 6; ++n)
        for (int warps = 0; warps <= 3; ++warps) {
          CAPTURE(element_bytes, m, n, warps);
          const int along_m = between(random, 0, warps), vector = between(random, 0, 4);
          const LinearLayout c = mma_accumulator(m, n, along_m, warps - along_m);
          std::vector<LinearLayout> layouts{
              c, blocked({m, n}, {1, 0}, vector, warps),
              blocked({m, n}, {0, 1}, between(random, 0, 3), warps),
              mma_operand(0, mma_accumulator(m, 5, along_m, warps - along_m), n, 16),
              mma_operand(1, mma_accumulator(5, n, along_m, warps - along_m), m, 16)};
          for (const LinearLayout& from : layouts)
            for (const LinearLayout& to : layouts) {
              if (kiln::test::left_out(random)) continue;
              const Conversion plan = plan_conversion(from, to, element_bytes);
              CHECK(check(plan, from, to, element_bytes, random) == 0);
              if (const auto* shared = std::get_if<SharedExchange>(&plan)) {
                CHECK(shared->store_elements * element_bytes <= 16);
                CHECK(shared->load_elements * element_bytes <= 16);
              }
              for (int axis : {0, 1}) {
                const LinearLayout row = sliced(from, axis), other = sliced(to, axis);
                CHECK(check(plan_conversion(row, other, element_bytes), row, other, element_bytes, random) ==
                      0);
              }
            }
        }
  }
}

TEST_CASE("an accumulator becomes the next dot's left operand without any exchange") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // Attention: 64 x 64 scores on 4 warps, converted to 16 bits, are A of the product with the values.
  const LinearLayout scores = mma_accumulator(6, 6, 2, 0), output = mma_accumulator(6, 7, 2, 0);
  const LinearLayout a = mma_operand(0, output, 6, 16);
  const Conversion plan = plan_conversion(scores, a, 2);
  CHECK(plan.index() <= 1);
  check(plan, scores, a, 2, random);
}

TEST_CASE("many registers are transposed through memory, few by shuffles") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int bits = 1; bits <= 5; ++bits) {
    const LinearLayout rows({{in_register, bits}, {in_lane, 5}, {in_warp, 0}}, {{"dim0", bits}, {"dim1", 5}},
                            [&] {
                              std::vector<std::uint64_t> columns;
                              for (int i = 0; i < bits + 5; ++i)
                                columns.push_back(std::uint64_t{1} << i);
                              return columns;
                            }());
    std::vector<std::uint64_t> columns;
    for (int i = 0; i < bits; ++i) // swap the bits of registers and the first bits of lanes
      columns.push_back(rows.column(bits + i));
    for (int i = 0; i < bits; ++i)
      columns.push_back(rows.column(i));
    for (int i = bits; i < 5; ++i)
      columns.push_back(rows.column(bits + i));
    const LinearLayout turned(rows.ins(), rows.outs(), columns);
    const auto shuffles = plan_shuffles(rows, turned);
    REQUIRE(shuffles);
    CHECK(shuffles->shuffles() == (1 << bits) - 1);
    CHECK(shuffles->selects() == 2 * bits << bits);
    check(*shuffles, rows, turned, 4, random);
    const Conversion plan = plan_conversion(rows, turned, 4);
    CHECK(std::holds_alternative<WarpShuffles>(plan) == (bits <= 3));
    check(plan, rows, turned, 4, random);
  }
}

TEST_CASE("in an epilogue, accumulators become coalesced rows by wide accesses") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // 64 x 64 half-precision values on 4 warps: pairs are stored, 16 bytes are loaded.
  const LinearLayout c = mma_accumulator(6, 6, 2, 0), rows = blocked({6, 6}, {1, 0}, 3, 2);
  const SharedExchange plan = plan_shared_exchange(c, rows, 2);
  CHECK(plan.load_elements == 8);
  CHECK(plan.store_elements == 2);
  CHECK(plan.bytes == 8192);
  CHECK(plan.stores.size() == 16);
  CHECK(plan.loads.size() == 4);
  CHECK(check(plan, c, rows, 2, random) == 0);
  // If each warp keeps its 16 rows, only the warp itself waits.
  const LinearLayout own = mma_accumulator(6, 6, 2, 0);
  CHECK(plan_shared_exchange(c, own, 4).within_warp);
  // In a transpose of 32-bit values both sides have no registers in common, so only one has vectors.
  const LinearLayout down = blocked({5, 5}, {0, 1}, 2, 0), across = blocked({5, 5}, {1, 0}, 2, 0);
  const SharedExchange turned = plan_shared_exchange(down, across, 4);
  CHECK(std::max(turned.store_elements, turned.load_elements) == 4);
  CHECK(check(turned, down, across, 4, random) == 0);
}

TEST_CASE("a large tile is converted in passes that fit into shared memory") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LinearLayout c = mma_accumulator(7, 7, 1, 2), rows = blocked({7, 7}, {1, 0}, 2, 3);
  CHECK(plan_shared_exchange(c, rows, 4).bytes == 65536);
  const Conversion plan = plan_conversion(c, rows, 4, 20000);
  REQUIRE(std::holds_alternative<SharedExchange>(plan));
  const auto& shared = std::get<SharedExchange>(plan);
  CHECK(shared.bytes == 16384);
  CHECK(shared.passes == 4);
  CHECK(check(plan, c, rows, 4, random) == 0);
  check_memory(shared, c, rows, 4);
}

TEST_CASE("passes are split by bits that both sides reach") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // Warps hold copies, and the loads of a warp do not use one bit of the offset.
  auto at = [](std::uint64_t row, std::uint64_t column) { return row | column << 3; };
  const LinearLayout from({{in_register, 5}, {in_lane, 5}, {in_warp, 2}}, {{"dim0", 3}, {"dim1", 6}},
                          {at(4, 0), at(4, 31), at(5, 18), at(2, 36), at(0, 14), at(4, 36), at(2, 39),
                           at(6, 37), at(6, 50), at(4, 21), at(2, 15), at(5, 47)});
  const LinearLayout to(
      {{in_register, 2}, {in_lane, 5}, {in_warp, 2}}, {{"dim0", 3}, {"dim1", 6}},
      {at(2, 0), at(0, 2), at(0, 4), at(0, 1), at(0, 16), at(0, 8), at(4, 0), at(0, 32), at(1, 0)});
  const SharedExchange whole = plan_shared_exchange(from, to, 1);
  CHECK(whole.within_warp);
  for (int part : {2, 4, 8}) {
    const SharedExchange plan = in_passes(whole, 1, whole.bytes / part);
    CHECK(check(plan, from, to, 1, random) == 0);
    check_memory(plan, from, to, 1);
  }
}

TEST_CASE("the hardware serves 8, 16 or 32 lanes at a time") {
  CHECK(lanes_together_bits(16) == 3);
  CHECK(lanes_together_bits(8) == 4);
  for (int bytes : {1, 2, 4})
    CHECK(lanes_together_bits(bytes) == 5);
  // Conflicts are counted: 32 lanes down a column of a row-major tile access the same bank.
  SharedMemory memory(32 * 128);
  std::vector<SharedMemory::Request> column;
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    column.push_back({lane, lane * 128});
  memory.account(column, 4);
  CHECK(memory.conflicts == 31);
}
