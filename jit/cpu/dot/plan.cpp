// Chooses the register tile and the chunk sizes for a product.
#include <algorithm>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool has_many_registers(DotIsa isa) { // 32
  return isa == DotIsa::Avx512 || isa == DotIsa::Neon || isa == DotIsa::Sve;
}

constexpr std::int64_t least_rows = 5, least_vectors = 2; // of products that AMX multiplies

struct RegisterTile {
  int max_vectors;
  int mr;
};

// Measured on AVX-512: 6 x 4 vectors is best, 8 x 3 within 3 %, more than 28 accumulators spill. Rows beyond
// 8 would need more address registers than there are. Few rows take more vectors, to hide the latency of the
// fma.
RegisterTile register_tile(DotIsa isa, std::int64_t m, std::int64_t vectors_of_n) {
  const bool many_registers = has_many_registers(isa);
  if (m <= 2) return {many_registers ? 8 : 4, static_cast<int>(m)};
  if (m <= 4 && many_registers && vectors_of_n >= 6) return {6, static_cast<int>(m)};
  if (many_registers) return vectors_of_n >= 4 ? RegisterTile{4, 6} : RegisterTile{3, 8};
  if (isa == DotIsa::Avx2) return vectors_of_n >= 2 ? RegisterTile{2, 6} : RegisterTile{1, 8};
  return {2, 4};
}

PanelKind panel_kind(DType a, DType b, DType accumulator, const DotTarget& target) {
  if (accumulator == DType::I32) {
    const bool quads = target.vnni && (target.x86 || target.i8mm || a == b);
    return quads ? PanelKind::I8Quads : PanelKind::I16Pairs;
  }
  if (accumulator == DType::F64) return PanelKind::F64;
  const bool both_bf16 = a == DType::BF16 && b == DType::BF16;
  return both_bf16 && target.bf16_dot ? PanelKind::Bf16Pairs : PanelKind::F32;
}

// At most, and K is divided equally.
struct Blocking {
  std::int64_t k;       // of a chunk
  std::int64_t m;       // rows of a chunk of A that is packed, or of a block
  std::int64_t slivers; // of B, packed at a time
};

// Up to 1024 a chunk of B, 512 KiB packed, stays in a 1 MiB cache, and C is read again least often: 3 %
// faster than 512 at 1000 cubed. Rows of A pass, packed ones as those in place do: with A transposed on Zen 4
// 2048 cubed takes 5 % less than with so few of them, 960 x 256, that they stay in that cache too. 128
// columns: 1 and 4 slivers are 3 % slower on 2048 x 2048. With a second cache of 2 MiB 4 are 1 to 3 % quicker
// alone on a core, and 1 to 5 % slower where another thread shares it (Granite and Emerald Rapids).
constexpr Blocking in_second_cache = {.k = 1024, .m = 1056, .slivers = 2};

// Up to 512, so that C is read again seldom: a sliver of 32 KiB streams through the first cache, and rows of
// A that fill a fifth of a second cache of 512 KiB stay there, the fewer the longer they are. Against 256,
// 512 to 2048 cubed take 3 to 5 % less time, few rows 3 % more (Zen 3). Sums depend on these chunks, so that
// nothing that differs between tiles may choose them.
Blocking of_rows(const Plan& plan) {
  constexpr std::int64_t block_bytes = 96 << 10;
  const std::int64_t longest = plan.skinny ? 256 : 512,
                     k = std::clamp<std::int64_t>(plan.shape.k, 1, longest);
  const std::int64_t rows = block_bytes / (k * size_of(plan.accumulator)) / rows_unit * rows_unit;
  return {.k = longest, .m = std::max(rows, rows_unit), .slivers = 1024 / plan.nr()};
}

// Tile registers multiply so fast that loading them counts. 32 rows of 1024 bytes fit the first cache while
// 1024 columns, which fill half of a second cache of 2 MiB, pass. Where B is asked for ahead, rows half as
// long take 9 to 17 % more, since sums leave the registers twice as often, longer ones 2 to 10 % (Emerald
// Rapids). Where few rows read B from memory, that is read in longer rows.
Blocking of_tiles(const Plan& plan) {
  const std::int64_t bytes = plan.skinny ? 512 : 1024, columns = plan.skinny ? 2048 : 1024;
  return {.k = bytes / size_of(plan.shape.a), .m = tiles_extent, .slivers = columns / plan.nr()};
}

Blocking blocking(const Plan& plan) {
  return plan.tiles ? of_tiles(plan) : plan.blocks_rows ? of_rows(plan) : in_second_cache;
}

} // namespace

bool multiplies_tiles(const Plan& plan, std::int64_t m, std::int64_t vectors_of_n) {
  const bool can = plan.panel == PanelKind::Bf16Pairs ? plan.target.amx_bf16
                   : plan.panel == PanelKind::I8Quads ? plan.target.amx_int8
                                                      : false;
  return can && m >= least_rows && vectors_of_n >= least_vectors && plan.lanes == tile_rows;
}

bool outer_products_possible(const Plan& plan) {
  return plan.skinny && is_float(plan.accumulator) && plan.target.has_masks() &&
         plan.shape.b_strides != DotStrides::UnitOuter;
}

// Measured on Zen 5, whose microkernel then reads B in place, and on Zen 3, where it is packed for the
// others.
std::int64_t most_outer_rows(const Plan& plan) { return plan.blocks_rows ? 6 : fewest_rows; }

// Tile registers take more rows sooner than sums of f32 do.
std::int64_t most_inner_rows(const Plan& plan) { return plan.tiles ? 4 : 32; }

bool inner_products_possible(const Plan& plan) {
  return plan.skinny && is_float(plan.accumulator) && plan.target.has_masks() &&
         plan.shape.b_strides != DotStrides::UnitInner && plan.shape.a_strides != DotStrides::UnitOuter;
}

Plan make_plan(const DotShape& shape, const DotTarget& target) {
  Plan plan;
  plan.shape = shape;
  plan.target = target;
  plan.accumulator = dot_accumulator(shape.a, shape.b);
  if (plan.accumulator == DType::I32 && target.isa == DotIsa::Sve)
    plan.target.isa = DotIsa::Neon; // as wide as sdot is
  plan.panel = panel_kind(shape.a, shape.b, plan.accumulator, target);
  plan.lanes = plan.target.vector_bytes() / size_of(plan.accumulator);

  const std::int64_t m = std::max<std::int64_t>(shape.m, 1), n = std::max<std::int64_t>(shape.n, 1);
  const std::int64_t k = std::max<std::int64_t>(shape.k, 1);
  std::int64_t vectors_of_n = (n - 1) / plan.lanes + 1;
  plan.tiles = multiplies_tiles(plan, m, vectors_of_n);
  plan.skinny = m <= few_rows;
  if (plan.tiles) vectors_of_n = vectors_of_n > 2 ? 4 : 2; // whole registers
  RegisterTile tile = register_tile(plan.target.isa, m, vectors_of_n);
  if (plan.panel == PanelKind::I16Pairs && !target.x86)
    tile = {2, std::min(tile.mr, 6)}; // each half takes registers
  plan.vectors = static_cast<int>(std::min<std::int64_t>(tile.max_vectors, vectors_of_n));
  plan.mr = static_cast<int>(std::min<std::int64_t>(tile.mr, m));
  plan.blocks_rows = !has_many_registers(plan.target.isa);

  // Rounded so that a last group that is short has room for its zeros.
  const Blocking most = blocking(plan);
  plan.k_unit = plan.tiles ? plan.group() * tile_rows : plan.blocks_rows ? longest_turn : 4;
  plan.k_chunk = round_up(std::min(k, most.k), plan.k_unit);
  // A row of B is pages from the next, and a second cache keeps little more than a hundred of such rows for
  // the next tile of A's rows. On Granite Rapids 18 and 32 rows take half as long as with whole chunks, on
  // Zen 4 a tenth to a third less.
  plan.streamed_k_chunk = plan.target.far_second_cache ? 48 : 96;
  plan.streamed_steps_ahead = plan.streamed_k_chunk / 2;
  plan.m_chunk = round_up(std::min(m, most.m), rows_unit);
  const std::int64_t panel_element = plan.group() > 1 ? 4 / plan.group() : size_of(plan.accumulator);
  plan.slivers = std::min(most.slivers, (n - 1) / plan.nr() + 1);
  plan.packed_a_offset = round_up(plan.slivers * plan.k_chunk * plan.nr() * panel_element, 64);
  if (plan.shifts_a()) {
    plan.corrections_offset = plan.packed_a_offset;
    plan.packed_a_offset += round_up(plan.slivers * (plan.nr() + plan.lanes) * 4, 64);
  }
  plan.scratch_bytes = plan.packed_a_offset;
  if (plan.may_pack_a()) {
    // One vector more than needed keeps the rows of a chunk of 512 out of the same cache sets.
    plan.packed_a_row_stride = round_up(plan.k_chunk, 64) + 32;
    plan.scratch_bytes += plan.most_rows_together() * plan.packed_a_row_stride * panel_element;
  }
  if (outer_products_possible(plan)) {
    plan.wide_a_offset = round_up(plan.scratch_bytes, 64);
    plan.wide_a_row_stride = plan.k_chunk + 16;
    plan.scratch_bytes = plan.wide_a_offset + std::min(m, most_outer_rows(plan)) * plan.wide_a_row_stride *
                                                  size_of(plan.accumulator);
  }
  return plan;
}

std::string isa_name(const DotTarget& target) {
  if (target.isa == DotIsa::Avx512) return "avx512";
  if (target.isa == DotIsa::Avx2) return "avx2";
  if (target.isa == DotIsa::Sve) return "sve" + std::to_string(target.sve_bytes * 8);
  if (target.isa == DotIsa::Neon) return "neon";
  return target.x86 ? "x86" : "generic";
}

const char* strides_name(DotStrides strides) {
  return strides == DotStrides::UnitInner ? "inner" : strides == DotStrides::UnitOuter ? "outer" : "any";
}

std::string Plan::tile_name() const {
  static const char* const panels[] = {"f32", "f64", "i16pairs", "bf16pairs", "i8quads"};
  std::string kind = panels[static_cast<int>(panel)];
  if (panel == PanelKind::I8Quads)
    kind += std::string(shape.a == DType::U8 ? ".u8" : ".i8") + (shape.b == DType::U8 ? ".u8" : ".i8");
  return kind + "." + std::to_string(mr) + "x" + std::to_string(nr()) + "." + isa_name(target) +
         (streams_b() ? ".skinny" : "");
}

} // namespace kiln::cpu::dot
