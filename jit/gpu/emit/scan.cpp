// Scans: along the registers of a thread, then along the lanes of a warp.
//
// The scanned axis lies within one warp (scan_layout): a thread has neighbours along it, lanes have the parts
// in order. Each thread scans its own part; the lanes' totals are scanned by Kogge and Stone's scheme ("A
// parallel algorithm for the efficient solution of a general class of recurrence equations", 1973); what lies
// before a lane's part is combined with each of its elements. A reverse scan counts from the other end.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/emit/combine.h>

#include <algorithm>
#include <bit>
#include <map>

namespace kiln::gpu {

using llvm::Value;

void KernelEmitter::emit_scan(const ir::Op& op) {
  const int axis = static_cast<int>(op.integer("axis"));
  const bool reverse = op.integer("reverse") != 0;
  const ir::Type& type = op.operand(0)->type;
  const LinearLayout layout = scan_layout(type, axis, plan_.warps);
  const std::size_t tiles = op.operands.size();
  std::vector<Values> elements;
  for (const ir::Value* v : op.operands)
    elements.push_back(registers(v, layout));

  struct Partial {
    Values values;
    Value* has = nullptr; // null: yes
  };
  // `first` comes first in the direction of the scan.
  auto merge = [&](const Partial& first, const Partial& second) {
    Partial result{combine(op, first.values, second.values), nullptr};
    if (!first.has && !second.has) return result;
    Value* has_first = first.has ? first.has : b_.getTrue();
    Value* has_second = second.has ? second.has : b_.getTrue();
    for (std::size_t k = 0; k < tiles; ++k)
      result.values[k] = b_.CreateSelect(b_.CreateAnd(has_first, has_second), result.values[k],
                                         b_.CreateSelect(has_first, first.values[k], second.values[k]));
    result.has = b_.CreateOr(has_first, has_second);
    return result;
  };

  // The registers of each row in order along the axis.
  std::map<std::uint64_t, std::vector<int>> rows;
  const LinearLayout others = layout.without_out(axis_name(axis));
  for (int r = 0; r < 1 << layout.in_bits(in_register); ++r)
    rows[others.apply(others.flatten({{in_register, r}}))].push_back(r);
  auto place = [&](int r) {
    std::int64_t at = 0;
    for (int i = 0; i < layout.in_bits(in_register); ++i)
      if (r >> i & 1) at ^= layout.basis(in_register, i, axis_name(axis));
    return at;
  };
  std::uint64_t lanes = 0;
  for (int i = 0; i < layout.in_bits(in_lane); ++i)
    if (layout.basis(in_lane, i, axis_name(axis)) != 0) lanes |= std::uint64_t{1} << i;
  const int lane_count = 1 << std::popcount(lanes); // the low bits of the lane
  Value* position = b_.CreateAnd(lane_, static_cast<std::uint64_t>(lane_count - 1));
  if (reverse) position = b_.CreateSub(b_.getInt32(static_cast<std::uint32_t>(lane_count - 1)), position);

  std::vector<Values> results(tiles, Values(elements[0].size()));
  for (auto& [row, members] : rows) {
    std::sort(members.begin(), members.end(), [&](int a, int b) { return place(a) < place(b); });
    if (reverse) std::reverse(members.begin(), members.end());
    std::vector<Partial> prefixes;
    for (int r : members) {
      Partial one;
      for (const Values& tile : elements)
        one.values.push_back(tile[static_cast<std::size_t>(r)]);
      one.has = inside_tile(layout, r, type);
      prefixes.push_back(prefixes.empty() ? one : merge(prefixes.back(), one));
    }
    if (lane_count > 1) {
      Partial total = prefixes.back();
      auto from_before = [&](const Partial& p, int distance) {
        Value* source = reverse ? b_.CreateAdd(lane_, b_.getInt32(static_cast<std::uint32_t>(distance)))
                                : b_.CreateSub(lane_, b_.getInt32(static_cast<std::uint32_t>(distance)));
        source = b_.CreateAnd(source, 31);
        Partial moved;
        for (Value* v : p.values)
          moved.values.push_back(
              shuffle(v, [&](Value* word) { return machine_.shuffle_from(b_, word, source); }));
        Value* there = b_.CreateICmpUGE(position, b_.getInt32(static_cast<std::uint32_t>(distance)));
        if (p.has)
          there = b_.CreateAnd(
              there, shuffle(p.has, [&](Value* word) { return machine_.shuffle_from(b_, word, source); }));
        moved.has = there;
        return moved;
      };
      for (int distance = 1; distance < lane_count; distance *= 2)
        total = merge(from_before(total, distance), total);
      const Partial before = from_before(total, 1);
      for (Partial& p : prefixes)
        p = merge(before, p);
    }
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t k = 0; k < tiles; ++k)
        results[k][static_cast<std::size_t>(members[i])] = prefixes[i].values[k];
  }
  for (std::size_t k = 0; k < tiles; ++k) {
    const ir::Value* result = op.result(static_cast<int>(k));
    if (cpu::keeps_wide(op))
      for (Value*& v : results[k])
        v = cpu::round_to(b_, numbers_, v, result->type.dtype);
    define(result, layout, results[k]);
  }
}

} // namespace kiln::gpu
