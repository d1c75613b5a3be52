// Constructs blocked and sliced layouts, mma fragments and their tilings, and layouts of shared memory.
#include <kiln/jit/gpu/layout/layouts.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {
namespace {

std::vector<std::string> axis_names(int rank) {
  std::vector<std::string> names;
  for (int axis = 0; axis < rank; ++axis)
    names.push_back(axis_name(axis));
  return names;
}

int rank_of(const LinearLayout& layout) { return static_cast<int>(layout.outs().size()); }

// The dimensions in the order that all layouts of this file have.
LinearLayout in_order(const LinearLayout& layout, int rank) {
  return layout.with_ins({in_register, in_lane, in_warp}).with_outs(axis_names(rank));
}

LinearLayout step(const char* in, int axis, int bits = 1) {
  return LinearLayout::identity(bits, in, axis_name(axis));
}

int log2_exact(int value, const char* what) {
  internal_check(value > 0 && std::has_single_bit(static_cast<unsigned>(value)),
                 [&] { return std::string(what) + " is not a power of two: " + std::to_string(value); });
  return std::countr_zero(static_cast<unsigned>(value));
}

} // namespace

LinearLayout blocked(const std::vector<int>& shape_bits, const std::vector<int>& order, int vector_bits,
                     int warp_bits) {
  const int rank = static_cast<int>(shape_bits.size());
  internal_check(order.size() == shape_bits.size(), "the order of a blocked layout names each axis once");
  std::vector<int> left = shape_bits;
  LinearLayout layout;
  auto take = [&](const char* in, int axis, int bits) {
    int taken = std::min(bits, left[static_cast<std::size_t>(axis)]);
    left[static_cast<std::size_t>(axis)] -= taken;
    layout = layout * step(in, axis, taken);
    return bits - taken;
  };
  if (rank > 0) take(in_register, order[0], vector_bits);
  for (auto [in, bits] : {std::pair{in_lane, lane_bits}, {in_warp, warp_bits}}) {
    for (int axis : order)
      bits = take(in, axis, bits);
    layout =
        layout * LinearLayout({{in, bits}}, {}, std::vector<std::uint64_t>(static_cast<std::size_t>(bits)));
  }
  for (int axis : order)
    take(in_register, axis, left[static_cast<std::size_t>(axis)]);
  return in_order(layout, rank);
}

std::vector<int> kept_register_bits(const LinearLayout& layout, int axis) {
  LinearLayout rest = layout.without_out(axis_name(axis)).with_ins({in_register, in_lane, in_warp});
  const std::uint64_t dropped = rest.redundant(in_register);
  std::vector<int> kept;
  for (int i = 0; i < rest.in_bits(in_register); ++i)
    if (!(dropped >> i & 1)) kept.push_back(i);
  return kept;
}

LinearLayout sliced(const LinearLayout& layout, int axis) {
  const int rank = rank_of(layout);
  LinearLayout rest = layout.without_out(axis_name(axis)).with_ins({in_register, in_lane, in_warp});
  for (int above = axis + 1; above < rank; ++above)
    rest = rest.renamed_out(axis_name(above), axis_name(above - 1));
  LinearLayout::Dims ins = rest.ins();
  std::vector<std::uint64_t> columns;
  for (int bit : kept_register_bits(layout, axis))
    columns.push_back(rest.column(in_register, bit));
  ins[0].bits = static_cast<int>(columns.size());
  for (const char* in : {in_lane, in_warp})
    for (int i = 0; i < rest.in_bits(in); ++i)
      columns.push_back(rest.column(in, i));
  return LinearLayout(std::move(ins), rest.outs(), std::move(columns)).with_outs(axis_names(rank - 1));
}

LinearLayout expanded(const LinearLayout& layout, int axis) {
  const int rank = rank_of(layout);
  LinearLayout result = layout;
  for (int above = rank - 1; above >= axis; --above)
    result = result.renamed_out(axis_name(above), axis_name(above + 1));
  return result.with_outs(axis_names(rank + 1));
}

LinearLayout mma_accumulator_fragment() {
  return in_order(step(in_register, 1) * step(in_lane, 1, 2) * step(in_lane, 0, 3) * step(in_register, 0), 2);
}

LinearLayout mma_operand_fragment(int operand, int element_bits) {
  const int packed = log2_exact(32 / element_bits, "the number of elements in a 32-bit word");
  const int k = operand == 0 ? 1 : 0, other = 1 - k;
  LinearLayout words = step(in_register, k, packed) * step(in_lane, k, 2) * step(in_lane, other, 3);
  if (operand == 0)
    words = words * step(in_register, other); // rows g and g + 8 come before the other half of k
  return in_order(words * step(in_register, k), 2);
}

LinearLayout mma_accumulator(int m_bits, int n_bits, int warps_m_bits, int warps_n_bits) {
  internal_check(m_bits >= 4 && n_bits >= 3, "an mma accumulator has at least 16 x 8 elements");
  const int warps_m = std::min(warps_m_bits, m_bits - 4), warps_n = std::min(warps_n_bits, n_bits - 3);
  return in_order(mma_accumulator_fragment() * step(in_register, 1, n_bits - 3 - warps_n) *
                      step(in_register, 0, m_bits - 4 - warps_m) * step(in_warp, 0, warps_m) *
                      LinearLayout::zeros(warps_m_bits - warps_m, in_warp, axis_name(0)) *
                      step(in_warp, 1, warps_n) *
                      LinearLayout::zeros(warps_n_bits - warps_n, in_warp, axis_name(1)),
                  2);
}

LinearLayout mma_operand(int operand, const LinearLayout& accumulator, int k_bits, int element_bits) {
  const auto repeats = accumulator.divided_by(mma_accumulator_fragment());
  internal_check(repeats.has_value(), [&] {
    return "the accumulator of an mma operand is not made of fragments:\n" + accumulator.to_string();
  });
  const LinearLayout fragment = mma_operand_fragment(operand, element_bits);
  const int k = operand == 0 ? 1 : 0;
  const int fragment_k_bits = fragment.out_bits(axis_name(k));
  internal_check(k_bits >= fragment_k_bits, "an mma operand has at least 32 bytes along k");
  // Replace the axis that only the other operand has by k.
  LinearLayout along = expanded(sliced(in_order(*repeats, 2), k), k);
  return in_order(fragment * along * step(in_register, k, k_bits - fragment_k_bits), 2);
}

LinearLayout row_major_shared(const std::vector<int>& shape_bits) {
  const int rank = static_cast<int>(shape_bits.size());
  LinearLayout layout({{in_offset, 0}}, {}, {});
  for (int axis = rank - 1; axis >= 0; --axis)
    layout = layout * step(in_offset, axis, shape_bits[static_cast<std::size_t>(axis)]);
  return layout.with_outs(axis_names(rank));
}

LinearLayout swizzled_shared(const std::vector<int>& shape_bits, int element_bytes) {
  LinearLayout plain = row_major_shared(shape_bits);
  const int rank = static_cast<int>(shape_bits.size());
  if (rank < 2) return plain;
  const int within_chunk = 4 - log2_exact(element_bytes, "an element's size in bytes"); // 16 bytes
  const int column_bits = shape_bits[static_cast<std::size_t>(rank - 1)];
  const int row_bits = shape_bits[static_cast<std::size_t>(rank - 2)];
  const int chunks = std::clamp(column_bits - within_chunk, 0, 3);
  // Let offset bits of the row flip bits of the chunk number as well.
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < plain.in_bits(); ++i)
    columns.push_back(plain.column(i));
  for (int i = 0; i < chunks; ++i) {
    int row = 3 - chunks + i;
    if (row < row_bits)
      columns[static_cast<std::size_t>(column_bits + row)] ^= plain.column(in_offset, within_chunk + i);
  }
  return LinearLayout(plain.ins(), plain.outs(), std::move(columns));
}

int vector_elements(const LinearLayout& layout, int fast_axis) {
  const std::string fast = axis_name(fast_axis);
  int bits = 0;
  while (bits < layout.in_bits(in_register) && bits < layout.out_bits(fast) &&
         layout.basis(in_register, bits, fast) == std::int64_t{1} << bits &&
         std::popcount(layout.column(in_register, bits)) == 1)
    ++bits;
  return 1 << bits;
}

Copies copies(const LinearLayout& layout) {
  LinearLayout ordered = layout.with_ins({in_register, in_lane, in_warp});
  return {ordered.redundant(in_register), ordered.redundant(in_lane), ordered.redundant(in_warp)};
}

} // namespace kiln::gpu
