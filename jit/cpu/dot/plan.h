// The choices behind one product: register tile, panel element, chunk sizes, and where scratch is cut.
#pragma once

#include <kiln/jit/cpu/dot/dot.h>
#include <string>

namespace kiln::cpu::dot {

// What one multiply-add consumes. Pair kinds hold two consecutive k in 32 bits.
enum class PanelKind : std::uint8_t { F32, F64, I16Pairs, Bf16Pairs };

struct Plan {
  DotShape shape;
  DotTarget target;
  DType accumulator = DType::F32;
  PanelKind panel = PanelKind::F32;
  int lanes = 0;   // accumulator elements in a vector
  int vectors = 0; // vectors in a row of the register tile
  int mr = 0;      // rows of the register tile
  std::int64_t k_chunk = 0;
  std::int64_t slivers = 0;             // slivers of B packed at a time
  std::int64_t m_chunk = 0;             // rows of A packed at a time
  std::int64_t packed_a_row_stride = 0; // in elements of A's panel (i16 for pair kinds)
  std::int64_t packed_a_offset = 0;     // bytes into the scratch
  std::int64_t scratch_bytes = 0;

  int nr() const { return lanes * vectors; }
  bool pairs() const { return panel == PanelKind::I16Pairs || panel == PanelKind::Bf16Pairs; }
  // The conversion happens while packing, so such operands are always packed.
  bool a_converts() const { return pairs() || shape.a != accumulator; }
  bool b_converts() const { return pairs() || shape.b != accumulator; }
  bool may_pack_a() const { return a_converts() || shape.a_strides != DotStrides::UnitInner; }
  bool may_read_b_in_place() const { return !b_converts() && shape.b_strides != DotStrides::UnitOuter; }

  // Name of a routine: what it is, and everything its code depends on.
  std::string tile_name() const;
};

Plan make_plan(const DotShape& shape, const DotTarget& target);

std::string isa_name(const DotTarget& target);
const char* strides_name(DotStrides strides);

} // namespace kiln::cpu::dot
