// Splits an exchange through shared memory into passes, so that it needs less of it.
#include <kiln/jit/gpu/exchange/conversion.h>

#include <kiln/dsl/error.h>

#include <bit>

namespace kiln::gpu {
namespace {

std::uint32_t without_bit(std::uint32_t value, int bit) {
  const std::uint32_t below = (std::uint32_t{1} << bit) - 1;
  return (value & below) | (value >> 1 & ~below);
}

std::uint32_t reached(const std::vector<SharedExchange::Access>& accesses) {
  std::uint32_t bits = 0;
  for (const auto& access : accesses)
    bits |= access.offset;
  return bits;
}

// Moves the accesses of the second half of the passes behind those of the first half.
void divide(std::vector<SharedExchange::Access>& accesses, int bit) {
  std::vector<SharedExchange::Access> ordered;
  for (std::uint32_t half : {0u, 1u})
    for (const auto& access : accesses)
      if ((access.offset >> bit & 1) == half)
        ordered.push_back({without_bit(access.offset, bit), access.registers});
  accesses = std::move(ordered);
}

void divide(ThreadFunction& offset, int bit) {
  for (auto* columns : {&offset.lane, &offset.warp})
    for (std::uint32_t& column : *columns)
      column = without_bit(column, bit);
}

} // namespace

SharedExchange in_passes(SharedExchange plan, int element_bytes, std::int64_t most_bytes) {
  constexpr int row_bits = 7; // these select the bank, and stay as they are
  while (plan.bytes > most_bytes) {
    // Find a bit of the offset that registers alone decide on both sides. (If warps hold copies, there may be
    // bits that one side does not use at all.)
    const std::uint32_t by_threads = plan.store_offset.bits() | plan.load_offset.bits();
    const std::uint32_t possible = reached(plan.stores) & reached(plan.loads) & ~by_threads;
    const int bit = std::bit_width(possible) - 1;
    if (bit < row_bits) break;
    divide(plan.stores, bit);
    divide(plan.loads, bit);
    divide(plan.store_offset, bit);
    divide(plan.load_offset, bit);
    // It becomes the highest bit of the number of the pass.
    const int element_bit = bit - std::countr_zero(static_cast<unsigned>(element_bytes));
    std::vector<std::uint64_t> columns;
    for (int i = 0; i < plan.memory.in_bits(); ++i)
      if (i != element_bit) columns.push_back(plan.memory.column(i));
    columns.push_back(plan.memory.column(element_bit));
    LinearLayout::Dims ins{{in_offset, plan.memory.in_bits(in_offset) - 1},
                           {"pass", plan.memory.in_bits("pass") + 1}};
    plan.memory = LinearLayout(std::move(ins), plan.memory.outs(), std::move(columns));
    plan.bytes /= 2;
    plan.passes *= 2;
  }
  return plan;
}

} // namespace kiln::gpu
