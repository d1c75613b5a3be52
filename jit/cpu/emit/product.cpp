// Emits loops over K as one product, and products that a group of programs shares.
//
// The loops and the groups are found by facts/product_loop.h and facts/grouped_product.h.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/facts/program_slice.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

constexpr std::int64_t unknown_depth = std::int64_t{1} << 40;

} // namespace

// K of the whole loop. A last step is executed as a whole, as far as the views reach.
Value* KernelEmitter::product_depth(const ProductLoop& product) {
  Value *begin = scalar(product.loop->operand(0)), *end = scalar(product.loop->operand(1));
  Value* step = b_.getInt64(static_cast<std::uint64_t>(product.step));
  Value* length = b_.CreateSub(end, begin);
  Value* steps = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(length, b_.getInt64(1)), step), b_.getInt64(1));
  return b_.CreateSelect(b_.CreateICmpSGT(end, begin), b_.CreateMul(steps, step), b_.getInt64(0));
}

// Computes the loop's scalars for this value of its index.
void KernelEmitter::enter_product(const ProductLoop& product, Value* index) {
  const ir::Region& body = *product.loop->region();
  scalars_[body.args[0].get()] = index;
  for (const auto& op : body.ops)
    if (op->num_results() == 1 && op->result()->type.is_scalar()) emit_scalar(*op);
}

// The memory of a plain operand: `depth` elements along K (axis `k_axis` of the operand) from the current
// index of the loop, and `other_extent` elements along the other axis of a matrix (null: the extent of its
// tile).
KernelEmitter::Matrix KernelEmitter::plain_matrix(const ProductOperand& operand, std::size_t k_axis,
                                                  Value* depth, Value* other_extent) {
  Values extents = constants(extents_of(operand.load->result()->type));
  extents[operand.order[k_axis]] = depth;
  if (other_extent) extents[operand.order[1 - k_axis]] = other_extent;
  return view_matrix(*operand.load, operand.order, extents);
}

// Uses the sums that the group computed as the result of the loop. A program that takes no part in a group
// computes its own sums.
bool KernelEmitter::take_shared_sums(const ir::Op& loop) {
  if (!grouped_) return false;
  for (std::size_t i = 0; i < grouped_->products.size(); ++i) {
    if (grouped_->products[i].loop != &loop) continue;
    flush();
    const Buffer part = group_.parts[i];
    if (group_.shared) {
      buffers_[loop.region()->args[1].get()] = part;
      emit_if(b_, b_.CreateNot(group_.shared), [&] { emit_own_for(loop); });
    }
    buffers_[loop.result()] = part;
    return true;
  }
  return false;
}

void KernelEmitter::emit_product_loop(const ProductLoop& product) {
  flush();
  const ir::Op& loop = *product.loop;
  Buffer sums = own_buffer(loop.region()->args[1].get());
  buffers_[loop.result()] = sums;
  const bool plain = product.a.load && product.b.load;
  auto zero = passes::constant_of(loop.operand(3));
  const bool accumulate = !plain || !zero || *zero != 0;
  if (accumulate) {
    Root root{Root::Kind::Fill, loop.operand(3)};
    root.buffer = sums;
    emit_nest({root}, sums.extents);
  }
  locate(*product.dot);
  Value *begin = scalar(loop.operand(0)), *depth = product_depth(product);
  if (!plain) return emit_in_chunks(product, begin, depth, sums);
  enter_product(product, begin);
  DotShape shape = dot_shape(*product.dot);
  shape.k = unknown_depth;
  const std::size_t rank = sums.extents.size();
  Matrix a = plain_matrix(product.a, rank - 1, depth);
  Sums all = sums_in(sums, accumulate);
  keep_needed_rows(loop.result(), a, all);
  multiply(shape, a, plain_matrix(product.b, rank - 2, depth), all);
}

// Gathers several steps of K of computed operands in scratch, and multiplies them together.
void KernelEmitter::emit_in_chunks(const ProductLoop& product, Value* begin, Value* depth,
                                   const Buffer& sums) {
  const Gathered gathered = make_gathered(product, sums.extents[0], sums.extents[1]);
  DotShape shape = dot_shape(*product.dot);
  shape.k = gathered.depth;
  Value* none = b_.getInt64(0);
  emit_chunks(gathered, begin, depth, [&](Value* first, Value* steps) {
    if (!product.a.load) gather(product, product.a, 1, gathered.a, none, first, steps);
    if (!product.b.load) gather(product, product.b, 0, gathered.b, none, first, steps);
    enter_product(product, first);
    locate(*product.dot);
    Sums all = sums_in(sums, true);
    Matrix a = chunk_matrix(product.a, 1, gathered.a, steps, all.extents[0]);
    keep_needed_rows(product.loop->result(), a, all);
    multiply(shape, a, chunk_matrix(product.b, 0, gathered.b, steps, all.extents[1]), all);
  });
}

// Creates scratch for the computed operands of a product: `rows` rows of A, `columns` columns of B. The last
// tile of a row is written in whole vectors, for which the rows have space, and rows of A are not a power of
// two apart.
KernelEmitter::Gathered KernelEmitter::make_gathered(const ProductLoop& product, std::int64_t rows,
                                                     std::int64_t columns) {
  auto padding = [](std::int64_t tile) {
    const auto vector = std::min<std::int64_t>(64, std::bit_ceil(static_cast<std::uint64_t>(tile)));
    return -tile & (vector - 1);
  };
  Gathered gathered;
  gathered.depth = std::max<std::int64_t>(1, tuning::gathered_k / product.step) * product.step;
  if (!product.a.load)
    gathered.a = make_buffer(product.a.value->type.dtype, false,
                             {rows, gathered.depth + std::max<std::int64_t>(1, padding(product.step))});
  if (!product.b.load)
    gathered.b =
        make_buffer(product.b.value->type.dtype, false,
                    {gathered.depth, columns + padding(product.dot->result()->type.shape[1].value())});
  return gathered;
}

// Calls `body` for `depth` elements of K from `begin` on, as many at a time as are gathered.
void KernelEmitter::emit_chunks(const Gathered& gathered, Value* begin, Value* depth,
                                llvm::function_ref<void(Value* first, Value* steps)> body) {
  Value* chunk = b_.getInt64(static_cast<std::uint64_t>(gathered.depth));
  emit_loop(b_, b_.getInt64(0), depth, chunk, {}, [&](Value* k, const Values&, llvm::Instruction*) -> Values {
    body(b_.CreateAdd(begin, k),
         b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(depth, k), chunk));
    return {};
  });
}

// Computes the tiles of an operand for `steps` elements of K from `first` on, and stores them one after the
// other along K (axis `k_axis` of the buffer), `place` elements from the beginning along the other axis.
void KernelEmitter::gather(const ProductLoop& product, const ProductOperand& operand, std::size_t k_axis,
                           const Buffer& buffer, Value* place, Value* first, Value* steps) {
  const ir::Region& body = *product.loop->region();
  std::unordered_set<const ir::Value*> needed{operand.value};
  for (auto op = body.ops.rbegin(); op != body.ops.rend(); ++op)
    if ((*op)->num_results() == 1 && needed.count((*op)->result()))
      needed.insert((*op)->operands.begin(), (*op)->operands.end());
  Value* step = b_.getInt64(static_cast<std::uint64_t>(product.step));
  emit_loop(b_, b_.getInt64(0), steps, step, {}, [&](Value* at, const Values&, llvm::Instruction*) -> Values {
    scalars_[body.args[0].get()] = b_.CreateAdd(first, at);
    for (const auto& op : body.ops)
      if (op->num_results() == 1 && op.get() != product.dot && needed.count(op->result())) emit_op(*op);
    flush();
    Root root{Root::Kind::Fill, operand.value};
    root.buffer = buffer;
    root.buffer.extents = extents_of(operand.value->type);
    Value* offset = b_.CreateAdd(b_.CreateMul(at, stride_of(buffer, k_axis)),
                                 b_.CreateMul(place, stride_of(buffer, 1 - k_axis)));
    root.buffer.pointer = b_.CreateGEP(memory_type(context_, buffer.dtype), buffer.pointer, offset);
    emit_nest({root}, root.buffer.extents);
    return {};
  });
}

// The part of an operand for `steps` elements of K, in place or gathered, with `other_extent` elements along
// its other axis.
KernelEmitter::Matrix KernelEmitter::chunk_matrix(const ProductOperand& operand, std::size_t k_axis,
                                                  const Buffer& gathered, Value* steps, Value* other_extent) {
  if (operand.load) return plain_matrix(operand, k_axis, steps, other_extent);
  Matrix m = buffer_matrix(gathered);
  m.valid[k_axis] = steps, m.valid[1 - k_axis] = other_extent;
  return m;
}

// Emits a group of programs: one product for all of them, then each program.
void KernelEmitter::emit_group(Value* number) {
  const Grouping& grouping = grouped_->grouping;
  const std::size_t rank = grid_.size();
  auto grouped = [&](std::size_t axis) {
    const int a = static_cast<int>(axis);
    return a == grouping.m_axis || a == grouping.n_axis || a == grouping.computed_axis;
  };
  Value* one = b_.getInt64(1);
  Values groups, counts;
  for (std::size_t axis = 0; axis < rank; ++axis)
    groups.push_back(grouped(axis)
                         ? b_.CreateUDiv(b_.CreateAdd(grid_[axis], b_.CreateSub(group_.size[axis], one)),
                                         group_.size[axis])
                         : grid_[axis]);
  Values first = coordinates_of(number, groups);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (grouped(axis)) first[axis] = b_.CreateMul(first[axis], group_.size[axis]);
    counts.push_back(grouped(axis) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, group_.size[axis],
                                                              b_.CreateSub(grid_[axis], first[axis]))
                                   : one);
  }
  if (grouping.computed_axis >= 0)
    return emit_group_at_computed_places(first, counts[static_cast<std::size_t>(grouping.computed_axis)]);
  const auto m_axis = static_cast<std::size_t>(grouping.m_axis),
             n_axis = static_cast<std::size_t>(grouping.n_axis);
  Value *count_m = grouping.m_axis >= 0 ? counts[m_axis] : one,
        *count_n = grouping.n_axis >= 0 ? counts[n_axis] : one;
  emit_rectangle(first, count_m, count_n, [&](Value* m, Value* n) {
    Values at = first;
    if (grouping.m_axis >= 0) at[m_axis] = b_.CreateAdd(first[m_axis], m);
    if (grouping.n_axis >= 0) at[n_axis] = b_.CreateAdd(first[n_axis], n);
    return at;
  });
}

// Emits a rectangle of programs, the first of which is at `first`: their common product, and then each
// program.
void KernelEmitter::emit_rectangle(const Values& first, Value* count_m, Value* count_n,
                                   llvm::function_ref<Values(Value* m, Value* n)> coordinates) {
  const Grouping& grouping = grouped_->grouping;
  Value *one = b_.getInt64(1), *none = b_.getInt64(0);
  Value *tile_m = b_.getInt64(static_cast<std::uint64_t>(grouping.tile_m)),
        *tile_n = b_.getInt64(static_cast<std::uint64_t>(grouping.tile_n));
  Value *shared_m = count_m, *shared_n = count_n;
  if (group_.shared) {
    shared_m = b_.CreateSelect(group_.shared, count_m, none);
    shared_n = b_.CreateSelect(group_.shared, count_n, none);
  }
  emit_shared_products({first, shared_m, shared_n, b_.CreateMul(shared_m, tile_m),
                        b_.CreateMul(count_n, tile_n), coordinates});

  group_.parts = group_.sums;
  for (Buffer& part : group_.parts)
    part.extents = {grouping.tile_m, grouping.tile_n};
  auto program = [&](Value* m, Value* n) {
    const Values at = coordinates(m, n);
    Value* linear = none;
    for (std::size_t axis = 0; axis < grid_.size(); ++axis)
      linear = b_.CreateAdd(b_.CreateMul(linear, grid_[axis]), at[axis]);
    for (std::size_t i = 0; i < group_.sums.size(); ++i) {
      const Buffer& sums = group_.sums[i];
      Value* row = b_.CreateMul(b_.CreateMul(m, tile_m), stride_of(sums, 0));
      group_.parts[i].pointer = b_.CreateGEP(memory_type(context_, sums.dtype), sums.pointer,
                                             b_.CreateAdd(row, b_.CreateMul(n, tile_n)));
    }
    emit_program(linear, at);
  };
  if (group_.stored) count_m = b_.CreateSelect(group_.stored, none, count_m);
  emit_loop(b_, none, count_m, one, {}, [&](Value* m, const Values&, llvm::Instruction*) -> Values {
    emit_loop(b_, none, count_n, one, {}, [&](Value* n, const Values&, llvm::Instruction*) -> Values {
      program(m, n);
      return {};
    });
    return {};
  });
}

// Creates a buffer for the sums of a group, with rows of `columns` elements. Rows a power of two apart would
// share sets of the cache with each other and with rows of B, so that rows are an odd number of lines long.
// Skinny groups read B from memory while they store sums; if a row of sums is a few lines ahead of a row of B
// within a page of 4 KiB, loads of B look to the CPU like loads of what was just stored. Four rows take a
// seventh less time with 17 lines between them than with one (Zen 4).
Buffer KernelEmitter::make_sums(DType dtype, Value* columns) {
  const Grouping& grouping = grouped_->grouping;
  const std::int64_t line = 64 / size_of(dtype), between_rows = grouping.tile_m <= tuning::skinny_rows
                                                                    ? tuning::skinny_sums_gap_lines * line
                                                                    : 0;
  const std::int64_t rows = grouping.tile_m * grouping.most_m;
  const std::int64_t programs = std::min(grouping.most_programs, grouping.most_m * grouping.most_n);
  Buffer sums = make_buffer(
      dtype, false, {programs * grouping.tile_m * grouping.tile_n + rows * (between_rows + 2 * line)});
  sums.extents = {rows, grouping.tile_n * grouping.most_n};
  sums.strides = {0, 1};
  auto number = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  Value* whole_lines = b_.CreateAnd(b_.CreateAdd(columns, number(line - 1)), number(-line));
  sums.row_stride = b_.CreateAdd(b_.CreateOr(whole_lines, number(line)), number(between_rows));
  return sums;
}

// Computes the scalars on which products depend, for the program at these coordinates.
void KernelEmitter::enter_program(const Values& coordinates) {
  coordinates_ = coordinates;
  for (const ir::Op* op : grouped_->scalars)
    emit_scalar(*op);
}

void KernelEmitter::emit_shared_products(const Rectangle& programs) {
  for (std::size_t i = group_.sums.size(); i < grouped_->products.size(); ++i)
    group_.sums.push_back(make_sums(grouped_->products[i].dot->result()->type.dtype, programs.columns));
  for (std::size_t i = 0; i < grouped_->products.size(); ++i) {
    enter_program(programs.first); // again, since the last product entered other programs, in a loop
    emit_shared_product(grouped_->products[i], group_.sums[i], programs);
  }
}

void KernelEmitter::emit_shared_product(const ProductLoop& product, const Buffer& buffer,
                                        const Rectangle& programs) {
  locate(*product.dot);
  Sums sums{buffer.pointer,
            buffer.dtype,
            strides_of(buffer),
            {needed_rows_of_group(product, programs), programs.columns},
            false};
  Value *begin = scalar(product.loop->operand(0)), *depth = product_depth(product);
  const bool plain = product.a.load && product.b.load;
  if (plain) enter_product(product, begin);
  group_.stored = stores_sums();
  if (group_.stored) store_there(product, buffer, depth, sums);
  if (!plain) return emit_shared_chunks(product, buffer, programs, sums, begin, depth);
  const Matrix a = plain_matrix(product.a, 1, depth, sums.extents[0]),
               b = plain_matrix(product.b, 0, depth, sums.extents[1]);
  multiply_for_group(product, buffer, unknown_depth, a, b, sums);
}

// Makes the product store its sums directly in the kernel's destination, if that is allowed. Sums that are
// rounded are stored there only if the product's routine can round them, and if no element beyond the
// operands' views must become zero.
void KernelEmitter::store_there(const ProductLoop& product, const Buffer& buffer, Value* depth, Sums& sums) {
  const Matrix c = view_matrix(*grouped_->store, {0, 1}, sums.extents);
  auto there = [&](Value* of_view, Value*& otherwise) {
    otherwise = b_.CreateSelect(group_.stored, of_view, otherwise);
  };
  if (grouped_->rounds) {
    const Matrix a = plain_matrix(product.a, 1, depth, c.valid[0]),
                 b = plain_matrix(product.b, 0, depth, c.valid[1]);
    const bool can = dot_stores_rounded(group_shape(product, buffer, unknown_depth), dot_target_);
    Value* k = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a.valid[1], b.valid[0]);
    group_.stored =
        b_.CreateAnd({group_.stored, b_.getInt1(can), b_.CreateICmpEQ(a.valid[0], c.valid[0]),
                      b_.CreateICmpEQ(b.valid[1], c.valid[1]), b_.CreateICmpSGT(k, b_.getInt64(0))});
    sums.rounded = llvm::ConstantPointerNull::get(b_.getPtrTy());
    there(c.pointer, sums.rounded);
    sums.rounded_row_stride = c.strides[0];
  } else {
    there(c.pointer, sums.pointer);
    there(c.strides[0], sums.strides[0]);
  }
  there(c.valid[0], sums.extents[0]);
  there(c.valid[1], sums.extents[1]);
}

// The rows of a rectangle of programs that any of its programs needs. That is only known if the rows of their
// stores follow each other as the rows of the programs do.
Value* KernelEmitter::needed_rows_of_group(const ProductLoop& product, const Rectangle& programs) {
  const Grouping& grouping = grouped_->grouping;
  const ir::Value* sums = product.loop->result();
  for (const StoredAxis& s : needed_.stores(sums, 0)) {
    const std::int64_t of_view = s.store->integers("axes")[s.axis];
    const ir::Value* offset = s.store->view_offsets()[static_cast<std::size_t>(of_view)];
    if (grouping.m_axis < 0 || program_offset(offset, grouping.tile_m) != grouping.m_axis)
      return programs.rows;
  }
  return needed_extent(sums, 0, programs.rows);
}

// Computes the operands of a shared product, each program's tiles once: those of A for the first column of
// programs, those of B for the first row.
void KernelEmitter::emit_shared_chunks(const ProductLoop& product, const Buffer& buffer,
                                       const Rectangle& programs, Sums sums, Value* begin, Value* depth) {
  Value *none = b_.getInt64(0), *one = b_.getInt64(1);
  zero_missing(none, none, b_.getFalse(), sums);
  sums.accumulate = true;
  const Grouping& grouping = grouped_->grouping;
  const Gathered gathered =
      make_gathered(product, grouping.tile_m * grouping.most_m, grouping.tile_n * grouping.most_n);
  auto gather_all = [&](const ProductOperand& operand, std::size_t k_axis, const Buffer& whole, Value* first,
                        Value* steps) {
    if (operand.load) return;
    const bool rows = k_axis == 1;
    Value* extent = b_.getInt64(static_cast<std::uint64_t>(rows ? grouping.tile_m : grouping.tile_n));
    for (const int axis : {rows ? grouping.n_axis : grouping.m_axis, grouping.computed_axis})
      if (axis >= 0) shared_along_ |= 1U << axis;
    emit_loop(b_, none, rows ? programs.count_m : programs.count_n, one, {},
              [&](Value* i, const Values&, llvm::Instruction*) -> Values {
                enter_program(rows ? programs.coordinates(i, none) : programs.coordinates(none, i));
                gather(product, operand, k_axis, whole, b_.CreateMul(i, extent), first, steps);
                return {};
              });
    shared_along_ = 0;
  };
  emit_chunks(gathered, begin, depth, [&](Value* first, Value* steps) {
    gather_all(product.a, 1, gathered.a, first, steps);
    gather_all(product.b, 0, gathered.b, first, steps);
    enter_program(programs.first);
    enter_product(product, first);
    locate(*product.dot);
    multiply_for_group(product, buffer, gathered.depth,
                       chunk_matrix(product.a, 1, gathered.a, steps, sums.extents[0]),
                       chunk_matrix(product.b, 0, gathered.b, steps, sums.extents[1]), sums);
  });
}

DotShape KernelEmitter::group_shape(const ProductLoop& product, const Buffer& sums, std::int64_t most_depth) {
  DotShape shape = dot_shape(*product.dot);
  shape.m = sums.extents[0], shape.n = sums.extents[1], shape.k = most_depth;
  return shape;
}

// Multiplies for a group. Tiles with few rows occur in launches with few rows and in launches with many. The
// launch decides which kernel is used, not the group: skinny products add in another order, and the last rows
// of a tall product must not depend on the tile size. If programs compute both their positions and their
// rows, the rows of the launch are not known.
void KernelEmitter::multiply_for_group(const ProductLoop& product, const Buffer& buffer,
                                       std::int64_t most_depth, const Matrix& a, const Matrix& b,
                                       const Sums& sums) {
  auto of_rows = [&](std::int64_t most) {
    DotShape shape = group_shape(product, buffer, most_depth);
    shape.m = most;
    multiply(shape, a, b, sums);
  };
  const std::int64_t tile_m = grouped_->grouping.tile_m;
  const bool unknown_rows = grouped_->grouping.computed_axis >= 0 && !product.a.load;
  if (tile_m > tuning::skinny_rows || buffer.extents[0] == tile_m || unknown_rows)
    return of_rows(buffer.extents[0]);
  Value* one_tile =
      b_.CreateICmpSLE(rows_of_launch(product), b_.getInt64(static_cast<std::uint64_t>(tile_m)));
  emit_if_else(b_, one_tile, [&] { of_rows(tile_m); }, [&] { of_rows(buffer.extents[0]); });
}

// The rows of A of all programs of the grid; all rows of A if programs are not grouped along an axis.
Value* KernelEmitter::rows_of_launch(const ProductLoop& product) {
  const Grouping& grouping = grouped_->grouping;
  Value* of_grid = b_.getInt64(static_cast<std::uint64_t>(grouping.tile_m));
  if (grouping.m_axis >= 0) of_grid = b_.CreateMul(grid_[static_cast<std::size_t>(grouping.m_axis)], of_grid);
  if (!product.a.load) return of_grid;
  const ir::Op& load = *product.a.load;
  const auto axis = static_cast<std::size_t>(load.integers("axes")[product.a.order[0]]);
  if (grouping.m_axis < 0) return facts(load.operand(0)).extents[axis];
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, of_grid, facts(load.operand(0)).extents[axis]);
}

// i1: sums may be added up, or stored rounded, in the kernel's destination. No other program may read or
// store that memory, since it would see unfinished sums, or sums that are stored before all programs have
// read.
Value* KernelEmitter::stores_sums() {
  const ir::Op* store = grouped_->store;
  if (!store || options_.debug) return nullptr;
  const ir::Value* view = store->operand(0);
  Values conditions{distinct_elements(view)};
  for (const ir::Value* read : grouped_->reads)
    conditions.push_back(disjoint(view, read));
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  Value* apart = b_.CreateAnd(conditions);
  for (std::size_t axis = 0; axis < grid_.size(); ++axis)
    if (!(grouped_->disjoint_axes >> axis & 1))
      apart = b_.CreateAnd(apart, b_.CreateICmpSLE(grid_[axis], b_.getInt64(1)));
  return apart;
}

} // namespace kiln::cpu
