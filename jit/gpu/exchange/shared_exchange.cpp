// Plans a conversion through shared memory without bank conflicts.
#include <kiln/jit/gpu/exchange/conversion.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/exchange/conversion_sides.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {
namespace {

constexpr int row_bytes = 128;   // one word of each bank
constexpr int word_bytes = 4;    // the width of a bank
constexpr int vector_bytes = 16; // the widest access
// Warps that find all elements in their own registers exchange separately, unless storing the copies that
// several warps hold makes the scratch memory larger than this. A heuristic without a measurement: it weighs
// more stores against a barrier of the block.
constexpr std::int64_t most_bytes_for_copies = 16384;

int log2_of(int value) { return std::countr_zero(static_cast<unsigned>(value)); }

void append(Columns& all, const Columns& more) { all.insert(all.end(), more.begin(), more.end()); }

Columns first(const Columns& columns, int count) {
  return {columns.begin(), columns.begin() + std::min<std::ptrdiff_t>(count, std::ssize(columns))};
}

bool has_bit(std::uint64_t mask, int bit) { return mask >> bit & 1; }

// The elements that are exchanged together, by the block or by each warp, as a space of their own.
struct Exchange {
  BothSides sides; // the bases of both layouts in this space
  Columns basis;   // the element of the tile for each bit of the space
  bool within_warp = false;
  Copies silent;
};

Exchange exchange_of_block(const BothSides& sides) {
  Exchange exchange{sides, {}, false, {}};
  for (int i = 0; i < sides.tile_bits; ++i)
    exchange.basis.push_back(std::uint64_t{1} << i);
  return exchange;
}

// The elements of each warp, relative to the one in register 0 of its lane 0. Nothing if a warp needs
// elements that it does not hold.
std::optional<Exchange> exchange_of_warps(const BothSides& sides, int element_bytes) {
  Exchange exchange;
  exchange.within_warp = true;
  Echelon held;
  for (const Columns* columns : {&sides.from.registers, &sides.from.lanes})
    for (std::uint64_t column : *columns)
      if (held.add(column, std::uint64_t{1} << exchange.basis.size())) exchange.basis.push_back(column);
  exchange.sides.tile_bits = static_cast<int>(exchange.basis.size());
  const int copy_bits =
      exchange.sides.tile_bits + static_cast<int>(sides.from.warps.size()) - sides.tile_bits;
  if (copy_bits > 0 && (std::int64_t{element_bytes} << (sides.tile_bits + copy_bits)) > most_bytes_for_copies)
    return std::nullopt;
  bool found = true;
  auto relative = [&](const Columns& columns) {
    Columns result;
    for (std::uint64_t column : columns) {
      auto row = held.reduce(column);
      found = found && row.value == 0;
      result.push_back(row.combination);
    }
    return result;
  };
  Columns differences;
  for (std::size_t i = 0; i < sides.to.warps.size(); ++i)
    differences.push_back(sides.to.warps[i] ^ sides.from.warps[i]);
  exchange.sides.from = {relative(sides.from.registers), relative(sides.from.lanes),
                         Columns(sides.from.warps.size(), 0)};
  exchange.sides.to = {relative(sides.to.registers), relative(sides.to.lanes), relative(differences)};
  return found ? std::optional(exchange) : std::nullopt;
}

// The source places that hold copies of what places without these bits hold, so that they need not store.
Copies silent_places(const Exchange& exchange) {
  Copies silent;
  Echelon seen;
  auto mark = [&](const Columns& columns, std::uint64_t& mask) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (!seen.add(columns[i])) mask |= std::uint64_t{1} << i;
  };
  mark(exchange.sides.from.registers, silent.registers);
  mark(exchange.sides.from.lanes, silent.lanes);
  if (!exchange.within_warp) mark(exchange.sides.from.warps, silent.warps);
  return silent;
}

// The low bits of an offset, which make up a vector, and how many of them the stores and the loads use.
struct Vector {
  Columns low;
  int store_bits = 0, load_bits = 0;
};

// The vectors to choose from, sorted by the number of instructions, the fewest first. Single elements are
// among them and are always possible.
std::vector<Vector> vector_choices(const Columns& from, const Columns& to, int element_bytes) {
  const int most = log2_of(vector_bytes) - log2_of(element_bytes);
  // Combinations of registers that both sides have, single register bits where possible.
  Columns common;
  for (std::uint64_t column : from)
    if (spans(to, column)) common.push_back(column);
  for (std::uint64_t column : to)
    if (spans(from, column)) common.push_back(column);
  append(common, intersection(from, to));
  common = first(independent(common), most);
  // Beyond these, only the vectors of one side get wider.
  auto widened = [&](const Columns& side) {
    Columns wide = common;
    append(wide, side);
    return first(independent(wide), most);
  };
  const Columns wide_stores = widened(from), wide_loads = widened(to);
  const int bits = static_cast<int>(common.size());
  std::vector<Vector> choices;
  for (int wide = static_cast<int>(wide_loads.size()); wide > bits; --wide)
    choices.push_back({first(wide_loads, wide), bits, wide});
  for (int wide = static_cast<int>(wide_stores.size()); wide > bits; --wide)
    choices.push_back({first(wide_stores, wide), wide, bits});
  for (int narrow = bits; narrow >= 0; --narrow)
    choices.push_back({first(common, narrow), narrow, narrow});
  const int stores = static_cast<int>(independent(from).size()),
            loads = static_cast<int>(independent(to).size());
  auto instructions = [&](const Vector& v) {
    return (std::int64_t{1} << (stores - v.store_bits)) + (std::int64_t{1} << (loads - v.load_bits));
  };
  std::vector<Vector> ordered; // among equals, the earlier choice comes first
  for (const Vector& v : choices)
    ordered.insert(std::ranges::upper_bound(ordered, instructions(v), {}, instructions), v);
  return ordered;
}

// A basis of what the offset bits above a row of banks must avoid: one word (or vector) of each lane, and the
// lanes that are served together. The part of a vector beyond its first word comes last.
Columns row_of(const Columns& low, int used_bits, const Columns& lanes, std::uint64_t silent_lanes,
               int element_bytes) {
  const int word_bits = log2_of(word_bytes) - log2_of(std::min(element_bytes, word_bytes));
  Columns row = first(low, word_bits);
  const int together =
      std::min(lanes_together_bits(element_bytes << used_bits), static_cast<int>(lanes.size()));
  for (int i = 0; i < together; ++i)
    if (!has_bit(silent_lanes, i)) row.push_back(lanes[static_cast<std::size_t>(i)]);
  append(row, first(low, used_bits));
  return independent(row);
}

// As many vectors as possible whose span has nothing but zero in common with the span of `a` and with that of
// `b`: a basis of what is outside of both, then sums of one vector that only `a` has and one that only `b`
// has.
Columns avoiding(const Columns& a, const Columns& b, const Columns& preferred) {
  Echelon outside;
  Columns result;
  for (const Columns* columns : {&a, &b})
    for (std::uint64_t v : *columns)
      outside.add(v);
  for (std::uint64_t v : preferred)
    if (outside.add(v)) result.push_back(v);
  const Columns shared = intersection(a, b);
  auto rest = [&](const Columns& all) {
    Columns own = shared;
    append(own, all);
    own = independent(own);
    return Columns(own.begin() + std::ssize(shared), own.end());
  };
  const Columns only_a = rest(a), only_b = rest(b);
  for (std::size_t i = 0; i < std::min(only_a.size(), only_b.size()); ++i)
    result.push_back(only_a[i] ^ only_b[i]);
  return result;
}

// Chooses the element of the exchange for each bit of the offset.
Columns choose_memory(const Exchange& exchange, const Vector& vector, int element_bytes) {
  const Sides &from = exchange.sides.from, &to = exchange.sides.to;
  const int bits = exchange.sides.tile_bits, element = log2_of(element_bytes);
  // Elements smaller than a word share one, preferably those of neighbouring lanes.
  Columns low = vector.low;
  Columns fill = intersection(from.lanes, to.lanes);
  for (const Columns* columns : {&to.lanes, &from.lanes, &to.warps, &from.warps, &from.registers})
    append(fill, *columns);
  const std::size_t in_word = static_cast<std::size_t>(std::max(0, log2_of(word_bytes) - element));
  if (low.size() < in_word) {
    Columns more = low;
    append(more, fill);
    low = first(independent(more), static_cast<int>(in_word));
  }

  const Columns stored = row_of(low, vector.store_bits, from.lanes, exchange.silent.lanes, element_bytes);
  const Columns loaded = row_of(low, vector.load_bits, to.lanes, 0, element_bytes);
  Columns preferred = intersection(from.registers, to.registers);
  for (const Columns* columns : {&from.warps, &to.warps, &from.lanes, &to.lanes, &from.registers})
    append(preferred, *columns);
  const int row_bits = log2_of(row_bytes) - element;
  const int above = std::max(0, bits - row_bits);
  const Columns segments = avoiding(stored, loaded, preferred);
  internal_check(std::ssize(segments) >= above, "no swizzle avoids the lanes of both sides");
  const Columns high = first(segments, above);

  Columns all = low;
  append(all, high);
  internal_check(std::ssize(independent(all)) == std::ssize(all),
                 "the rows of a swizzle overlap its vectors");
  const std::size_t fixed = all.size();
  for (const Columns* columns :
       {&to.lanes, &from.lanes, &to.warps, &from.warps, &to.registers, &from.registers})
    append(all, *columns);
  all = independent(all);
  internal_check(std::ssize(all) == bits, "a swizzle does not reach every element");
  Columns memory = low;
  memory.insert(memory.end(), all.begin() + static_cast<std::ptrdiff_t>(fixed), all.end());
  append(memory, high);
  return memory;
}

// The accesses of one side, which are all stores or all loads, to memory in which bit i of the offset stands
// for element `memory[i]`.
struct SideAccess {
  ThreadFunction offset;
  std::vector<SharedExchange::Access> accesses;
};

// Nothing if threads hold the elements of a vector in different orders.
std::optional<SideAccess> access_side(const Sides& side, const Columns& memory, int vector_bits,
                                      int element_bytes, std::uint64_t copies_in_registers) {
  Echelon offsets;
  for (std::size_t i = 0; i < memory.size(); ++i)
    offsets.add(memory[i], std::uint64_t{1} << i);
  const std::uint64_t within = (std::uint64_t{1} << vector_bits) - 1;
  auto offset_of = [&](std::uint64_t element) { return offsets.reduce(element).combination; };
  auto bytes = [&](std::uint64_t offset) {
    return static_cast<std::uint32_t>((offset & ~within) * static_cast<std::uint64_t>(element_bytes));
  };
  SideAccess result;
  for (auto [columns, to] :
       {std::pair{&side.lanes, &result.offset.lane}, std::pair{&side.warps, &result.offset.warp}})
    for (std::uint64_t column : *columns) {
      if (offset_of(column) & within) return std::nullopt;
      to->push_back(bytes(offset_of(column)));
    }

  // Separate the register bits along a vector from those that select the vector.
  Echelon registers;
  for (std::size_t i = 0; i < side.registers.size(); ++i)
    if (!has_bit(copies_in_registers, static_cast<int>(i)))
      registers.add(side.registers[i], std::uint64_t{1} << i);
  Columns along;
  Echelon used;
  for (int i = 0; i < vector_bits; ++i) {
    auto row = registers.reduce(memory[static_cast<std::size_t>(i)]);
    internal_check(row.value == 0, "a vector is not made of registers");
    along.push_back(row.combination);
    used.add(row.combination);
  }
  Columns across;
  for (std::size_t i = 0; i < side.registers.size(); ++i)
    if (!has_bit(copies_in_registers, static_cast<int>(i)) && used.add(std::uint64_t{1} << i))
      across.push_back(std::uint64_t{1} << i);
  for (std::uint64_t v = 0; v < std::uint64_t{1} << across.size(); ++v) {
    const std::uint64_t base = combined(across, v);
    const std::uint64_t offset = offset_of(combined(side.registers, base));
    SharedExchange::Access access{bytes(offset), {}};
    for (std::uint64_t p = 0; p <= within; ++p)
      access.registers.push_back(static_cast<int>(base ^ combined(along, p ^ (offset & within))));
    result.accesses.push_back(std::move(access));
  }
  return result;
}

SharedExchange assembled(const BothSides& sides, const Exchange& exchange, const Vector& vector,
                         const Columns& memory, const Compacted& destinations, SideAccess stores,
                         SideAccess loads, const LinearLayout::Dims& tile, int element_bytes) {
  SharedExchange plan;
  plan.within_warp = exchange.within_warp;
  plan.silent = exchange.silent;
  plan.store_elements = 1 << vector.store_bits;
  plan.load_elements = 1 << vector.load_bits;
  Columns elements;
  for (std::uint64_t column : memory)
    elements.push_back(combined(exchange.basis, column));
  if (exchange.within_warp)
    for (std::size_t i = 0; i < sides.from.warps.size();
         ++i) { // each warp has its own piece of the scratch memory
      const auto piece = static_cast<std::uint32_t>(element_bytes) << (memory.size() + i);
      stores.offset.warp[i] ^= piece;
      loads.offset.warp[i] ^= piece;
      elements.push_back(sides.from.warps[i]);
    }
  plan.bytes = std::int64_t{element_bytes} << elements.size();
  const int offset_bits = static_cast<int>(elements.size());
  plan.memory = LinearLayout({{in_offset, offset_bits}}, tile, std::move(elements));
  plan.store_offset = std::move(stores.offset);
  plan.load_offset = std::move(loads.offset);
  plan.stores = std::move(stores.accesses);
  plan.loads = std::move(loads.accesses);
  for (std::uint64_t r = 0; r < std::uint64_t{1} << destinations.number.size(); ++r) {
    const std::uint64_t number = combined(destinations.number, r);
    std::uint64_t loaded = 0;
    for (std::size_t i = 0; i < destinations.kept.size(); ++i)
      if (number >> i & 1) loaded |= std::uint64_t{1} << destinations.kept[i];
    plan.copy_of.push_back(static_cast<int>(loaded));
  }
  return plan;
}

} // namespace

int lanes_together_bits(int bytes) {
  return log2_of(std::min(1 << lane_bits, row_bytes / std::clamp(bytes, word_bytes, vector_bytes)));
}

SharedExchange plan_shared_exchange(const LinearLayout& from, const LinearLayout& to, int element_bytes) {
  internal_check(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8, [&] {
    return "an exchange cannot have elements of " + std::to_string(element_bytes) + " bytes";
  });
  const BothSides sides = both_sides(from, to);
  auto of_warps = exchange_of_warps(sides, element_bytes);
  Exchange exchange = of_warps ? *of_warps : exchange_of_block(sides);
  exchange.silent = silent_places(exchange);
  const Compacted destinations = compacted(exchange.sides.to.registers);
  std::uint64_t loaded_copies = (std::uint64_t{1} << exchange.sides.to.registers.size()) - 1;
  for (int kept : destinations.kept)
    loaded_copies &= ~(std::uint64_t{1} << kept);

  for (const Vector& vector :
       vector_choices(exchange.sides.from.registers, exchange.sides.to.registers, element_bytes)) {
    const Columns memory = choose_memory(exchange, vector, element_bytes);
    auto stores =
        access_side(exchange.sides.from, memory, vector.store_bits, element_bytes, exchange.silent.registers);
    auto loads = access_side(exchange.sides.to, memory, vector.load_bits, element_bytes, loaded_copies);
    if (stores && loads)
      return assembled(sides, exchange, vector, memory, destinations, *stores, *loads, from.outs(),
                       element_bytes);
  }
  internal_error("an exchange has no plan, though single elements always have one");
}

} // namespace kiln::gpu
