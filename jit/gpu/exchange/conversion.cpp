// Chooses between renaming registers, shuffles and shared memory by the estimated cost of their plans.
#include <kiln/jit/gpu/exchange/conversion.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/exchange/conversion_sides.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {
namespace {

Columns columns_of(const LinearLayout& layout, const char* in) {
  Columns columns;
  for (int i = 0; i < layout.in_bits(in); ++i)
    columns.push_back(layout.column(in, i));
  return columns;
}

} // namespace

std::uint32_t ThreadFunction::operator()(std::uint32_t lane_id, std::uint32_t warp_id) const {
  std::uint32_t value = constant;
  for (std::size_t i = 0; i < lane.size(); ++i)
    if (lane_id >> i & 1) value ^= lane[i];
  for (std::size_t i = 0; i < warp.size(); ++i)
    if (warp_id >> i & 1) value ^= warp[i];
  return value;
}

std::uint32_t ThreadFunction::bits() const {
  std::uint32_t all = constant;
  for (const auto* columns : {&lane, &warp})
    for (std::uint32_t column : *columns)
      all |= column;
  return all;
}

bool ThreadFunction::is_constant() const {
  auto zero = [](std::uint32_t column) { return column == 0; };
  return std::ranges::all_of(lane, zero) && std::ranges::all_of(warp, zero);
}

bool ThreadFunction::is_lane() const {
  for (std::size_t i = 0; i < lane.size(); ++i)
    if (lane[i] != std::uint32_t{1} << i) return false;
  return constant == 0 && std::ranges::all_of(warp, [](std::uint32_t column) { return column == 0; });
}

int WarpShuffles::shuffles() const {
  return static_cast<int>(std::ranges::count_if(steps, [](const Step& step) { return step.moves; }));
}

int WarpShuffles::selects() const {
  const auto offers = std::ranges::max(steps, {}, &Step::offered).offered + 1;
  const auto slots = static_cast<int>(steps.size()) / rounds;
  return offers * std::popcount(source_flip.bits()) + slots * (rounds - 1) +
         slots * std::popcount(slot_flip.bits());
}

double cost(const WarpShuffles& plan, int element_bytes) {
  const int words = element_bytes > 4 ? 2 : 1;
  return words * (plan.shuffles() + plan.selects() / 2.0);
}

double cost(const SharedExchange& plan, int element_bytes) {
  auto passes = [&](std::size_t accesses, int elements) {
    return static_cast<double>(accesses) * std::max(1, elements * element_bytes / 4);
  };
  return passes(plan.stores.size(), plan.store_elements) + passes(plan.loads.size(), plan.load_elements) +
         plan.passes * ((plan.within_warp ? 16 : 64) + 16);
}

BothSides both_sides(const LinearLayout& from, const LinearLayout& to) {
  std::vector<std::string> axes;
  for (const auto& d : from.outs())
    axes.push_back(d.name);
  const LinearLayout a = from.with_ins({in_register, in_lane, in_warp});
  const LinearLayout b = to.with_ins({in_register, in_lane, in_warp}).with_outs(axes);
  internal_check(a.outs() == b.outs() && a.in_bits(in_lane) == b.in_bits(in_lane) &&
                     a.in_bits(in_warp) == b.in_bits(in_warp),
                 [&] {
                   return "a conversion needs two layouts of one tile and of as many threads:\n" +
                          from.to_string() + to.to_string();
                 });
  internal_check(a.is_surjective() && b.is_surjective(), [&] {
    return "a conversion needs layouts that reach every element:\n" + from.to_string() + to.to_string();
  });
  auto sides = [](const LinearLayout& l) {
    return Sides{columns_of(l, in_register), columns_of(l, in_lane), columns_of(l, in_warp)};
  };
  return {sides(a), sides(b), a.out_bits()};
}

std::uint64_t combined(const Columns& columns, std::uint64_t bits) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (bits >> i & 1) value ^= columns[i];
  return value;
}

Compacted compacted(const Columns& columns) {
  Compacted result;
  Echelon echelon;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::uint64_t unit = std::uint64_t{1} << result.kept.size();
    if (echelon.add(columns[i], unit)) {
      result.kept.push_back(static_cast<int>(i));
      result.number.push_back(unit);
    } else
      result.number.push_back(echelon.reduce(columns[i]).combination);
  }
  return result;
}

bool is_nothing(const LinearLayout& from, const LinearLayout& to) {
  const BothSides sides = both_sides(from, to);
  return sides.from.registers == sides.to.registers && sides.from.lanes == sides.to.lanes &&
         sides.from.warps == sides.to.warps;
}

std::optional<RegisterMoves> plan_register_moves(const LinearLayout& from, const LinearLayout& to) {
  const BothSides sides = both_sides(from, to);
  // All threads rename registers in the same way, so lanes and warps must hold the same in both layouts.
  if (sides.from.lanes != sides.to.lanes || sides.from.warps != sides.to.warps) return std::nullopt;
  Echelon held;
  for (std::size_t i = 0; i < sides.from.registers.size(); ++i)
    held.add(sides.from.registers[i], std::uint64_t{1} << i);
  Columns source;
  for (std::uint64_t column : sides.to.registers) {
    auto row = held.reduce(column);
    if (row.value != 0) return std::nullopt;
    source.push_back(row.combination);
  }
  RegisterMoves moves;
  for (std::uint64_t r = 0; r < std::uint64_t{1} << source.size(); ++r)
    moves.source.push_back(static_cast<int>(combined(source, r)));
  return moves;
}

Conversion plan_conversion(const LinearLayout& from, const LinearLayout& to, int element_bytes,
                           std::int64_t most_scratch_bytes) {
  if (is_nothing(from, to)) return Nothing{};
  if (auto moves = plan_register_moves(from, to)) return *moves;
  SharedExchange shared =
      in_passes(plan_shared_exchange(from, to, element_bytes), element_bytes, most_scratch_bytes);
  if (auto shuffles = plan_shuffles(from, to))
    if (cost(*shuffles, element_bytes) <= cost(shared, element_bytes)) return *shuffles;
  return shared;
}

} // namespace kiln::gpu
