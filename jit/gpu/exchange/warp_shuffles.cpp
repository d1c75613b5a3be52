// Plans a conversion in which every warp keeps its elements, as shuffles between its lanes.
#include <kiln/jit/gpu/exchange/conversion.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/exchange/conversion_sides.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <algorithm>

namespace kiln::gpu {
namespace {

// Finds places in a warp that hold an element. A place is one number: the bits of the register, then the bits
// of the lane.
class Places {
public:
  Places(const Sides& from, bool own_lane_only) : register_bits_(static_cast<int>(from.registers.size())) {
    int bit = 0;
    auto add = [&](std::uint64_t column) {
      const std::uint64_t unit = std::uint64_t{1} << bit++;
      if (!echelon_.add(column, unit)) copies_.push_back(echelon_.reduce(column).combination ^ unit);
    };
    for (std::uint64_t column : from.registers)
      add(column);
    if (!own_lane_only)
      for (std::uint64_t column : from.lanes)
        add(column);
    for (std::uint64_t place : copies_)
      copy_lanes_.add(lane(place), place);
  }

  // A place that holds the element: a register of lane 0 if possible.
  std::optional<std::uint64_t> of(std::uint64_t element) const {
    auto row = echelon_.reduce(element);
    return row.value == 0 ? std::optional(row.combination) : std::nullopt;
  }
  std::uint32_t register_of(std::uint64_t place) const {
    return static_cast<std::uint32_t>(place & ((std::uint64_t{1} << register_bits_) - 1));
  }
  std::uint64_t lane(std::uint64_t place) const { return place >> register_bits_; }

  // The lane of a place modulo the span of copy_lanes(): the same for all copies of an element.
  std::uint64_t lane_modulo_copies(std::uint64_t place) const {
    return copy_lanes_.reduce(lane(place)).value;
  }
  // The place that holds the same element in a lane that differs by `lanes`, which must be in the span of
  // copy_lanes().
  std::uint64_t moved(std::uint64_t place, std::uint64_t lanes) const {
    auto row = copy_lanes_.reduce(lanes);
    internal_check(row.value == 0, "a lane holds no copy");
    return place ^ row.combination;
  }
  // A basis of the lanes that hold the element of register 0 of lane 0 in some register.
  Columns copy_lanes() const {
    Columns lanes;
    for (std::uint64_t place : copies_)
      lanes.push_back(lane(place));
    return independent(lanes);
  }

private:
  int register_bits_;
  Echelon echelon_;    // of elements; its combinations are places
  Columns copies_;     // a basis of the places that hold element 0
  Echelon copy_lanes_; // of their lanes; its combinations are places
};

// Where the lanes of a warp find the elements that they need: for each lane bit of the destination, the place
// of its element and the slot bits that it flips.
struct LanePlan {
  Columns place, flip;
};

// A combination of lane bits of the destination, and the slot bits that it flips.
struct Direction {
  std::uint64_t lanes, flip = 0;
};

// Chooses source places and slot flips such that as many destination lanes as possible read from different
// lanes.
std::optional<LanePlan> plan_lanes(const Places& places, const Columns& needed, const Columns& slots) {
  for (const Columns* columns : {&needed, &slots})
    for (std::uint64_t element : *columns)
      if (!places.of(element)) return std::nullopt;
  auto element_of = [&](const Direction& d) { return combined(needed, d.lanes) ^ combined(slots, d.flip); };

  // Along a direction in `apart`, the lanes that are read differ whichever copies are read. Along one in
  // `together`, all lanes read from one lane or from copies of it. Along one in `equal`, they need the same
  // element.
  std::vector<Direction> apart, together, equal;
  Echelon source_lanes, elements;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const std::uint64_t unit = std::uint64_t{1} << i;
    auto row = source_lanes.reduce(places.lane_modulo_copies(*places.of(needed[i])), unit);
    if (row.value != 0) {
      source_lanes.add(row.value, row.combination);
      apart.push_back({unit});
      continue;
    }
    Direction d{row.combination & ((std::uint64_t{1} << needed.size()) - 1)};
    auto left = elements.reduce(element_of(d), d.lanes);
    if (left.value == 0)
      equal.push_back({left.combination});
    else {
      elements.add(left.value, left.combination);
      together.push_back(d);
    }
  }

  // Along some directions in `together`, lanes can read different copies. Along the others, lanes fill
  // different slots in the same step.
  const Columns copies = places.copy_lanes();
  for (bool own : {true, false}) // prefer directions along which lanes then read from themselves
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (together.size() <= copies.size()) break;
      const std::uint64_t lane = places.lane_modulo_copies(*places.of(slots[slot]));
      auto at = std::ranges::find_if(together, [&](const Direction& d) { return !own || d.lanes == lane; });
      if (at == together.end() || !source_lanes.add(lane)) continue;
      apart.push_back({at->lanes, std::uint64_t{1} << slot});
      together.erase(at);
    }

  // Go back from directions to single lane bits.
  Echelon directions;
  Columns place, flip;
  auto add = [&](const Direction& d, std::uint64_t source) {
    directions.add(d.lanes, std::uint64_t{1} << place.size());
    place.push_back(source);
    flip.push_back(d.flip);
  };
  for (const Direction& d : apart)
    add(d, *places.of(element_of(d)));
  for (std::size_t i = 0; i < together.size(); ++i) {
    const std::uint64_t source = *places.of(element_of(together[i]));
    add(together[i], places.moved(source, places.lane(source) ^ (i < copies.size() ? copies[i] : 0)));
  }
  for (const Direction& d : equal)
    add(d, 0);
  LanePlan plan;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const std::uint64_t bits = directions.reduce(std::uint64_t{1} << i).combination;
    plan.place.push_back(combined(place, bits));
    plan.flip.push_back(combined(flip, bits));
  }
  return plan;
}

std::vector<std::uint32_t> narrow(const Columns& columns) { return {columns.begin(), columns.end()}; }

// Makes the plan from the places that lanes, slots and warps read.
std::optional<WarpShuffles> emit(const Places& places, const LanePlan& lanes, const Columns& slot_places,
                                 const Columns& warp_places, const Columns& slot_numbers, int max_rounds) {
  Columns source_lane, source_register;
  for (std::uint64_t place : lanes.place) {
    source_lane.push_back(places.lane(place));
    source_register.push_back(places.register_of(place));
  }
  // Which register a lane offers must follow from its own number. `reader` gives one of the lanes that read
  // from it. All other lanes that do differ from that one by a combination `sharing`, and the registers that
  // those need instead span `extra`.
  Echelon reader, extra;
  Columns rounds;
  auto add_reader = [&](std::size_t i) {
    const std::uint64_t unit = std::uint64_t{1} << i;
    if (reader.add(source_lane[i], unit)) return;
    const std::uint64_t sharing = reader.reduce(source_lane[i]).combination ^ unit;
    const std::uint64_t registers = combined(source_register, sharing);
    if (extra.add(registers, std::uint64_t{1} << rounds.size())) rounds.push_back(registers);
  };
  for (std::size_t i = 0; i < source_lane.size(); ++i)
    add_reader(i);
  if (rounds.size() > 30 || (std::int64_t{1} << rounds.size()) > max_rounds) return std::nullopt;
  auto sent = [&](std::uint64_t lane) { return combined(source_register, reader.reduce(lane).combination); };

  WarpShuffles plan;
  plan.rounds = 1 << rounds.size();
  plan.slot_flip.lane = narrow(lanes.flip);
  for (std::size_t i = 0; i < source_lane.size(); ++i) {
    const std::uint64_t sharing = reader.reduce(source_lane[i]).combination ^ std::uint64_t{1} << i;
    plan.kept_round.lane.push_back(
        static_cast<std::uint32_t>(extra.reduce(combined(source_register, sharing)).combination));
  }
  plan.source_lane.lane = narrow(source_lane);
  for (std::size_t i = 0; i < source_lane.size(); ++i)
    plan.source_flip.lane.push_back(static_cast<std::uint32_t>(sent(std::uint64_t{1} << i)));
  for (std::uint64_t place : warp_places) {
    plan.source_lane.warp.push_back(static_cast<std::uint32_t>(places.lane(place)));
    plan.source_flip.warp.push_back(places.register_of(place) ^
                                    static_cast<std::uint32_t>(sent(places.lane(place))));
  }
  const bool own_lane = plan.source_lane.is_lane();
  for (std::uint64_t slot = 0; slot < std::uint64_t{1} << slot_places.size(); ++slot) {
    const std::uint64_t place = combined(slot_places, slot);
    const std::uint64_t offered = places.register_of(place) ^ sent(places.lane(place));
    for (std::uint64_t round = 0; round < std::uint64_t{1} << rounds.size(); ++round)
      plan.steps.push_back({static_cast<int>(offered ^ combined(rounds, round)),
                            static_cast<int>(places.lane(place)), !own_lane || places.lane(place) != 0});
  }
  for (std::uint64_t r = 0; r < std::uint64_t{1} << slot_numbers.size(); ++r)
    plan.slot_of.push_back(static_cast<int>(combined(slot_numbers, r)));
  return plan;
}

} // namespace

std::optional<WarpShuffles> plan_shuffles(const LinearLayout& from, const LinearLayout& to, int max_rounds) {
  const BothSides sides = both_sides(from, to);
  const Compacted registers = compacted(sides.to.registers);
  Columns slots;
  for (int kept : registers.kept)
    slots.push_back(sides.to.registers[static_cast<std::size_t>(kept)]);

  // If every lane holds all elements that it needs, selects are enough.
  for (bool own_lane : {true, false}) {
    const Places places(sides.from, own_lane);
    auto all_of = [&](const Columns& elements) {
      std::optional<Columns> found(std::in_place);
      for (std::uint64_t element : elements)
        if (auto place = places.of(element); place && found)
          found->push_back(*place);
        else
          found.reset();
      return found;
    };
    Columns warps;
    for (std::size_t i = 0; i < sides.to.warps.size(); ++i)
      warps.push_back(sides.to.warps[i] ^ sides.from.warps[i]);
    const auto slot_places = all_of(slots), warp_places = all_of(warps);
    if (!slot_places || !warp_places) continue;
    std::optional<LanePlan> lanes;
    if (own_lane) {
      Columns differences;
      for (std::size_t i = 0; i < sides.to.lanes.size(); ++i)
        differences.push_back(sides.to.lanes[i] ^ sides.from.lanes[i]);
      if (auto found = all_of(differences)) {
        lanes.emplace(LanePlan{*found, Columns(differences.size(), 0)});
        for (std::size_t i = 0; i < differences.size(); ++i)
          lanes->place[i] |= std::uint64_t{1} << (sides.from.registers.size() + i);
      }
    } else
      lanes = plan_lanes(places, sides.to.lanes, slots);
    if (!lanes) continue;
    if (auto plan = emit(places, *lanes, *slot_places, *warp_places, registers.number, max_rounds))
      return plan;
  }
  return std::nullopt;
}

} // namespace kiln::gpu
