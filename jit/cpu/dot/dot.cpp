// Emits the loop nest around the microkernels, and the call of that routine.
#include <algorithm>
#include <kiln/jit/cpu/dot/amx.h>
#include <kiln/jit/cpu/dot/dot.h>
#include <kiln/jit/cpu/dot/few_rows.h>
#include <kiln/jit/cpu/dot/line_products.h>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/dot/operands.h>
#include <kiln/jit/cpu/tuning.h>

namespace kiln::cpu {

namespace dot {
namespace {

using llvm::Value;

static_assert(tuning::slow_l2_rows % rows_unit == 0);

// The rows of a register tile that is one vector wide.
int narrow_rows(const Plan& plan) {
  return static_cast<int>(std::clamp<std::int64_t>(plan.shape.m, 1, tuning::one_vector_tile_rows));
}

struct LoopNest {
  Builder& b;
  const Plan& plan;
  llvm::Function* amx = nullptr; // null: vectors multiply, in the tiles below
  llvm::Function *micro = nullptr, *narrow = nullptr, *three_vectors = nullptr; // whole tile; 1, 3 vectors
  llvm::Function* short_tile = nullptr;              // tuning::short_tile_rows rows
  llvm::Function* packing = nullptr;                 // the whole tile, and packs B meanwhile
  llvm::Function *outer = nullptr, *inner = nullptr; // skinny products
  const Arguments x;
  Operands operands;
  llvm::Type* c_element;

  LoopNest(Builder& builder, const Plan& p, llvm::Function* f)
      : b(builder), plan(p), x(builder, p, f), operands(builder, p, x),
        c_element(operands.element(p.accumulator)) {
    if (inner_products_possible(plan)) inner = inner_products(b, plan);
    if (outer_products_possible(plan)) outer = outer_products(b, plan);
    if (plan.amx)
      amx = amx_routine(b, plan);
    else
      make_vector_tiles();
  }

  void make_vector_tiles() {
    micro = microkernel(b, plan);
    if (plan.mr == 6) {
      Plan few = plan;
      few.mr = tuning::short_tile_rows;
      short_tile = microkernel(b, few);
    }
    if (plan.vectors > 2 && !plan.shifts_a()) {
      Plan column = plan;
      column.vectors = 1;
      column.mr = narrow_rows(plan);
      narrow = microkernel(b, column);
      if (plan.vectors == 4 && !plan.skinny) {
        column.vectors = 3;
        column.mr = tuning::narrow_register_tile_32.rows;
        three_vectors = microkernel(b, column);
      }
    }
    // Outer products then take every product whose B could be packed while multiplying.
    const bool all_outer = outer && plan.shape.m <= most_outer_rows(plan);
    if (plan.packs_on_the_way() && !all_outer) packing = microkernel(b, plan, true);
  }

  // The extent of equal parts of `whole`, each at most `most`, and a multiple of `unit`. `most` must be a
  // multiple of `unit`.
  Value* equal_parts(Value* whole, Value* most, std::int64_t unit) {
    auto blocks = [&](Value* extent, Value* size) {
      return b.CreateUDiv(b.CreateAdd(extent, b.CreateSub(size, b.getInt64(1))), size);
    };
    Value* units = b.getInt64(unit);
    return b.CreateMul(blocks(blocks(whole, blocks(whole, most)), units), units);
  }

  void build() {
    llvm::BasicBlock* check_k = new_block(b, "check.k");
    llvm::BasicBlock* done = new_block(b, "done");
    Value* empty = b.CreateOr(b.CreateICmpSLE(x.m, b.getInt64(0)), b.CreateICmpSLE(x.n, b.getInt64(0)));
    b.CreateCondBr(empty, done, check_k);
    b.SetInsertPoint(check_k);
    emit_if_else(
        b, b.CreateICmpSGT(x.k, b.getInt64(0)), [&] { products(); },
        [&] { emit_if(b, b.CreateNot(x.accumulate), [&] { zero_c(); }); });
    b.CreateBr(done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
  }

  // Reads B line by line if its lines are whole.
  void products() {
    const std::int64_t n = plan.shape.n, k = plan.shape.k;
    Value* one = b.getInt64(1);
    auto with_lines = [&](llvm::Function* routine, Value* wanted, Value* b_stride, auto&& otherwise) {
      emit_if_else(
          b, wanted,
          [&] {
            b.CreateCall(routine, {x.a, x.a_row_stride, x.a_column_stride, x.b, b_stride, x.c, x.c_row_stride,
                                   x.m, x.n, x.k, x.accumulate, x.to_next_b});
          },
          otherwise);
    };
    auto rows_of_a = b.CreateICmpEQ(x.a_column_stride, one);
    auto by_rows = [&] {
      if (!outer_line_products_possible(plan)) return products_of_any_lines();
      Value* whole = b.CreateAnd(b.CreateICmpEQ(x.b_column_stride, one),
                                 b.CreateICmpEQ(x.n, b.getInt64(static_cast<std::uint64_t>(n))));
      if (plan.group() > 1) whole = b.CreateAnd(whole, rows_of_a);
      with_lines(outer_line_products(b, plan), whole, x.b_row_stride, [&] { products_of_any_lines(); });
    };
    if (!inner_line_products_possible(plan)) return by_rows();
    Value* whole = b.CreateAnd(b.CreateAnd(b.CreateICmpEQ(x.b_row_stride, one), rows_of_a),
                               b.CreateICmpEQ(x.k, b.getInt64(static_cast<std::uint64_t>(k))));
    with_lines(inner_line_products(b, plan), whole, x.b_column_stride, by_rows);
  }

  // Chooses between outer, inner and blocked products, by the rows of A and the strides of B.
  void products_of_any_lines() {
    if (!outer && !inner) return chunks_of_k();
    Value* one = b.getInt64(1);
    auto at_most = [&](std::int64_t rows) {
      return b.CreateICmpSLE(x.m, b.getInt64(static_cast<std::uint64_t>(rows)));
    };
    auto by_rows = [&] {
      if (!outer) return chunks_of_k();
      Value* wanted = b.CreateAnd(b.CreateICmpEQ(x.b_column_stride, one), at_most(most_outer_rows(plan)));
      emit_if_else(b, wanted, [&] { outer_chunks(); }, [&] { chunks_of_k(); });
    };
    if (!inner) return by_rows();
    Value* lines = b.CreateAnd(b.CreateICmpEQ(x.b_row_stride, one), b.CreateICmpEQ(x.a_column_stride, one));
    Value* deep = b.CreateICmpSGE(x.k, b.getInt64(tuning::min_inner_product_k));
    Value* wanted = b.CreateAnd(b.CreateAnd(lines, deep), at_most(most_inner_rows(plan)));
    emit_if_else(
        b, wanted,
        [&] {
          b.CreateCall(inner, {x.a, x.a_row_stride, x.b, x.b_column_stride, x.c, x.c_row_stride, x.m, x.n,
                               x.k, x.accumulate, x.to_next_b});
        },
        by_rows);
  }

  void outer_chunks() {
    emit_for(b, b.getInt64(0), x.k, plan.k_chunk, [&](Value* k0) {
      Value* depth = smin(b, b.getInt64(plan.k_chunk), b.CreateSub(x.k, k0));
      const Rows rows = operands.wide_rows_of_a(k0, depth);
      Value* adds = b.CreateOr(x.accumulate, b.CreateICmpSGT(k0, b.getInt64(0)));
      b.CreateCall(outer, {rows.pointer, rows.row_stride, operands.at_b(k0, b.getInt64(0)), x.b_row_stride,
                           x.c, x.c_row_stride, x.m, x.n, depth, adds, x.to_next_b});
    });
  }

  void zero_c() {
    emit_for(b, b.getInt64(0), x.m, 1, [&](Value* i) {
      Value* bytes = b.CreateMul(x.n, b.getInt64(size_of(plan.accumulator)));
      b.CreateMemSet(b.CreateGEP(c_element, x.c, b.CreateMul(i, x.c_row_stride)), b.getInt8(0), bytes,
                     llvm::Align(static_cast<std::uint64_t>(size_of(plan.accumulator))));
    });
  }

  // K of the chunk that begins at k0. Vectors read groups of A in place if the groups are whole, so that a
  // short last group becomes a chunk of its own. With AMX all of the last chunk is packed and padded with
  // zeros.
  Value* depth_of_chunk(Value* k0, Value* most) {
    Value* depth = smin(b, most, b.CreateSub(x.k, k0));
    if (plan.group() == 1 || amx) return depth;
    Value* groups = b.CreateAnd(depth, b.getInt64(~std::uint64_t(plan.group() - 1)));
    return b.CreateSelect(b.CreateICmpEQ(groups, b.getInt64(0)), depth, groups);
  }

  void chunks_of_k() {
    Value* in_place_a = operands.a_in_place();
    Value* in_place_b = operands.b_in_place();
    Value* on_the_way = b.getFalse();
    if (packing)
      on_the_way = b.CreateAnd(b.CreateNot(in_place_b), b.CreateICmpEQ(x.b_column_stride, b.getInt64(1)));
    Value* most = b.getInt64(plan.k_chunk);
    if (plan.streams_b()) {
      Value* again = b.CreateAnd(in_place_b, b.CreateICmpSGT(x.m, b.getInt64(plan.mr)));
      most = b.CreateSelect(again, smin(b, most, b.getInt64(plan.streamed_k_chunk)), most);
    }
    if (plan.packs_bytes_for_few_rows()) {
      Value* few = b.CreateICmpSLE(x.m, b.getInt64(tuning::outer_product_rows));
      Value* by_rows =
          b.CreateICmpEQ(x.b_column_stride, b.getInt64(1)); // contiguous columns are packed to their end
      most = b.CreateSelect(b.CreateAnd(few, by_rows),
                            smin(b, most, b.getInt64(tuning::skinny_bytes_k_chunk)), most);
    }
    Value* most_rows = b.getInt64(plan.m_chunk);
    if (plan.blocks_rows) {
      Value* all = b.getInt64(plan.most_rows_together());
      most_rows = b.CreateSelect(b.CreateICmpSLE(x.m, all), all, most_rows);
    }
    Value* k_chunk = equal_parts(x.k, most, plan.k_unit);
    Value* rows_packed = equal_parts(x.m, most_rows, rows_unit);
    if (amx) emit_configure_amx(b, b.getInt64(amx_extent));
    emit_steps(b, b.getInt64(0), x.k, [&](Value* k0) {
      Chunk chunk{k0,         depth_of_chunk(k0, k_chunk),
                  in_place_a, in_place_b,
                  on_the_way, b.CreateOr(x.accumulate, b.CreateICmpSGT(k0, b.getInt64(0)))};
      if (plan.group() > 1) {
        Value* unit = b.getInt64(amx ? plan.k_unit : plan.group());
        Value* whole = b.CreateICmpEQ(b.CreateURem(chunk.depth, unit), b.getInt64(0));
        if (!plan.a_converts()) chunk.direct_a = b.CreateAnd(in_place_a, whole);
        chunk.packs_on_the_way = b.CreateAnd(on_the_way, whole);
      }
      if (amx)
        amx_blocks(chunk);
      else if (plan.blocks_rows)
        groups_then_rows(chunk, rows_packed);
      else
        rows_then_groups(chunk, rows_packed);
      return chunk.depth;
    });
    if (amx) emit_release_amx(b);
  }

  // Rows of A that are read in place are not chunked, so that each sliver of B is packed once for all rows.
  void rows_then_groups(const Chunk& chunk, Value* rows_packed) {
    Value* m_chunk = b.CreateSelect(chunk.direct_a, x.m, rows_packed);
    for_row_blocks(chunk, m_chunk, [&](Value* i0, Value* height, const Rows& rows) {
      for_groups([&](Value* group, Value* group_end) {
        operands.pack_slivers(chunk, group, group_end);
        multiply({chunk, group, group_end, i0, height, rows});
      });
    });
  }

  // Uses the loop order of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
  void groups_then_rows(const Chunk& chunk, Value* m_block) {
    for_groups([&](Value* group, Value* group_end) {
      operands.pack_slivers(chunk, group, group_end);
      for_row_blocks(chunk, m_block, [&](Value* i0, Value* height, const Rows& rows) {
        multiply({chunk, group, group_end, i0, height, rows});
      });
    });
  }

  // Blocks of 32 rows of A stay in L1 while the group's columns pass. Many columns repay packing the rows,
  // since rows a power of two apart would share a few sets of that cache. If K is one chunk, rows are read in
  // place nonetheless, which is a tenth faster.
  void amx_blocks(Chunk chunk) {
    Value* many = b.CreateICmpSGE(x.n, b.getInt64(tuning::amx_min_packed_a_columns));
    Value* one_of_several = b.CreateICmpSLT(chunk.depth, x.k);
    chunk.direct_a = b.CreateAnd(chunk.direct_a, b.CreateNot(b.CreateAnd(many, one_of_several)));
    groups_then_rows(chunk, b.getInt64(amx_extent));
  }

  template <class Body> void for_row_blocks(const Chunk& chunk, Value* m_block, Body&& body) {
    emit_for(b, b.getInt64(0), x.m, m_block, [&](Value* i0) {
      Value* height = smin(b, m_block, b.CreateSub(x.m, i0));
      body(i0, height, operands.rows_of_a(chunk, i0, height));
    });
  }

  template <class Body> void for_groups(Body&& body) {
    const std::int64_t columns = plan.nr() * plan.slivers;
    emit_for(b, b.getInt64(0), x.n, columns,
             [&](Value* group) { body(group, smin(b, x.n, b.CreateAdd(group, b.getInt64(columns)))); });
  }

  // `height` rows of A from row i on, and the columns of a group.
  struct Block {
    const Chunk& chunk;
    Value *group, *group_end, *i, *height;
    Rows rows;
  };

  struct Sliver {
    Panel panel;
    Value *first, *c_tile, *width, *corrections;
    Value *unpacked, *source; // i1: the sliver is not packed yet; its `source`
  };

  template <class Body> void for_slivers(const Block& block, Body&& body) {
    emit_for(b, block.group, block.group_end, plan.nr(), [&](Value* j) {
      Value* width = smin(b, b.getInt64(plan.nr()), b.CreateSub(block.group_end, j));
      const Chunk& chunk = block.chunk;
      Value* whole = b.CreateICmpEQ(width, b.getInt64(plan.nr()));
      body(Sliver{operands.sliver_of_b(chunk, block.group, j, width), j, operands.at_c(block.i, j), width,
                  operands.corrections_of(block.group, j), b.CreateAnd(chunk.packs_on_the_way, whole),
                  operands.at_b(chunk.k0, j)});
    });
  }

  void multiply(const Block& block) {
    Value* steps = operands.steps_of(block.chunk.depth);
    if (!amx) return multiply_with_vectors(block, steps);
    Value* ragged = b.CreateICmpSLT(block.height, b.getInt64(amx_extent));
    emit_if(b, ragged, [&] { emit_configure_amx(b, block.height); });
    multiply_with_amx(block, steps);
    emit_if(b, ragged, [&] { emit_configure_amx(b, b.getInt64(amx_extent)); });
  }

  // Where L2 is slow, a part of the rows of A stays in it while the slivers pass.
  void multiply_with_vectors(const Block& block, Value* steps) {
    Value* most = plan.target.slow_l2 ? b.getInt64(tuning::slow_l2_rows) : block.height;
    emit_for(b, b.getInt64(0), block.height, most, [&](Value* i) {
      Block some = block;
      some.i = b.CreateAdd(block.i, i);
      some.height = smin(b, most, b.CreateSub(block.height, i));
      some.rows.pointer = operands.row_of(block.rows, i);
      for_slivers(some, [&](const Sliver& sliver) {
        register_tiles(some.rows, sliver, some.height, steps, block.chunk.adds);
      });
    });
  }

  // Prefetches the rows of A that come next, a few per 32 columns, which saves 5 to 8 % (Granite Rapids).
  // Where rows are not contiguous the prefetches are useless but harmless.
  void multiply_with_amx(const Block& block, Value* steps) {
    const Chunk& chunk = block.chunk;
    Value* below = b.CreateAdd(block.i, block.height);
    Value* next = b.CreateSelect(b.CreateICmpSLT(below, x.m), operands.at_a(below, chunk.k0),
                                 operands.at_a(b.getInt64(0), b.CreateAdd(chunk.k0, chunk.depth)));
    auto ahead = [&](Value* column) {
      Value* row =
          b.CreateMul(b.CreateUDiv(column, b.getInt64(amx_extent)), b.getInt64(tuning::amx_prefetch_rows));
      return operands.a_row_after(next, b.CreateAnd(row, b.getInt64(amx_extent - 1)));
    };
    Value* none = llvm::ConstantPointerNull::get(b.getPtrTy());
    Value* last = b.CreateICmpSGE(b.CreateAdd(chunk.k0, chunk.depth), x.k);
    auto rounded = [&](Value* column) -> Value* {
      Value* at = b.CreateGEP(b.getInt16Ty(), x.rounded,
                              b.CreateAdd(b.CreateMul(block.i, x.rounded_row_stride), column));
      return b.CreateSelect(b.CreateAnd(last, b.CreateIsNotNull(x.rounded)), at, none);
    };
    for_slivers(block, [&](const Sliver& sliver) {
      emit_for(b, b.getInt64(0), sliver.width, amx_extent, [&](Value* j) {
        Value* width = smin(b, b.getInt64(amx_extent), b.CreateSub(sliver.width, j));
        llvm::SmallVector<Value*, 14> arguments = {
            block.rows.pointer,
            block.rows.row_stride,
            b.CreateGEP(b.getInt32Ty(), sliver.panel.pointer, j),
            b.CreateGEP(c_element, sliver.c_tile, j),
            x.c_row_stride,
            block.height,
            width,
            steps,
            chunk.adds,
            ahead(b.CreateAdd(b.CreateSub(sliver.first, block.group), j)),
            x.a_row_stride};
        if (x.rounded) arguments.append({rounded(b.CreateAdd(sliver.first, j)), x.rounded_row_stride});
        b.CreateCall(amx, arguments);
      });
    });
  }

  // Multiplies one sliver. A narrow last sliver is multiplied one vector at a time, or in tiles of
  // three vectors, so that missing columns cost nothing.
  void register_tiles(const Rows& rows, const Sliver& sliver, Value* height, Value* steps, Value* adds) {
    if (!narrow) return whole_tiles(rows, sliver, height, steps, adds);
    const std::int64_t few = std::int64_t{plan.lanes} * (plan.vectors / 2);
    emit_if_else(
        b, b.CreateICmpSLE(sliver.width, b.getInt64(static_cast<std::uint64_t>(few))),
        [&] {
          emit_for(b, b.getInt64(0), sliver.width, plan.lanes, [&](Value* v) {
            llvm::Type* element = plan.group() > 1 ? b.getInt32Ty() : c_element;
            const Panel panel{b.CreateGEP(element, sliver.panel.pointer, v), sliver.panel.row_stride};
            Value* width = smin(b, b.getInt64(plan.lanes), b.CreateSub(sliver.width, v));
            Sliver part = sliver;
            part.panel = panel, part.width = width;
            part.c_tile = b.CreateGEP(c_element, sliver.c_tile, v);
            register_tiles(narrow, narrow_rows(plan), rows, part, height, steps, adds);
          });
        },
        [&] {
          if (!three_vectors) return whole_tiles(rows, sliver, height, steps, adds);
          const std::int64_t without_one = std::int64_t{plan.lanes} * (plan.vectors - 1);
          emit_if_else(
              b, b.CreateICmpSLE(sliver.width, b.getInt64(static_cast<std::uint64_t>(without_one))),
              [&] {
                register_tiles(three_vectors, tuning::narrow_register_tile_32.rows, rows, sliver, height,
                               steps, adds);
              },
              [&] { whole_tiles(rows, sliver, height, steps, adds); });
        });
  }

  // Multiplies in whole register tiles, of which the first packs the sliver if that is still to be done.
  // Tiles have 6 rows; where such tiles would lack more than one row at the end, the last ones have 4 rows:
  // two of 4 take the place of one of 6 and of 1 or 2 rows that are left.
  void whole_tiles(const Rows& rows, const Sliver& sliver, Value* height, Value* steps, Value* adds) {
    Value *zero = b.getInt64(0), *mr = b.getInt64(plan.mr), *begin = zero;
    if (packing) {
      Value* first = smin(b, mr, height);
      emit_if(b, sliver.unpacked, [&] {
        Sliver source = sliver;
        source.panel = {sliver.source, x.b_row_stride};
        call_tile(packing, rows, source, zero, first, steps, adds, sliver.panel.pointer);
      });
      begin = b.CreateSelect(sliver.unpacked, first, zero);
    }
    if (!short_tile) return register_tiles(micro, plan.mr, rows, sliver, begin, height, steps, adds);
    Value* rest = b.CreateSub(height, begin);
    Value* left = b.CreateURem(rest, mr);
    Value* fits = b.CreateOr(b.CreateICmpEQ(left, zero), b.CreateICmpEQ(left, b.getInt64(plan.mr - 1)));
    Value* in_short = b.CreateSelect(b.CreateICmpULE(left, b.getInt64(2 * tuning::short_tile_rows - plan.mr)),
                                     b.CreateAdd(left, mr), left);
    Value* in_long = b.CreateSub(rest, b.CreateSelect(fits, zero, in_short));
    Value* end = b.CreateAdd(begin, b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, in_long, zero));
    register_tiles(micro, plan.mr, rows, sliver, begin, end, steps, adds);
    register_tiles(short_tile, tuning::short_tile_rows, rows, sliver, end, height, steps, adds);
  }

  void register_tiles(llvm::Function* kernel, int mr, const Rows& rows, const Sliver& sliver, Value* height,
                      Value* steps, Value* adds) {
    register_tiles(kernel, mr, rows, sliver, b.getInt64(0), height, steps, adds);
  }

  void register_tiles(llvm::Function* kernel, int mr, const Rows& rows, const Sliver& sliver, Value* begin,
                      Value* height, Value* steps, Value* adds) {
    emit_for(b, begin, height, mr, [&](Value* i) {
      Value* height_of_tile = smin(b, b.getInt64(mr), b.CreateSub(height, i));
      call_tile(kernel, rows, sliver, i, height_of_tile, steps, adds, llvm::PoisonValue::get(b.getPtrTy()));
    });
  }

  void call_tile(llvm::Function* kernel, const Rows& rows, const Sliver& sliver, Value* i, Value* height,
                 Value* steps, Value* adds, Value* packed) {
    Value* c_rows = b.CreateGEP(c_element, sliver.c_tile, b.CreateMul(i, x.c_row_stride));
    b.CreateCall(kernel, {operands.row_of(rows, i), rows.row_stride, sliver.panel.pointer,
                          sliver.panel.row_stride, c_rows, x.c_row_stride, height, sliver.width, steps, adds,
                          sliver.corrections, packed, x.to_next_b});
  }
};

llvm::Function* loop_nest(Builder& b, const Plan& plan) {
  const DotShape& shape = plan.shape;
  std::string name = "kiln.dot." + std::string(kiln::name(shape.a)) + "." + std::string(kiln::name(shape.b)) +
                     "." + strides_name(shape.a_strides) + "." + strides_name(shape.b_strides) + "." +
                     plan.tile_name() + (plan.skinny ? ".few" : "") + (plan.amx ? ".tiles." : ".") +
                     std::to_string(plan.k_chunk) + "." + std::to_string(plan.m_chunk) + "." +
                     std::to_string(plan.slivers) + "." + std::to_string(narrow_rows(plan));
  if (inner_line_products_possible(plan)) name += ".columns" + std::to_string(shape.k);
  if (outer_line_products_possible(plan)) name += ".rows" + std::to_string(shape.n);
  if (shape.rounds) name += ".rounds";
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  llvm::SmallVector<llvm::Type*, 16> parameters = {ptr, i64, i64, ptr, i64,           i64, ptr,
                                                   i64, i64, i64, i64, b.getInt1Ty(), ptr};
  if (shape.rounds) parameters.append({ptr, i64});
  if (shape.prefetches_next_b) parameters.push_back(i64);
  return routine(b, name, parameters, [&](llvm::Function* f) { LoopNest(b, plan, f).build(); });
}

} // namespace
} // namespace dot

bool dot_stores_rounded(const DotShape& shape, const DotTarget& target) {
  const dot::Plan plan = dot::make_plan(shape, target);
  return plan.amx && plan.panel == dot::PanelKind::Bf16Pairs;
}

std::int64_t dot_scratch_bytes(const DotShape& shape, const DotTarget& target) {
  return dot::make_plan(shape, target).scratch_bytes;
}

void emit_dot_accumulate(DotContext& context, const DotOperands& o) {
  const dot::Plan plan = dot::make_plan(context.shape, context.target);
  llvm::IRBuilder<>& b = context.builder;
  llvm::SmallVector<llvm::Value*, 16> arguments = {o.a.pointer,
                                                   o.a.row_stride,
                                                   o.a.column_stride,
                                                   o.b.pointer,
                                                   o.b.row_stride,
                                                   o.b.column_stride,
                                                   o.c,
                                                   o.c_row_stride,
                                                   o.m,
                                                   o.n,
                                                   o.k,
                                                   o.accumulate,
                                                   o.scratch};
  if (context.shape.rounds) arguments.append({o.rounded, o.rounded_row_stride});
  if (context.shape.prefetches_next_b) arguments.push_back(o.to_next_b);
  b.CreateCall(dot::loop_nest(b, plan), arguments);
}

} // namespace kiln::cpu
