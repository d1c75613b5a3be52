// Implements the decisions about a product: which register tile, chunk sizes and kernels it uses.
#include <algorithm>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool has_many_registers(DotIsa isa) { // 32 registers
  return isa == DotIsa::Avx512 || isa == DotIsa::Neon || isa == DotIsa::Sve;
}

using tuning::RegisterTile;

// The largest register tile for products of m rows and vectors_of_n vectors of columns. Few rows take more
// vectors, to hide the latency of the multiply-add.
RegisterTile register_tile(DotIsa isa, std::int64_t m, std::int64_t vectors_of_n) {
  const bool many_registers = has_many_registers(isa);
  const int rows = static_cast<int>(m);
  if (m <= 2) return {many_registers ? tuning::two_row_vectors_32 : tuning::two_row_vectors_16, rows};
  if (m <= 4 && many_registers && vectors_of_n >= tuning::four_row_vectors_32)
    return {tuning::four_row_vectors_32, rows};
  const auto choose = [&](RegisterTile wide, RegisterTile narrow) {
    return vectors_of_n >= wide.vectors ? wide : narrow;
  };
  if (many_registers) return choose(tuning::register_tile_32, tuning::narrow_register_tile_32);
  if (isa == DotIsa::Avx2) return choose(tuning::register_tile_16, tuning::narrow_register_tile_16);
  return tuning::sse_register_tile;
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

// Largest extents of the parts into which a product is divided. K is divided into equal chunks.
struct Blocking {
  std::int64_t k;       // K of a chunk
  std::int64_t m;       // rows of A that are packed at a time or make a block
  std::int64_t slivers; // slivers of B that are packed at a time
};

// Slivers of B stay in L2, and A passes over them.
constexpr Blocking l2_blocking = {
    .k = tuning::l2_k_chunk, .m = tuning::l2_m_chunk, .slivers = tuning::l2_slivers};

// Blocks of A's rows stay in L2 while slivers of B pass through L1; the longer the rows, the fewer make a
// block. The chunks of K decide in which order products are added, so that nothing that differs between tiles
// may choose them.
Blocking row_blocking(const Plan& plan) {
  const std::int64_t longest = plan.skinny ? tuning::blocked_skinny_k_chunk : tuning::blocked_k_chunk;
  const std::int64_t k = std::clamp<std::int64_t>(plan.shape.k, 1, longest);
  const std::int64_t rows = tuning::block_bytes / (k * size_of(plan.accumulator)) / rows_unit * rows_unit;
  return {.k = longest, .m = std::max(rows, rows_unit), .slivers = tuning::blocked_columns / plan.nr()};
}

// Rows of A stay in L1 while packed columns of B pass, which fill half of L2. Skinny products read B from
// memory, in longer rows.
Blocking amx_blocking(const Plan& plan) {
  const std::int64_t bytes = plan.skinny ? tuning::amx_skinny_k_chunk_bytes : tuning::amx_k_chunk_bytes;
  const std::int64_t columns = plan.skinny ? tuning::amx_skinny_columns : tuning::amx_columns;
  return {.k = bytes / size_of(plan.shape.a), .m = amx_extent, .slivers = columns / plan.nr()};
}

Blocking blocking(const Plan& plan) {
  return plan.amx ? amx_blocking(plan) : plan.blocks_rows ? row_blocking(plan) : l2_blocking;
}

// Whether a product of m rows and vectors_of_n vectors of columns uses AMX. For fewer rows, reading B in
// place is as fast; but AMX adds in an order of its own.
bool multiplies_with_amx(const Plan& plan, std::int64_t m, std::int64_t vectors_of_n) {
  const bool can = plan.panel == PanelKind::Bf16Pairs ? plan.target.amx_bf16
                   : plan.panel == PanelKind::I8Quads ? plan.target.amx_int8
                                                      : false;
  const bool large = m >= tuning::min_amx_rows && vectors_of_n >= tuning::min_amx_vectors;
  return can && (large || plan.begins_with_c()) && plan.lanes == amx_tile_rows;
}

} // namespace

bool outer_products_possible(const Plan& plan) {
  if (plan.begins_with_c() && plan.panel == PanelKind::Bf16Pairs) return false;
  return plan.skinny && is_float(plan.accumulator) && plan.target.has_masks() &&
         plan.shape.b_strides != DotStrides::UnitOuter;
}

std::int64_t most_outer_rows(const Plan& plan) {
  return plan.blocks_rows ? tuning::blocked_outer_product_rows : tuning::outer_product_rows;
}

// With AMX fewer rows use inner products, since AMX multiplies few rows faster than vectors do.
std::int64_t most_inner_rows(const Plan& plan) {
  return plan.amx ? tuning::amx_inner_product_rows : tuning::skinny_rows;
}

bool inner_products_possible(const Plan& plan) {
  return !plan.begins_with_c() && plan.skinny && is_float(plan.accumulator) && plan.target.has_masks() &&
         plan.shape.b_strides != DotStrides::UnitInner && plan.shape.a_strides != DotStrides::UnitOuter;
}

Plan make_plan(const DotShape& shape, const DotTarget& target) {
  Plan plan;
  plan.shape = shape;
  plan.target = target;
  plan.accumulator = dot_accumulator(shape.a, shape.b);
  if (plan.accumulator == DType::I32 && target.isa == DotIsa::Sve)
    plan.target.isa = DotIsa::Neon; // sdot has vectors of 16 bytes
  plan.panel = panel_kind(shape.a, shape.b, plan.accumulator, target);
  plan.lanes = plan.target.vector_bytes() / size_of(plan.accumulator);

  const std::int64_t m = std::max<std::int64_t>(shape.m, 1), n = std::max<std::int64_t>(shape.n, 1);
  const std::int64_t k = std::max<std::int64_t>(shape.k, 1);
  std::int64_t vectors_of_n = (n - 1) / plan.lanes + 1;
  plan.amx = multiplies_with_amx(plan, m, vectors_of_n);
  plan.skinny = m <= tuning::skinny_rows;
  if (plan.amx) vectors_of_n = vectors_of_n > 2 ? 4 : 2; // whole tile registers
  RegisterTile tile = register_tile(plan.target.isa, m, vectors_of_n);
  if (plan.panel == PanelKind::I16Pairs && !target.x86)
    tile = {tuning::emulated_pairs_register_tile.vectors,
            std::min(tile.rows, tuning::emulated_pairs_register_tile.rows)};
  plan.vectors = static_cast<int>(std::min<std::int64_t>(tile.vectors, vectors_of_n));
  plan.mr = static_cast<int>(std::min<std::int64_t>(tile.rows, m));
  plan.blocks_rows = !has_many_registers(plan.target.isa);

  // Chunks are rounded up so that a short last group has room for its zeros.
  const Blocking most = blocking(plan);
  plan.k_unit = plan.amx ? plan.group() * amx_tile_rows : plan.blocks_rows ? tuning::blocked_unrolled_k : 4;
  plan.k_chunk = round_up(std::min(k, most.k), plan.k_unit);
  plan.streamed_k_chunk = plan.target.slow_l2 ? tuning::slow_l2_streamed_k_chunk : tuning::streamed_k_chunk;
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
    plan.packed_a_row_stride = round_up(plan.k_chunk, 64) + tuning::packed_a_row_padding;
    plan.scratch_bytes += plan.most_rows_together() * plan.packed_a_row_stride * panel_element;
  }
  if (outer_products_possible(plan)) {
    plan.wide_a_offset = round_up(plan.scratch_bytes, 64);
    plan.wide_a_row_stride = plan.k_chunk + tuning::wide_a_row_padding;
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
         (streams_b() ? ".skinny" : "") + (begins_with_c() ? ".fixed" : "") +
         (shape.prefetches_next_b ? ".ahead" : "");
}

} // namespace kiln::cpu::dot
