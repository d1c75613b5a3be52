// Emits the choice between reading operands in place and packing them, and the calls that pack.
#include <algorithm>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/dot/operands.h>
#include <kiln/jit/cpu/dot/pack.h>
#include <kiln/jit/cpu/tuning.h>

namespace kiln::cpu::dot {

using llvm::Value;

Arguments::Arguments(Builder& builder, const Plan& plan, llvm::Function* f) {
  Value** const arguments[] = {
      &a, &a_row_stride, &a_column_stride, &b, &b_row_stride, &b_column_stride, &c, &c_row_stride, &m, &n,
      &k, &accumulate,   &scratch};
  unsigned index = 0;
  for (Value** argument : arguments)
    *argument = f->getArg(index++);
  if (plan.shape.rounds) rounded = f->getArg(index++), rounded_row_stride = f->getArg(index++);
  to_next_b = plan.shape.prefetches_next_b ? f->getArg(index) : static_cast<Value*>(builder.getInt64(0));
  Value* one = builder.getInt64(1);
  if (plan.shape.a_strides == DotStrides::UnitInner) a_column_stride = one;
  if (plan.shape.a_strides == DotStrides::UnitOuter) a_row_stride = one;
  if (plan.shape.b_strides == DotStrides::UnitInner) b_column_stride = one;
  if (plan.shape.b_strides == DotStrides::UnitOuter) b_row_stride = one;
}

Operands::Operands(Builder& b, const Plan& plan, const Arguments& arguments)
    : b_(b), plan_(plan), x_(arguments) {
  const DotShape& shape = plan.shape;
  PackSpec of_b{shape.b, plan.panel, PackOrder::Elements, shape.b_strides, plan.lanes, plan.target};
  if (plan.group() > 1) of_b.order = PackOrder::RowGroups;
  PackSpec of_a = of_b;
  of_a.from = shape.a;
  of_b.vectors_together = std::min(plan.vectors, of_b.vectors_together);
  of_b.exactly = plan.blocks_rows;
  pack_b_ = pack_routine(b, of_b);
  if (plan.shifts_a()) corrections_ = corrections_routine(b, plan);
  of_a.order = PackOrder::Elements;
  of_a.strides = shape.a_strides;
  if (plan.may_pack_a()) pack_a_ = pack_routine(b, of_a);
  if (!outer_products_possible(plan)) return;
  of_a.transposes = false;
  of_a.panel = plan.accumulator == DType::F64 ? PanelKind::F64 : PanelKind::F32;
  pack_wide_a_ = pack_routine(b, of_a);
}

llvm::Type* Operands::element(DType t) { return b_.getIntNTy(static_cast<unsigned>(size_of(t)) * 8); }

llvm::Type* Operands::panel_part() {
  return plan_.group() > 1 ? b_.getIntNTy(32U / static_cast<unsigned>(plan_.group()))
                           : element(plan_.accumulator);
}

Value* Operands::in_scratch(std::int64_t offset) {
  return b_.CreateConstGEP1_64(b_.getInt8Ty(), x_.scratch, static_cast<std::uint64_t>(offset));
}

Value* Operands::at_a(Value* row, Value* column) {
  return b_.CreateGEP(
      element(plan_.shape.a), x_.a,
      b_.CreateAdd(b_.CreateMul(row, x_.a_row_stride), b_.CreateMul(column, x_.a_column_stride)));
}

Value* Operands::a_row_after(Value* first, Value* rows) {
  return b_.CreateGEP(element(plan_.shape.a), first, b_.CreateMul(rows, x_.a_row_stride));
}

Value* Operands::at_b(Value* row, Value* column) {
  return b_.CreateGEP(
      element(plan_.shape.b), x_.b,
      b_.CreateAdd(b_.CreateMul(row, x_.b_row_stride), b_.CreateMul(column, x_.b_column_stride)));
}

Value* Operands::at_c(Value* row, Value* column) {
  return b_.CreateGEP(element(plan_.accumulator), x_.c,
                      b_.CreateAdd(b_.CreateMul(row, x_.c_row_stride), column));
}

Value* Operands::steps_of(Value* depth) {
  if (plan_.group() == 1) return depth;
  Value* groups = groups_of(depth);
  if (!plan_.amx) return groups;
  return b_.CreateAnd(b_.CreateAdd(groups, b_.getInt64(amx_tile_rows - 1)), b_.getInt64(-amx_tile_rows));
}

// The groups that contain `rows` rows; the last may be short.
Value* Operands::groups_of(Value* rows) {
  const int group = plan_.group();
  return b_.CreateUDiv(b_.CreateAdd(rows, b_.getInt64(group - 1)), b_.getInt64(group));
}

// i1: B is read in place, because it is small enough for its rows to stay in the cache, or because there are
// too few rows of A to repay packing it.
Value* Operands::b_in_place() {
  if (!plan_.may_read_b_in_place()) return b_.getFalse();
  Value* span = b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x_.b_row_stride, b_.getFalse());
  const std::int64_t most =
      plan_.blocks_rows ? tuning::blocked_max_in_place_b_bytes : tuning::max_in_place_b_bytes;
  Value* largest = b_.CreateUDiv(b_.getInt64(most / size_of(plan_.shape.b)), x_.k);
  Value* small =
      b_.CreateOr(b_.CreateICmpULE(span, largest),
                  b_.CreateICmpSLE(x_.m, b_.getInt64(plan_.blocks_rows ? 0 : tuning::skinny_rows)));
  return b_.CreateAnd(small, b_.CreateICmpEQ(x_.b_column_stride, b_.getInt64(1)));
}

// i1: A is read in place, at least where its groups are whole. Only contiguous rows are: with contiguous
// columns each step of K would read another line, and soon more lines than L1 holds. On Zen 4 packing such
// columns costs 6 rows 7 % more time, and takes a fifth off 1000 cubed and a third off 2500 cubed. Where rows
// are blocked, A is packed unless its rows are near each other or B has few columns.
Value* Operands::a_in_place() {
  if (plan_.a_converts()) return b_.getFalse();
  Value* rows = b_.CreateICmpEQ(x_.a_column_stride, b_.getInt64(1));
  if (!plan_.blocks_rows) return rows;
  Value* few = b_.CreateICmpSLT(x_.n, b_.getInt64(tuning::min_packed_a_columns));
  Value* stride = b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x_.a_row_stride, b_.getFalse());
  Value* near =
      b_.CreateICmpULE(stride, b_.getInt64(tuning::max_in_place_a_row_bytes / size_of(plan_.shape.a)));
  return b_.CreateAnd(rows, b_.CreateOr(few, near));
}

Value* Operands::row_of(const Rows& rows, Value* i) {
  return b_.CreateGEP(panel_part(), rows.pointer, b_.CreateMul(i, rows.row_stride));
}

// Selects between two ways to obtain rows of A, which may be decided at run time.
template <class Then, class Else> Rows Operands::either(Value* condition, Then&& one, Else&& other) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) return known->isOne() ? one() : other();
  Rows v{}, w{};
  llvm::BasicBlock *after_one = nullptr, *after_other = nullptr;
  emit_if_else(
      b_, condition, [&] { v = one(), after_one = b_.GetInsertBlock(); },
      [&] { w = other(), after_other = b_.GetInsertBlock(); });
  auto merge = [&](Value* p, Value* q) -> Value* {
    if (p == q) return p;
    llvm::PHINode* phi = b_.CreatePHI(p->getType(), 2);
    phi->addIncoming(p, after_one);
    phi->addIncoming(q, after_other);
    return phi;
  };
  return {merge(v.pointer, w.pointer), merge(v.row_stride, w.row_stride)};
}

Rows Operands::rows_of_a(const Chunk& chunk, Value* i0, Value* height) {
  Value* first = at_a(i0, chunk.k0);
  return either(
      chunk.direct_a, [&] { return Rows{first, x_.a_row_stride}; },
      [&] { return packed_rows(chunk, first, height); });
}

Rows Operands::packed_rows(const Chunk& chunk, Value* first, Value* height) {
  Value *packed = in_scratch(plan_.packed_a_offset), *stride = b_.getInt64(plan_.packed_a_row_stride);
  // The elements that the last step lacks become zero.
  Value* padded = b_.CreateMul(steps_of(chunk.depth), b_.getInt64(plan_.group()));
  b_.CreateCall(pack_a_,
                {packed, stride, first, x_.a_row_stride, x_.a_column_stride, height, chunk.depth, padded});
  return {packed, stride};
}

Rows Operands::wide_rows_of_a(Value* k0, Value* depth) {
  Value* first = at_a(b_.getInt64(0), k0);
  auto packed = [&] {
    Value *wide = in_scratch(plan_.wide_a_offset), *stride = b_.getInt64(plan_.wide_a_row_stride);
    b_.CreateCall(pack_wide_a_,
                  {wide, stride, first, x_.a_row_stride, x_.a_column_stride, x_.m, depth, depth});
    return Rows{wide, stride};
  };
  const bool converts = plan_.shape.a != plan_.accumulator;
  Value* in_place = converts ? b_.getFalse() : b_.CreateICmpEQ(x_.a_column_stride, b_.getInt64(1));
  return either(in_place, [&] { return Rows{first, x_.a_row_stride}; }, packed);
}

// The address of row `row` of the packed sliver that begins at column j. With blocked rows, slivers of a
// shorter chunk lie closer together: at the distance of the longest they would leave sets of L2 unused.
Value* Operands::packed_sliver(const Chunk& chunk, Value* group, Value* j, Value* row) {
  Value* rows = b_.getInt64(plan_.k_chunk);
  if (plan_.blocks_rows) rows = b_.CreateMul(steps_of(chunk.depth), b_.getInt64(plan_.group()));
  Value* element = b_.CreateAdd(
      b_.CreateMul(b_.CreateSub(j, group), rows),
      b_.CreateMul(row,
                   b_.getInt64(plan_.nr()))); // row of the source: a packed row holds a whole group of them
  return b_.CreateGEP(panel_part(), x_.scratch, element);
}

// A few rows are packed at a time for all slivers of the group, because neighbouring columns share pages and
// rows do not. The microkernel always reads NR columns, even if n is smaller, so a ragged last sliver is
// packed even when the others are read in place or packed while multiplying.
void Operands::pack_slivers(const Chunk& chunk, Value* group, Value* group_end) {
  Value* depth = chunk.depth;
  Value* whole = b_.CreateMul(b_.CreateSDiv(b_.CreateSub(group_end, group), b_.getInt64(plan_.nr())),
                              b_.getInt64(plan_.nr()));
  Value* elsewhere = b_.CreateOr(chunk.in_place_b, chunk.packs_on_the_way);
  Value* first = b_.CreateSelect(elsewhere, b_.CreateAdd(group, whole), group);
  // Contiguous columns are packed to their end at once.
  Value* rows_together = b_.getInt64(plan_.blocks_rows ? tuning::blocked_packed_rows : tuning::packed_rows);
  Value* together = b_.CreateSelect(b_.CreateICmpEQ(x_.b_row_stride, b_.getInt64(1)), depth, rows_together);
  emit_for(b_, b_.getInt64(0), depth, together, [&](Value* row) {
    Value* rows = smin(b_, together, b_.CreateSub(depth, row));
    emit_for(b_, first, group_end, plan_.nr(), [&](Value* j) {
      Value* width = smin(b_, b_.getInt64(plan_.nr()), b_.CreateSub(group_end, j));
      Value* source = at_b(b_.CreateAdd(chunk.k0, row), j);
      Value* nr = b_.getInt64(plan_.nr());
      b_.CreateCall(pack_b_, {packed_sliver(chunk, group, j, row), nr, source, x_.b_row_stride,
                              x_.b_column_stride, rows, width, nr});
    });
  });
  if (plan_.amx) zero_missing_groups(chunk, group, group_end);
  if (!plan_.shifts_a()) return;
  emit_for(b_, group, group_end, plan_.nr(), [&](Value* j) {
    b_.CreateCall(corrections_, {corrections_of(group, j), packed_sliver(chunk, group, j, b_.getInt64(0)),
                                 steps_of(depth)});
  });
}

// Zeroes the groups that a ragged K lacks of its last tile.
void Operands::zero_missing_groups(const Chunk& chunk, Value* group, Value* group_end) {
  Value *groups = groups_of(chunk.depth), *missing = b_.CreateSub(steps_of(chunk.depth), groups);
  emit_if(b_, b_.CreateICmpSGT(missing, b_.getInt64(0)), [&] {
    Value* bytes = b_.CreateMul(missing, b_.getInt64(plan_.nr() * 4));
    emit_for(b_, group, group_end, plan_.nr(), [&](Value* j) {
      Value* row = b_.CreateMul(groups, b_.getInt64(plan_.group()));
      b_.CreateMemSet(packed_sliver(chunk, group, j, row), b_.getInt8(0), bytes, llvm::Align(64));
    });
  });
}

// The corrections of a sliver, which are computed when it is packed.
Value* Operands::corrections_of(Value* group, Value* j) {
  if (!plan_.shifts_a()) return llvm::PoisonValue::get(b_.getPtrTy());
  Value* all = in_scratch(plan_.corrections_offset);
  Value* sliver = b_.CreateUDiv(b_.CreateSub(j, group), b_.getInt64(plan_.nr()));
  return b_.CreateGEP(b_.getInt32Ty(), all, b_.CreateMul(sliver, b_.getInt64(plan_.nr() + plan_.lanes)));
}

Panel Operands::sliver_of_b(const Chunk& chunk, Value* group, Value* j, Value* width) {
  Value* packed = packed_sliver(chunk, group, j, b_.getInt64(0));
  Value* nr = b_.getInt64(plan_.nr());
  Value* direct = b_.CreateAnd(chunk.in_place_b, b_.CreateICmpEQ(width, nr));
  Value* source = at_b(chunk.k0, j);
  return {b_.CreateSelect(direct, source, packed), b_.CreateSelect(direct, x_.b_row_stride, nr)};
}

} // namespace kiln::cpu::dot
