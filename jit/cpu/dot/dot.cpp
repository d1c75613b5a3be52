// Emits the loop nest around the microkernel, and the call to it.
#include <algorithm>
#include <kiln/jit/cpu/dot/dot.h>
#include <kiln/jit/cpu/dot/few_rows.h>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/dot/pack.h>
#include <kiln/jit/cpu/dot/tiles.h>

namespace kiln::cpu {

namespace dot {
namespace {

using llvm::Value;

// B is read in place when it is small, so that its rows stay in cache, or when there are too few rows of A to
// repay packing it. Both bounds are measured.
constexpr std::int64_t in_place_span_bytes = 1 << 19, blocked_in_place_span_bytes = 1 << 16;
constexpr std::int64_t in_place_rows = 32;
constexpr std::int64_t rows_packed_together = 32;
// Of slivers one line wide: more rows are more streams than the hardware fetches ahead. 10 % at 64 x 4096 x
// 4096.
constexpr std::int64_t narrow_rows_packed_together = 8;
constexpr std::int64_t crowded_stride_bytes = 512;
// Blocks of A are packed unless their rows are near each other, or for few columns. Rows that are pages
// apart, a little less or more than a power of two above all, would share a few sets of the second cache: 10
// to 25 %.
constexpr std::int64_t in_place_row_bytes = 2048, least_columns_for_packed_block = 128;
constexpr std::int64_t least_inner_depth = 64; // fewer do not repay adding up the lanes

// Where K and M are divided. Of a register tile of 3 vectors 8 rows use as many registers as 6 of one of 4.
constexpr std::int64_t k_unit = 4;
constexpr int three_vector_rows = 8;
constexpr int short_rows = 4;

// Rows of a register tile that is one vector wide: enough sums to hide the latency of the multiply-add.
int narrow_rows(const Plan& plan) {
  return static_cast<int>(std::min<std::int64_t>(8, std::max<std::int64_t>(plan.shape.m, 1)));
}

struct LoopNest {
  Builder& b;
  const Plan& plan;
  llvm::Function *micro, *narrow = nullptr,
                         *three_vectors = nullptr; // the whole tile, one vector of it, three
  llvm::Function* short_tile = nullptr;            // of short_rows rows
  llvm::Function *pack_a = nullptr, *pack_a_panel = nullptr;
  llvm::Function* pack_b;
  llvm::Function* corrections = nullptr;
  llvm::Function* tiles = nullptr;
  llvm::Function *outer = nullptr, *inner = nullptr, *pack_wide_a = nullptr; // for few rows
  llvm::Type *a_memory, *b_memory, *c_element;
  Value *a, *a_row_stride, *a_column_stride, *b_pointer, *b_row_stride, *b_column_stride;
  Value *c, *c_row_stride, *m, *n, *k, *accumulate, *scratch;

  LoopNest(Builder& builder, const Plan& p, llvm::Function* f) : b(builder), plan(p) {
    Value** const arguments[] = {&a,
                                 &a_row_stride,
                                 &a_column_stride,
                                 &b_pointer,
                                 &b_row_stride,
                                 &b_column_stride,
                                 &c,
                                 &c_row_stride,
                                 &m,
                                 &n,
                                 &k,
                                 &accumulate,
                                 &scratch};
    unsigned index = 0;
    for (Value** argument : arguments)
      *argument = f->getArg(index++);
    if (plan.shape.a_strides == DotStrides::UnitInner) a_column_stride = b.getInt64(1);
    if (plan.shape.a_strides == DotStrides::UnitOuter) a_row_stride = b.getInt64(1);
    if (plan.shape.b_strides == DotStrides::UnitInner) b_column_stride = b.getInt64(1);
    if (plan.shape.b_strides == DotStrides::UnitOuter) b_row_stride = b.getInt64(1);
    a_memory = element(plan.shape.a), b_memory = element(plan.shape.b), c_element = element(plan.accumulator);
  }

  struct Panel {
    Value* pointer;
    Value* row_stride;
  };
  // Rows of A: element (i, k) is at (i / panel_rows) * panel_stride + (i % panel_rows) * row_stride + k *
  // step.
  struct Rows {
    Value *pointer, *row_stride, *step, *panel_stride;
  };
  Rows plain_rows(Value* pointer, Value* row_stride) {
    return {pointer, row_stride, b.getInt64(1), b.CreateMul(row_stride, b.getInt64(panel_rows))};
  }

  // Any type of the element's size: only addresses are computed here.
  llvm::Type* element(DType t) { return b.getIntNTy(static_cast<unsigned>(size_of(t)) * 8); }
  llvm::Type* panel_part() {
    return plan.group() > 1 ? b.getIntNTy(32U / static_cast<unsigned>(plan.group())) : c_element;
  }

  Value* at(llvm::Type* type, Value* base, Value* row, Value* row_step, Value* column, Value* column_step) {
    return b.CreateGEP(type, base, b.CreateAdd(b.CreateMul(row, row_step), b.CreateMul(column, column_step)));
  }
  // What the microkernel counts: groups, a short one too.
  Value* steps_of(Value* depth) {
    const int group = plan.group();
    return group > 1 ? b.CreateUDiv(b.CreateAdd(depth, b.getInt64(group - 1)), b.getInt64(group)) : depth;
  }

  // i1: B is read in place.
  Value* b_in_place() {
    if (!plan.may_read_b_in_place()) return b.getFalse();
    Value* span = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b_row_stride, b.getFalse());
    const std::int64_t most = plan.blocks_rows ? blocked_in_place_span_bytes : in_place_span_bytes;
    Value* largest = b.CreateUDiv(b.getInt64(most / size_of(plan.shape.b)), k);
    Value* small = b.CreateOr(b.CreateICmpULE(span, largest),
                              b.CreateICmpSLE(m, b.getInt64(plan.blocks_rows ? 0 : in_place_rows)));
    return b.CreateAnd(small, b.CreateICmpEQ(b_column_stride, b.getInt64(1)));
  }

  // i1: A is read in place, at least where its groups are whole: its rows, or columns, so long as these do
  // not share a few sets of the caches.
  Value* a_in_place() {
    if (plan.a_converts()) return b.getFalse();
    Value* rows = b.CreateICmpEQ(a_column_stride, b.getInt64(1));
    if (plan.blocks_rows) {
      Value* few = b.CreateICmpSLT(n, b.getInt64(least_columns_for_packed_block));
      Value* stride = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a_row_stride, b.getFalse());
      Value* near = b.CreateICmpULE(stride, b.getInt64(in_place_row_bytes / size_of(plan.shape.a)));
      return b.CreateAnd(rows, b.CreateOr(few, near));
    }
    if (plan.group() > 1 || plan.shape.a_strides == DotStrides::UnitInner) return rows;
    Value* bytes = b.CreateMul(a_column_stride, b.getInt64(size_of(plan.shape.a)));
    Value* spread = b.CreateICmpNE(b.CreateAnd(bytes, b.getInt64(crowded_stride_bytes - 1)), b.getInt64(0));
    return b.CreateOr(rows, b.CreateAnd(b.CreateICmpEQ(a_row_stride, b.getInt64(1)), spread));
  }

  // The extent of equal parts of `whole`, none above `most`: a multiple of `unit`, of which `most` is one.
  Value* equal_parts(Value* whole, Value* most, std::int64_t unit) {
    auto blocks = [&](Value* x, Value* size) {
      return b.CreateUDiv(b.CreateAdd(x, b.CreateSub(size, b.getInt64(1))), size);
    };
    Value* units = b.getInt64(unit);
    return b.CreateMul(blocks(blocks(whole, blocks(whole, most)), units), units);
  }

  void build() {
    llvm::BasicBlock* check_k = new_block(b, "check.k");
    llvm::BasicBlock* done = new_block(b, "done");
    Value* empty = b.CreateOr(b.CreateICmpSLE(m, b.getInt64(0)), b.CreateICmpSLE(n, b.getInt64(0)));
    b.CreateCondBr(empty, done, check_k);
    b.SetInsertPoint(check_k);
    emit_if_else(
        b, b.CreateICmpSGT(k, b.getInt64(0)),
        [&] {
          if (tiles) emit_configure_tiles(b);
          products();
          if (tiles) emit_release_tiles(b);
        },
        [&] { emit_if(b, b.CreateNot(accumulate), [&] { zero_c(); }); });
    b.CreateBr(done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
  }

  // Few rows have ways of their own, by how B lies in memory.
  void products() {
    if (!outer && !inner) return chunks_of_k();
    Value* one = b.getInt64(1);
    auto at_most = [&](std::int64_t rows) {
      return b.CreateICmpSLE(m, b.getInt64(static_cast<std::uint64_t>(rows)));
    };
    auto by_rows = [&] {
      if (!outer) return chunks_of_k();
      Value* wanted = b.CreateAnd(b.CreateICmpEQ(b_column_stride, one), at_most(most_outer_rows(plan)));
      emit_if_else(b, wanted, [&] { outer_chunks(); }, [&] { chunks_of_k(); });
    };
    if (!inner) return by_rows();
    Value* lines = b.CreateAnd(b.CreateICmpEQ(b_row_stride, one), b.CreateICmpEQ(a_column_stride, one));
    Value* deep = b.CreateICmpSGE(k, b.getInt64(least_inner_depth));
    Value* wanted = b.CreateAnd(b.CreateAnd(lines, deep), at_most(most_inner_rows));
    emit_if_else(
        b, wanted,
        [&] {
          b.CreateCall(inner,
                       {a, a_row_stride, b_pointer, b_column_stride, c, c_row_stride, m, n, k, accumulate});
        },
        by_rows);
  }

  void outer_chunks() {
    const bool converts = plan.shape.a != plan.accumulator;
    Value* in_place = converts ? b.getFalse() : b.CreateICmpEQ(a_column_stride, b.getInt64(1));
    emit_for(b, b.getInt64(0), k, plan.k_chunk, [&](Value* k0) {
      Value* depth = smin(b, b.getInt64(plan.k_chunk), b.CreateSub(k, k0));
      Value* first = at(a_memory, a, b.getInt64(0), a_row_stride, k0, a_column_stride);
      auto packed = [&]() -> Rows {
        Value* panel =
            b.CreateConstGEP1_64(b.getInt8Ty(), scratch, static_cast<std::uint64_t>(plan.wide_a_offset));
        Value* stride = b.getInt64(plan.wide_a_row_stride);
        b.CreateCall(pack_wide_a, {panel, stride, first, a_row_stride, a_column_stride, m, depth, depth});
        return plain_rows(panel, stride);
      };
      const Rows rows = either(in_place, [&] { return plain_rows(first, a_row_stride); }, packed);
      Value* of_b = at(b_memory, b_pointer, k0, b_row_stride, b.getInt64(0), b_column_stride);
      Value* adds = b.CreateOr(accumulate, b.CreateICmpSGT(k0, b.getInt64(0)));
      b.CreateCall(outer,
                   {rows.pointer, rows.row_stride, of_b, b_row_stride, c, c_row_stride, m, n, depth, adds});
    });
  }

  void zero_c() {
    emit_for(b, b.getInt64(0), m, 1, [&](Value* i) {
      Value* bytes = b.CreateMul(n, b.getInt64(size_of(plan.accumulator)));
      b.CreateMemSet(b.CreateGEP(c_element, c, b.CreateMul(i, c_row_stride)), b.getInt8(0), bytes,
                     llvm::Align(static_cast<std::uint64_t>(size_of(plan.accumulator))));
    });
  }

  // K of the chunk that begins at k0. Groups of A are read in place only if they are whole, and tiles
  // multiplied, so that what is left of either makes a chunk of its own.
  Value* depth_of_chunk(Value* k0, Value* most) {
    Value* depth = smin(b, most, b.CreateSub(k, k0));
    auto whole = [&](int unit, Value* otherwise) {
      Value* units = b.CreateAnd(depth, b.getInt64(~std::uint64_t(unit - 1)));
      return b.CreateSelect(b.CreateICmpEQ(units, b.getInt64(0)), otherwise, units);
    };
    if (plan.group() == 1) return depth;
    Value* groups = whole(plan.group(), depth);
    return tiles ? whole(plan.group() * tile_rows, groups) : groups;
  }

  void chunks_of_k() {
    Value* in_place_a = a_in_place();
    Value* in_place_b = b_in_place();
    Value* most = b.CreateSelect(in_place_a, b.getInt64(plan.k_chunk), b.getInt64(plan.packed_k_chunk));
    Value* k_chunk = equal_parts(k, most, k_unit);
    Value* rows_packed = equal_parts(m, b.getInt64(plan.m_chunk), panel_rows);
    emit_steps(b, b.getInt64(0), k, [&](Value* k0) {
      Chunk chunk{k0, depth_of_chunk(k0, k_chunk), in_place_a, in_place_b,
                  b.CreateOr(accumulate, b.CreateICmpSGT(k0, b.getInt64(0)))};
      if (plan.group() > 1 && !plan.a_converts()) {
        Value* odd = b.CreateURem(chunk.depth, b.getInt64(plan.group()));
        chunk.direct_a = b.CreateAnd(in_place_a, b.CreateICmpEQ(odd, b.getInt64(0)));
      }
      if (plan.blocks_rows)
        groups_then_rows(chunk, rows_packed);
      else
        rows_then_groups(chunk, rows_packed);
      return chunk.depth;
    });
  }

  // A chunk of K: where it begins, its extent, whether A and B are read in place, and whether it is added to
  // C.
  struct Chunk {
    Value *k0, *depth, *direct_a, *in_place_b, *adds;
  };

  // Rows of A that are read in place need no chunks: every sliver of B then serves all of them.
  void rows_then_groups(const Chunk& chunk, Value* rows_packed) {
    Value* m_chunk = b.CreateSelect(chunk.direct_a, m, rows_packed);
    for_row_blocks(chunk, m_chunk, [&](Value* i0, Value* height, const Rows& rows) {
      for_groups([&](Value* group, Value* group_end) {
        pack_slivers(chunk, group, group_end);
        multiply_group(chunk, group, group_end, i0, height, rows);
      });
    });
  }

  // The order of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
  void groups_then_rows(const Chunk& chunk, Value* m_block) {
    for_groups([&](Value* group, Value* group_end) {
      pack_slivers(chunk, group, group_end);
      for_row_blocks(chunk, m_block, [&](Value* i0, Value* height, const Rows& rows) {
        multiply_group(chunk, group, group_end, i0, height, rows);
      });
    });
  }

  template <class Body> void for_row_blocks(const Chunk& chunk, Value* m_block, Body&& body) {
    emit_for(b, b.getInt64(0), m, m_block, [&](Value* i0) {
      Value* height = smin(b, m_block, b.CreateSub(m, i0));
      body(i0, height, rows_of_a(chunk.direct_a, i0, height, chunk.k0, chunk.depth));
    });
  }

  template <class Body> void for_groups(Body&& body) {
    const std::int64_t columns = plan.nr() * plan.slivers;
    emit_for(b, b.getInt64(0), n, columns,
             [&](Value* group) { body(group, smin(b, n, b.CreateAdd(group, b.getInt64(columns)))); });
  }

  void multiply_group(const Chunk& chunk, Value* group, Value* group_end, Value* i0, Value* height,
                      const Rows& rows) {
    emit_for(b, group, group_end, plan.nr(), [&](Value* j) {
      Value* width = smin(b, b.getInt64(plan.nr()), b.CreateSub(group_end, j));
      const Panel sliver = sliver_of_b(chunk, group, j, width);
      Value* c_tile = at(c_element, c, i0, c_row_stride, j, b.getInt64(1));
      sums_of(rows, {sliver, c_tile, width, corrections_of(group, j)}, height, steps_of(chunk.depth),
              chunk.adds);
    });
  }

  Rows rows_of_a(Value* in_place, Value* i0, Value* height, Value* k0, Value* depth) {
    Value* first = at(a_memory, a, i0, a_row_stride, k0, a_column_stride);
    Value* scratch_a =
        b.CreateConstGEP1_64(b.getInt8Ty(), scratch, static_cast<std::uint64_t>(plan.packed_a_offset));
    auto packed_rows = [&]() -> Rows {
      Value* stride = b.getInt64(plan.packed_a_row_stride);
      // A short last group gets zeros.
      Value* padded = b.CreateMul(steps_of(depth), b.getInt64(plan.group()));
      b.CreateCall(pack_a, {scratch_a, stride, first, a_row_stride, a_column_stride, height, depth, padded});
      return plain_rows(scratch_a, stride);
    };
    auto panels = [&]() -> Rows {
      Value *rows = b.getInt64(panel_rows), *stride = b.getInt64(panel_rows * plan.packed_k_chunk);
      // Some k at a time for all panels: neighbouring rows share pages, columns do not.
      emit_for(b, b.getInt64(0), depth, rows_packed_together, [&](Value* k) {
        Value* count = smin(b, b.getInt64(rows_packed_together), b.CreateSub(depth, k));
        Value* source_k = b.CreateGEP(a_memory, first, b.CreateMul(k, a_column_stride));
        Value* panel_k = b.CreateGEP(panel_part(), scratch_a, b.CreateMul(k, rows));
        emit_for(b, b.getInt64(0), height, panel_rows, [&](Value* i) {
          Value* width = smin(b, rows, b.CreateSub(height, i));
          Value* panel = b.CreateGEP(panel_part(), panel_k, b.CreateMul(i, b.getInt64(plan.packed_k_chunk)));
          Value* source = b.CreateGEP(a_memory, source_k, b.CreateMul(i, a_row_stride));
          b.CreateCall(pack_a_panel,
                       {panel, rows, source, a_column_stride, b.getInt64(1), count, width, width});
        });
      });
      return {scratch_a, b.getInt64(plan.group()), rows, stride};
    };
    auto packed = [&] {
      if (!pack_a_panel) return packed_rows();
      if (!pack_a) return panels();
      return either(b.CreateICmpEQ(a_row_stride, b.getInt64(1)), panels, packed_rows);
    };
    auto plain = [&] {
      Rows rows = plain_rows(first, a_row_stride);
      if (plan.group() == 1) rows.step = a_column_stride;
      return rows;
    };
    return either(in_place, plain, packed);
  }

  // What one of two ways to rows of A gives.
  template <class Then, class Else> Rows either(Value* condition, Then&& one, Else&& other) {
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) return known->isOne() ? one() : other();
    Rows x{}, y{};
    llvm::BasicBlock *after_one = nullptr, *after_other = nullptr;
    emit_if_else(
        b, condition, [&] { x = one(), after_one = b.GetInsertBlock(); },
        [&] { y = other(), after_other = b.GetInsertBlock(); });
    auto merge = [&](Value* v, Value* w) -> Value* {
      if (v == w) return v;
      llvm::PHINode* phi = b.CreatePHI(v->getType(), 2);
      phi->addIncoming(v, after_one);
      phi->addIncoming(w, after_other);
      return phi;
    };
    Value *pointer = merge(x.pointer, y.pointer), *row_stride = merge(x.row_stride, y.row_stride);
    Value* step = merge(x.step, y.step);
    return {pointer, row_stride, step, merge(x.panel_stride, y.panel_stride)};
  }

  // Where a group keeps the sliver that begins at column j, from row k of the chunk.
  Value* packed_sliver(Value* group, Value* j, Value* row) {
    Value* element =
        b.CreateAdd(b.CreateMul(b.CreateSub(j, group), b.getInt64(plan.k_chunk)),
                    b.CreateMul(row, b.getInt64(plan.nr()))); // row of the source: groups fill their rows
    return b.CreateGEP(panel_part(), scratch, element);
  }

  // A few rows at a time for all slivers of the group: neighbouring columns share pages, rows do not. The
  // microkernel reads NR columns whatever n is, so a ragged last sliver is packed even when the others are
  // read in place.
  void pack_slivers(const Chunk& chunk, Value* group, Value* group_end) {
    Value* depth = chunk.depth;
    Value* whole = b.CreateMul(b.CreateSDiv(b.CreateSub(group_end, group), b.getInt64(plan.nr())),
                               b.getInt64(plan.nr()));
    Value* first = b.CreateSelect(chunk.in_place_b, b.CreateAdd(group, whole), group);
    // Contiguous columns are read to their end instead.
    Value* rows_together = b.getInt64(plan.blocks_rows ? narrow_rows_packed_together : rows_packed_together);
    Value* together = b.CreateSelect(b.CreateICmpEQ(b_row_stride, b.getInt64(1)), depth, rows_together);
    emit_for(b, b.getInt64(0), depth, together, [&](Value* row) {
      Value* rows = smin(b, together, b.CreateSub(depth, row));
      emit_for(b, first, group_end, plan.nr(), [&](Value* j) {
        Value* width = smin(b, b.getInt64(plan.nr()), b.CreateSub(group_end, j));
        Value* source = at(b_memory, b_pointer, b.CreateAdd(chunk.k0, row), b_row_stride, j, b_column_stride);
        Value* nr = b.getInt64(plan.nr());
        b.CreateCall(pack_b, {packed_sliver(group, j, row), nr, source, b_row_stride, b_column_stride, rows,
                              width, nr});
      });
    });
    if (plan.shifts_a())
      emit_for(b, group, group_end, plan.nr(), [&](Value* j) {
        b.CreateCall(corrections,
                     {corrections_of(group, j), packed_sliver(group, j, b.getInt64(0)), steps_of(depth)});
      });
  }

  // Where a sliver's sums begin; made when it is packed.
  Value* corrections_of(Value* group, Value* j) {
    if (!plan.shifts_a()) return llvm::PoisonValue::get(b.getPtrTy());
    Value* all =
        b.CreateConstGEP1_64(b.getInt8Ty(), scratch, static_cast<std::uint64_t>(plan.corrections_offset));
    Value* sliver = b.CreateUDiv(b.CreateSub(j, group), b.getInt64(plan.nr()));
    return b.CreateGEP(b.getInt32Ty(), all, b.CreateMul(sliver, b.getInt64(plan.nr() + plan.lanes)));
  }

  Panel sliver_of_b(const Chunk& chunk, Value* group, Value* j, Value* width) {
    Value* packed = packed_sliver(group, j, b.getInt64(0));
    Value* nr = b.getInt64(plan.nr());
    Value* direct = b.CreateAnd(chunk.in_place_b, b.CreateICmpEQ(width, nr));
    Value* source = at(b_memory, b_pointer, chunk.k0, b_row_stride, j, b_column_stride);
    return {b.CreateSelect(direct, source, packed), b.CreateSelect(direct, b_row_stride, nr)};
  }

  struct Sliver {
    Panel panel;
    Value *c_tile, *width, *corrections;
  };

  // Tile registers take what rows of A fill them, if K does.
  void sums_of(const Rows& rows, const Sliver& sliver, Value* height, Value* steps, Value* adds) {
    if (!tiles) return register_tiles(rows, sliver, height, steps, adds);
    Value* fills = b.CreateAnd(b.CreateICmpEQ(b.CreateAnd(steps, b.getInt64(tile_rows - 1)), b.getInt64(0)),
                               b.CreateICmpEQ(rows.step, b.getInt64(1)));
    Value* whole = b.CreateSelect(fills, b.CreateAnd(height, b.getInt64(-tiles_extent)), b.getInt64(0));
    emit_for(b, b.getInt64(0), whole, tiles_extent, [&](Value* i) {
      Value* a_rows = row_of(rows, i);
      Value* c_rows = b.CreateGEP(c_element, sliver.c_tile, b.CreateMul(i, c_row_stride));
      emit_for(b, b.getInt64(0), sliver.width, tiles_extent, [&](Value* j) {
        Value* width = smin(b, b.getInt64(tiles_extent), b.CreateSub(sliver.width, j));
        b.CreateCall(tiles, {a_rows, rows.row_stride, b.CreateGEP(b.getInt32Ty(), sliver.panel.pointer, j),
                             sliver.panel.row_stride, b.CreateGEP(c_element, c_rows, j), c_row_stride, width,
                             steps, adds});
      });
    });
    Rows left = rows;
    left.pointer = row_of(rows, whole);
    Sliver below = sliver;
    below.c_tile = b.CreateGEP(c_element, sliver.c_tile, b.CreateMul(whole, c_row_stride));
    register_tiles(left, below, b.CreateSub(height, whole), steps, adds);
  }

  Value* row_of(const Rows& rows, Value* i) {
    Value* panel = b.CreateMul(b.CreateUDiv(i, b.getInt64(panel_rows)), rows.panel_stride);
    Value* in_panel = b.CreateMul(b.CreateURem(i, b.getInt64(panel_rows)), rows.row_stride);
    return b.CreateGEP(panel_part(), rows.pointer, b.CreateAdd(panel, in_panel));
  }

  // A last sliver of few columns is multiplied a vector at a time, in place of the columns that it lacks.
  void register_tiles(const Rows& rows, const Sliver& sliver, Value* height, Value* steps, Value* adds) {
    if (short_tile) return long_and_short_tiles(rows, sliver, height, steps, adds);
    if (!narrow) return register_tiles(micro, plan.mr, rows, sliver, height, steps, adds);
    const std::int64_t few = std::int64_t{plan.lanes} * (plan.vectors / 2);
    emit_if_else(
        b, b.CreateICmpSLE(sliver.width, b.getInt64(static_cast<std::uint64_t>(few))),
        [&] {
          emit_for(b, b.getInt64(0), sliver.width, plan.lanes, [&](Value* v) {
            llvm::Type* element = plan.group() > 1 ? b.getInt32Ty() : c_element;
            const Panel panel{b.CreateGEP(element, sliver.panel.pointer, v), sliver.panel.row_stride};
            Value* width = smin(b, b.getInt64(plan.lanes), b.CreateSub(sliver.width, v));
            const Sliver part{panel, b.CreateGEP(c_element, sliver.c_tile, v), width, sliver.corrections};
            register_tiles(narrow, narrow_rows(plan), rows, part, height, steps, adds);
          });
        },
        [&] {
          if (!three_vectors) return register_tiles(micro, plan.mr, rows, sliver, height, steps, adds);
          const std::int64_t without_one = std::int64_t{plan.lanes} * (plan.vectors - 1);
          emit_if_else(
              b, b.CreateICmpSLE(sliver.width, b.getInt64(static_cast<std::uint64_t>(without_one))),
              [&] { register_tiles(three_vectors, three_vector_rows, rows, sliver, height, steps, adds); },
              [&] { register_tiles(micro, plan.mr, rows, sliver, height, steps, adds); });
        });
  }

  // Tiles of 6 rows, and where these would lack more than one row, of 4: two take the place of one and of 1
  // or 2 rows that are left.
  void long_and_short_tiles(const Rows& rows, const Sliver& sliver, Value* height, Value* steps,
                            Value* adds) {
    Value *zero = b.getInt64(0), *mr = b.getInt64(plan.mr);
    Value* left = b.CreateURem(height, mr);
    Value* fits = b.CreateOr(b.CreateICmpEQ(left, zero), b.CreateICmpEQ(left, b.getInt64(plan.mr - 1)));
    Value* in_short = b.CreateSelect(b.CreateICmpULE(left, b.getInt64(2 * short_rows - plan.mr)),
                                     b.CreateAdd(left, mr), left);
    Value* in_long = b.CreateSub(height, b.CreateSelect(fits, zero, in_short));
    in_long = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, in_long, zero);
    register_tiles(micro, plan.mr, rows, sliver, zero, in_long, steps, adds);
    register_tiles(short_tile, short_rows, rows, sliver, in_long, height, steps, adds);
  }

  void register_tiles(llvm::Function* kernel, int mr, const Rows& rows, const Sliver& sliver, Value* height,
                      Value* steps, Value* adds) {
    register_tiles(kernel, mr, rows, sliver, b.getInt64(0), height, steps, adds);
  }

  void register_tiles(llvm::Function* kernel, int mr, const Rows& rows, const Sliver& sliver, Value* begin,
                      Value* height, Value* steps, Value* adds) {
    emit_for(b, begin, height, mr, [&](Value* i) {
      Value* tile_rows = smin(b, b.getInt64(mr), b.CreateSub(height, i));
      Value* c_rows = b.CreateGEP(c_element, sliver.c_tile, b.CreateMul(i, c_row_stride));
      b.CreateCall(kernel,
                   {row_of(rows, i), rows.row_stride, sliver.panel.pointer, sliver.panel.row_stride, c_rows,
                    c_row_stride, tile_rows, sliver.width, steps, adds, sliver.corrections, rows.step});
    });
  }
};

llvm::Function* loop_nest(Builder& b, const Plan& plan) {
  const DotShape& shape = plan.shape;
  std::string name = "kiln.dot." + std::string(kiln::name(shape.a)) + "." + std::string(kiln::name(shape.b)) +
                     "." + strides_name(shape.a_strides) + "." + strides_name(shape.b_strides) + "." +
                     plan.tile_name() + (multiplies_tiles(plan) ? ".tiles." : ".") +
                     std::to_string(plan.k_chunk) + "." + std::to_string(plan.m_chunk) + "." +
                     std::to_string(plan.slivers);
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  return routine(b, name, {ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, i64, i64, b.getInt1Ty(), ptr},
                 [&](llvm::Function* f) {
                   LoopNest nest(b, plan, f);
                   nest.micro = microkernel(b, plan);
                   if (multiplies_tiles(plan)) nest.tiles = tiles_routine(b, plan);
                   if (plan.blocks_rows && plan.mr == 6) {
                     Plan few = plan;
                     few.mr = short_rows;
                     nest.short_tile = microkernel(b, few);
                   }
                   if (plan.vectors > 2 && !plan.shifts_a()) {
                     Plan column = plan;
                     column.vectors = 1;
                     column.mr = narrow_rows(plan);
                     nest.narrow = microkernel(b, column);
                     if (plan.vectors == 4 && !plan.skinny) {
                       column.vectors = 3;
                       column.mr = three_vector_rows;
                       nest.three_vectors = microkernel(b, column);
                     }
                   }
                   PackSpec spec{shape.b,         plan.panel, PackOrder::Elements,
                                 shape.b_strides, plan.lanes, plan.target};
                   if (plan.group() > 1) spec.order = PackOrder::RowGroups;
                   spec.vectors_together = std::min(plan.vectors, spec.vectors_together);
                   nest.pack_b = pack_routine(b, spec);
                   spec.vectors_together = PackSpec().vectors_together;
                   if (plan.shifts_a()) nest.corrections = corrections_routine(b, plan);
                   spec.from = shape.a;
                   // Panels of columns would take a first cache that a sliver of B is to stay in.
                   const bool panels = shape.a_strides != DotStrides::UnitInner && !plan.blocks_rows;
                   if (panels) {
                     spec.strides = DotStrides::UnitInner; // of the transposed matrix
                     nest.pack_a_panel = pack_routine(b, spec);
                   }
                   if (plan.may_pack_a() && (!panels || shape.a_strides != DotStrides::UnitOuter)) {
                     spec.order = PackOrder::Elements;
                     spec.strides = shape.a_strides;
                     spec.transposes = !panels;
                     nest.pack_a = pack_routine(b, spec);
                   }
                   if (inner_products_possible(plan)) nest.inner = inner_products(b, plan);
                   if (outer_products_possible(plan)) {
                     nest.outer = outer_products(b, plan);
                     spec.order = PackOrder::Elements;
                     spec.strides = shape.a_strides;
                     spec.transposes = false;
                     spec.panel = plan.accumulator == DType::F64 ? PanelKind::F64 : PanelKind::F32;
                     nest.pack_wide_a = pack_routine(b, spec);
                   }
                   nest.build();
                 });
}

} // namespace
} // namespace dot

void emit_dot_accumulate(DotContext& context, const DotOperands& o) {
  const dot::Plan plan = dot::make_plan(context.shape, context.target);
  llvm::IRBuilder<>& b = context.builder;
  b.CreateCall(dot::loop_nest(b, plan),
               {o.a.pointer, o.a.row_stride, o.a.column_stride, o.b.pointer, o.b.row_stride,
                o.b.column_stride, o.c, o.c_row_stride, o.m, o.n, o.k, o.accumulate, o.scratch});
}

} // namespace kiln::cpu
