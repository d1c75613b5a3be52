// Decides how a product is computed: register tile, panel element, chunk sizes and the layout of the scratch.
#pragma once

#include <kiln/jit/cpu/dot/dot_shape.h>
#include <string>

namespace kiln::cpu::dot {

// The operand of one multiply-add: one element, or a group of consecutive k that fills 32 bits.
enum class PanelKind : std::uint8_t { F32, F64, I16Pairs, Bf16Pairs, I8Quads };

struct Plan {
  DotShape shape;
  DotTarget target;
  DType accumulator = DType::F32;
  PanelKind panel = PanelKind::F32;
  int lanes = 0;       // accumulator elements in a vector
  int vectors = 0;     // vectors in a row of the register tile
  int mr = 0;          // rows of the register tile
  bool skinny = false; // a product whose A has so few rows that reading B takes longer than multiplying
  bool amx = false;    // the product uses AMX (amx.h)
  // Blocks of A's rows stay in L2 while slivers of B pass over them through L1. If false, slivers of B stay
  // in L2, and A passes over them.
  bool blocks_rows = false;
  std::int64_t k_unit = 0;               // all chunks of K but the last are multiples of it
  std::int64_t k_chunk = 0;              // largest K of a chunk
  std::int64_t streamed_k_chunk = 0;     // K of a chunk where several register tiles of rows read B in place
  std::int64_t streamed_steps_ahead = 0; // how far ahead B is prefetched from memory, in steps of K
  std::int64_t slivers = 0;              // slivers of B that are packed at a time
  std::int64_t m_chunk = 0; // largest number of rows of A that are packed at a time or make a block
  std::int64_t packed_a_row_stride = 0; // in elements of A's panel (i16 for pairs)
  std::int64_t packed_a_offset = 0;     // in bytes, from the beginning of the scratch; likewise the next two
  std::int64_t corrections_offset = 0;  // if shifts_a(): i32 [nr + lanes] for each sliver
  std::int64_t wide_a_offset = 0;       // rows of A as accumulator elements (few_rows.h)
  std::int64_t wide_a_row_stride = 0;   // in such elements
  std::int64_t scratch_bytes = 0;

  int nr() const { return lanes * vectors; }
  // The largest number of rows of A that are packed at a time or make a block. With blocks of rows, two
  // blocks that are all of A become one, so that slivers of B pass only once.
  std::int64_t most_rows_together() const { return blocks_rows ? 2 * m_chunk : m_chunk; }
  // The number of consecutive k that one multiply-add consumes.
  int group() const { return panel == PanelKind::I8Quads ? 4 : grouped_by_two() ? 2 : 1; }
  // Whether rows of B are read in place, mostly once.
  bool streams_b() const { return skinny && !blocks_rows && may_read_b_in_place(); }
  // Whether B is packed even for few rows, as bytes are that an instruction multiplies in groups of four. For
  // other types few rows do not repay packing.
  bool packs_bytes_for_few_rows() const { return skinny && panel == PanelKind::I8Quads && !amx; }
  // Whether elements are converted while they are packed; such operands are always packed. Groups of B are
  // interleaved by packing as well. Groups of A are neighbours in its rows, so that A is read in place except
  // for a last group that is short.
  bool a_converts() const { return panel == PanelKind::I16Pairs || (group() == 1 && shape.a != accumulator); }
  bool b_converts() const { return group() > 1 || shape.b != accumulator; }
  bool may_pack_a() const {
    return a_converts() || group() > 1 || blocks_rows || shape.a_strides != DotStrides::UnitInner;
  }
  // Whether the first register tile of A's rows reads B in place and packs it for the tiles that follow, so
  // that memory accesses and arithmetic overlap: products of 64 rows and of 128 x 8192 x 512 take 10 to 15 %
  // less time (Zen 4).
  bool packs_on_the_way() const {
    const bool as_vectors = group() == 1 || (panel == PanelKind::Bf16Pairs && vectors % 2 == 0);
    return as_vectors && target.isa == DotIsa::Avx512 && shape.b_strides != DotStrides::UnitOuter &&
           !streams_b() && !amx && !target.slow_l2;
  }
  bool may_read_b_in_place() const { return !b_converts() && shape.b_strides != DotStrides::UnitOuter; }

  // Whether sums begin with C, so that they do not depend on chunks of K. Sums of integers are exact in any
  // order.
  bool begins_with_c() const { return shape.fixed_order && accumulator != DType::I32; }

  // Whether A is shifted by 128. x86's dot product of bytes multiplies unsigned by signed bytes. Where both
  // operands have the same signedness, 128 is added to or subtracted from each element of A, and the sums are
  // corrected by 128 times the column sums of B.
  bool shifts_a() const { return panel == PanelKind::I8Quads && shape.a == shape.b && target.x86 && !amx; }

  // The part of a routine's name that encodes everything its code depends on.
  std::string tile_name() const;

private:
  bool grouped_by_two() const { return panel == PanelKind::I16Pairs || panel == PanelKind::Bf16Pairs; }
};

// A multiple of the rows of every register tile but those of 5 and 7 rows, which are used alone.
inline constexpr std::int64_t rows_unit = 48;
// AMX (amx.h): the rows of a tile register, and the groups of k in one of its rows, which has 64 bytes.
inline constexpr int amx_tile_rows = 16;
inline constexpr std::int64_t amx_extent =
    2 * amx_tile_rows; // rows and columns of C that are computed together

Plan make_plan(const DotShape& shape, const DotTarget& target);

// Skinny products (few_rows.h): the largest number of rows of A for which outer and inner products are faster
// than packing. Beyond 8 rows, outer products spend more time on loads and stores of C than on reading B;
// inner products have no such loads and stores.
std::int64_t most_outer_rows(const Plan& plan);
std::int64_t most_inner_rows(const Plan& plan);

// Whether a plan's products may be computed as outer or as inner products. Outer products need A as
// accumulator elements. In a fixed order, inner products are excluded, since they add up lanes, and so are
// outer products where tall products multiply pairs.
bool outer_products_possible(const Plan& plan);
bool inner_products_possible(const Plan& plan);

std::string isa_name(const DotTarget& target);
const char* strides_name(DotStrides strides);

} // namespace kiln::cpu::dot
