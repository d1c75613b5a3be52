// The choices behind one product: register tile, panel element, chunk sizes, and where scratch is cut.
#pragma once

#include <kiln/jit/cpu/dot/dot_shape.h>
#include <string>

namespace kiln::cpu::dot {

// What one multiply-add consumes: an element, or so many consecutive k as fill 32 bits.
enum class PanelKind : std::uint8_t { F32, F64, I16Pairs, Bf16Pairs, I8Quads };

struct Plan {
  DotShape shape;
  DotTarget target;
  DType accumulator = DType::F32;
  PanelKind panel = PanelKind::F32;
  int lanes = 0;            // accumulator elements in a vector
  int vectors = 0;          // vectors in a row of the register tile
  int mr = 0;               // rows of the register tile
  bool skinny = false;      // so few rows that reading B takes longer than multiplying
  bool amx = false;         // AMX multiplies (amx.h)
  bool blocks_rows = false; // blocks of A's rows stay in the second cache while the slivers of B pass over
                            // them, each in the first; else slivers stay in the second, and A passes
  std::int64_t k_unit = 0;  // of chunks of K, but the last
  std::int64_t k_chunk = 0; // K of a chunk, at most
  std::int64_t streamed_k_chunk = 0;     // where several tiles of A's rows read B in place
  std::int64_t streamed_steps_ahead = 0; // B in memory is prefetched so far ahead
  std::int64_t slivers = 0;              // slivers of B packed at a time
  std::int64_t m_chunk = 0;              // rows of A packed at a time, or in a block, at most
  std::int64_t packed_a_row_stride = 0;  // in elements of A's panel (i16 for pair kinds)
  std::int64_t packed_a_offset = 0;      // bytes into the scratch
  std::int64_t corrections_offset = 0;   // likewise: where shifts_a(), i32 [nr + lanes] for each sliver
  std::int64_t wide_a_offset = 0;        // likewise: rows of A as accumulator elements, for few_rows.h
  std::int64_t wide_a_row_stride = 0;    // in such elements
  std::int64_t scratch_bytes = 0;

  int nr() const { return lanes * vectors; }
  // Of A, packed at once or in a block. Where they are blocked, two blocks that are all of A make one, over
  // which the slivers of B pass once.
  std::int64_t most_rows_together() const { return blocks_rows ? 2 * m_chunk : m_chunk; }
  // Consecutive k that one multiply-add consumes.
  int group() const { return panel == PanelKind::I8Quads ? 4 : grouped_by_two() ? 2 : 1; }
  // Whether B's rows are mostly read once, in place.
  bool streams_b() const { return skinny && !blocks_rows && may_read_b_in_place(); }
  // Bytes whose dot product is an instruction are packed even for few rows, which other types do without.
  bool packs_bytes_for_few_rows() const { return skinny && panel == PanelKind::I8Quads && !amx; }
  // Operands whose conversion happens while packing are always packed. B's groups are interleaved then too;
  // those of A are neighbours in its rows, so that A is read in place, but for a last group that is short.
  bool a_converts() const { return panel == PanelKind::I16Pairs || (group() == 1 && shape.a != accumulator); }
  bool b_converts() const { return group() > 1 || shape.b != accumulator; }
  bool may_pack_a() const {
    return a_converts() || group() > 1 || blocks_rows || shape.a_strides != DotStrides::UnitInner;
  }
  // The first of A's register tiles reads rows of B in place, and packs them for the others on the way, so
  // that memory and arithmetic overlap: 64 rows and 128 x 8192 x 512 are 10 to 15 % faster (Zen 4).
  bool packs_on_the_way() const {
    const bool as_vectors = group() == 1 || (panel == PanelKind::Bf16Pairs && vectors % 2 == 0);
    return as_vectors && target.isa == DotIsa::Avx512 && shape.b_strides != DotStrides::UnitOuter &&
           !streams_b() && !amx && !target.slow_l2;
  }
  bool may_read_b_in_place() const { return !b_converts() && shape.b_strides != DotStrides::UnitOuter; }

  // x86's byte dot product multiplies unsigned by signed. Where both are of one kind, 128 is added to or
  // taken from each element of A, and what that adds to the sums, 128 times the sums of B's columns, is made
  // good.
  bool shifts_a() const { return panel == PanelKind::I8Quads && shape.a == shape.b && target.x86 && !amx; }

  // Name of a routine: what it is, and everything its code depends on.
  std::string tile_name() const;

private:
  bool grouped_by_two() const { return panel == PanelKind::I16Pairs || panel == PanelKind::Bf16Pairs; }
};

// A multiple of every register tile's rows but 5 and 7, which come alone.
inline constexpr std::int64_t rows_unit = 48;
// AMX (amx.h): rows of a tile register, and groups of k that one of its rows holds; a row has 64 bytes.
inline constexpr int amx_tile_rows = 16;
inline constexpr std::int64_t amx_extent = 2 * amx_tile_rows; // rows and columns of C at a time

Plan make_plan(const DotShape& shape, const DotTarget& target);

// Whether AMX multiplies where products have so many rows, and vectors of columns. Of fewer rows reading B in
// place is as quick.
bool multiplies_with_amx(const Plan& plan, std::int64_t m, std::int64_t vectors_of_n);

// Skinny products (few_rows.h): rows of A up to which outer and inner products are quicker than packing.
// Beyond 8 rows of contiguous B, C's loads and stores take longer than reading B; inner products never have
// them.
std::int64_t most_outer_rows(const Plan& plan);
std::int64_t most_inner_rows(const Plan& plan);

// Whether the plan's products may be made that way. The outer kind wants A as accumulator elements.
bool outer_products_possible(const Plan& plan);
bool inner_products_possible(const Plan& plan);

std::string isa_name(const DotTarget& target);
const char* strides_name(DotStrides strides);

} // namespace kiln::cpu::dot
