// Plans reductions along an axis of a tile.
#include <kiln/jit/gpu/exchange/reduction.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/exchange/conversion_sides.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <variant>

namespace kiln::gpu {
namespace {

// The bases of one input dimension, split into the coordinate along the axis and the other coordinates.
struct Split {
  Columns along, across;
};

Split split(const LinearLayout& layout, const char* in, const std::string& axis) {
  const LinearLayout rest = layout.without_out(axis);
  Split result;
  for (int i = 0; i < layout.in_bits(in); ++i) {
    result.along.push_back(static_cast<std::uint64_t>(layout.basis(in, i, axis)));
    result.across.push_back(rest.column(in, i));
  }
  return result;
}

// Adds a balanced tree that combines the registers base ^ (any combination of `directions`) into register
// `base`.
void add_tree(std::vector<Reduction::Pair>& pairs, std::uint64_t base, const Columns& directions) {
  for (std::size_t level = 0; level < directions.size(); ++level)
    for (std::uint64_t i = 0; i < std::uint64_t{1} << directions.size(); i += std::uint64_t{2} << level)
      pairs.push_back({static_cast<int>(base ^ combined(directions, i)),
                       static_cast<int>(base ^ combined(directions, i | std::uint64_t{1} << level))});
}

// Adds such a tree for each combination of `results`, which are the register bits that the result keeps.
void add_trees(std::vector<Reduction::Pair>& pairs, std::vector<int>& holder, const Columns& results,
               const Columns& directions) {
  for (std::uint64_t r = 0; r < std::uint64_t{1} << results.size(); ++r) {
    holder.push_back(static_cast<int>(combined(results, r)));
    add_tree(pairs, combined(results, r), directions);
  }
}

Columns units(std::size_t count, std::size_t from = 0) {
  Columns result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(std::uint64_t{1} << (from + i));
  return result;
}

// Plans how each thread gathers the parts of the axis that are in different warps. `covered` spans what one
// value covers along the axis.
Reduction::WarpExchange exchange_of_warps(const Split& registers, const std::vector<int>& kept,
                                          const Split& lanes, const Split& warps, const Columns& covered,
                                          int axis_bits, const LinearLayout& result, int element_bytes) {
  // Number the parts: part_of() gives the part in which a coordinate along the axis is.
  Echelon parts;
  for (std::uint64_t v : covered)
    parts.add(v);
  const Columns missing = complement(covered, axis_bits);
  for (std::size_t i = 0; i < missing.size(); ++i)
    parts.add(missing[i], std::uint64_t{1} << i);
  auto part_of = [&](std::uint64_t along) { return parts.reduce(along).combination; };

  const int result_bits = result.out_bits();
  Columns partial, gathered;
  auto add = [&](std::uint64_t across, std::uint64_t along) {
    partial.push_back(across | part_of(along) << result_bits);
    gathered.push_back(across);
  };
  for (int bit : kept)
    add(registers.across[static_cast<std::size_t>(bit)], registers.along[static_cast<std::size_t>(bit)]);
  for (std::uint64_t part : units(missing.size(), static_cast<std::size_t>(result_bits)))
    gathered.push_back(part);
  for (const Split* side : {&lanes, &warps})
    for (std::size_t i = 0; i < side->across.size(); ++i)
      add(side->across[i], side->along[i]);

  LinearLayout::Dims outs = result.outs(), ins = result.ins(), wider = ins;
  outs.push_back({"part", static_cast<int>(missing.size())});
  wider[0].bits += static_cast<int>(missing.size());
  Reduction::WarpExchange exchange;
  exchange.partial = LinearLayout(ins, outs, std::move(partial));
  exchange.gathered = LinearLayout(wider, outs, std::move(gathered));
  exchange.exchange = plan_conversion(exchange.partial, exchange.gathered, element_bytes);
  add_trees(exchange.in_thread, exchange.holder, units(kept.size()), units(missing.size(), kept.size()));
  return exchange;
}

} // namespace

std::int64_t Reduction::scratch_bytes() const {
  const auto* shared = warps ? std::get_if<SharedExchange>(&warps->exchange) : nullptr;
  return shared ? shared->bytes : 0;
}

Reduction plan_reduction(const LinearLayout& any_layout, int axis, int element_bytes) {
  const LinearLayout layout = any_layout.with_ins({in_register, in_lane, in_warp});
  internal_check(layout.is_surjective(), [&] {
    return "a reduction needs a layout that reaches every element:\n" + layout.to_string();
  });
  const std::string name = axis_name(axis);
  const Split registers = split(layout, in_register, name), lanes = split(layout, in_lane, name),
              warps = split(layout, in_warp, name);
  Reduction plan;
  plan.result = sliced(layout, axis);

  // Within a thread: combinations of register bits that lead to the same element of the result.
  Echelon seen; // along the axis
  Columns covered;
  auto covers_more = [&](std::uint64_t along) {
    if (!seen.add(along)) return false;
    covered.push_back(along);
    return true;
  };
  const Compacted kept = compacted(registers.across);
  Columns results, directions;
  for (int bit : kept.kept)
    results.push_back(std::uint64_t{1} << bit);
  for (std::size_t i = 0; i < registers.across.size(); ++i) {
    const std::uint64_t direction = (std::uint64_t{1} << i) ^ combined(results, kept.number[i]);
    if (direction != 0 && covers_more(combined(registers.along, direction))) directions.push_back(direction);
  }
  add_trees(plan.in_thread, plan.holder, results, directions);

  // Between lanes, whose registers are now those of the result.
  Echelon places;
  Columns along;
  for (int bit : kept.kept) {
    places.add(registers.across[static_cast<std::size_t>(bit)], std::uint64_t{1} << along.size());
    along.push_back(registers.along[static_cast<std::size_t>(bit)]);
  }
  const std::size_t register_bits = along.size();
  for (std::size_t i = 0; i < lanes.across.size(); ++i) {
    const std::uint64_t unit = std::uint64_t{1} << along.size();
    along.push_back(lanes.along[i]);
    if (places.add(lanes.across[i], unit)) continue;
    const std::uint64_t direction = places.reduce(lanes.across[i]).combination ^ unit;
    if (covers_more(combined(along, direction)))
      plan.lanes.push_back({static_cast<int>(direction >> register_bits),
                            static_cast<int>(direction & ((std::uint64_t{1} << register_bits) - 1))});
  }

  const int axis_bits = layout.out_bits(name);
  if (static_cast<int>(covered.size()) < axis_bits)
    plan.warps =
        exchange_of_warps(registers, kept.kept, lanes, warps, covered, axis_bits, plan.result, element_bytes);
  return plan;
}

} // namespace kiln::gpu
