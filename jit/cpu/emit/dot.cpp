// Emits matrix products whose operands are read in place, or from scratch.
//
// Plain loads from views are read in place, all other operands from scratch.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/facts/column_limit.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/axes.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

KernelEmitter::Matrix KernelEmitter::buffer_matrix(const Buffer& buffer) {
  Matrix m;
  m.pointer = buffer.pointer;
  m.strides = strides_of(buffer);
  m.valid = constants(buffer.extents);
  if (buffer.strides.back() == 1) m.known = DotStrides::UnitInner;
  return m;
}

// The memory that a plain load or store of a view accesses: `extents` elements along the axes of its tile, as
// far as they lie inside the view. No offset may be negative. Axis i of the matrix is axis order[i] of the
// tile.
KernelEmitter::Matrix KernelEmitter::view_matrix(const ir::Op& access, const std::vector<std::size_t>& order,
                                                 const Values& extents) {
  ViewFacts& view = facts(access.operand(0));
  const int last = access.operand(0)->type.view_rank - 1;
  const bool unit = access.operand(0)->type.layout != LayoutClass::Any;
  const auto& axes = access.integers("axes");
  auto offsets = access.view_offsets();
  auto stride_of = [&](std::size_t axis) -> Value* {
    return unit && static_cast<int>(axis) == last ? b_.getInt64(1) : view.strides[axis];
  };
  Matrix m;
  Value* start = b_.getInt64(0);
  Value* dropped_axis_out_of_bounds = b_.getFalse();
  for (std::size_t a = 0; a < offsets.size(); ++a) {
    Value* offset = scalar(offsets[a]);
    start = b_.CreateAdd(start, b_.CreateMul(offset, stride_of(a)));
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) == axes.end())
      dropped_axis_out_of_bounds =
          b_.CreateOr(dropped_axis_out_of_bounds, b_.CreateICmpUGE(offset, view.extents[a]));
  }
  m.pointer = b_.CreateGEP(memory_type(context_, access.operand(0)->type.dtype), view.data, start);
  for (std::size_t t : order) {
    auto axis = static_cast<std::size_t>(axes[t]);
    m.strides.push_back(stride_of(axis));
    Value* room = b_.CreateSub(view.extents[axis], scalar(offsets[axis]));
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room, extents[t]);
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, room, b_.getInt64(0));
    m.valid.push_back(b_.CreateSelect(dropped_axis_out_of_bounds, b_.getInt64(0), room));
  }
  const bool contiguous = unit && axes.back() == last;
  if (contiguous && order.back() == axes.size() - 1) m.known = DotStrides::UnitInner;
  if (contiguous && order.size() >= 2 && order[order.size() - 2] == axes.size() - 1)
    m.known = DotStrides::UnitOuter;
  return m;
}

// A buffer whose axis order[i] is axis i of the matrix.
KernelEmitter::Matrix KernelEmitter::transposed_matrix(const Buffer& buffer,
                                                       const std::vector<std::size_t>& order) {
  const Matrix whole = buffer_matrix(buffer);
  Matrix m;
  m.pointer = whole.pointer;
  for (std::size_t axis : order) {
    m.strides.push_back(whole.strides[axis]);
    m.valid.push_back(whole.valid[axis]);
  }
  const std::size_t last = order.size() - 1;
  if (whole.known == DotStrides::UnitInner && order[last] == last) m.known = DotStrides::UnitInner;
  if (whole.known == DotStrides::UnitInner && order[last - 1] == last) m.known = DotStrides::UnitOuter;
  return m;
}

// Whether a tile is loaded from rows that are contiguous in memory, masked, gathered or converted. Its
// elements are then copied in the order of memory, although a product uses the transposed tile.
bool KernelEmitter::loads_rows(const ir::Value* v) const {
  while (v->def && v->def->is(Opcode::Cast) && !plan_.has_buffer(v))
    v = v->def->operand(0);
  if (!v->def || plan_.has_buffer(v) || v->type.shape.size() < 2) return false;
  const bool load = v->def->is(Opcode::ViewLoad), gather = v->def->is(Opcode::ViewGather);
  if ((!load && !gather) || v->def->operand(0)->type.layout == LayoutClass::Any) return false;
  const auto last = static_cast<int>(v->type.shape.size()) - 1;
  if (gather) return passes::step_along(v->def->view_offsets().back(), last) == 1;
  return v->def->integers("axes").back() == v->def->operand(0)->type.view_rank - 1;
}

// Reduces the extents of a tile to the elements for which a mask is true, if it is true for the first ones
// along each axis, as the masks of slices are. axes[i] is the tile's axis that is axis i of the mask, or -1.
// `wraps` is set where indices exceed 64 bits, so that the mask may be true elsewhere, too.
bool KernelEmitter::limit_by_mask(const ir::Value* mask, const std::vector<int>& axes, Values& extents,
                                  Value*& wraps) {
  if (!mask->def) return false;
  const ir::Op& op = *mask->def;
  if (op.is(Opcode::And))
    return limit_by_mask(op.operand(0), axes, extents, wraps) &&
           limit_by_mask(op.operand(1), axes, extents, wraps);
  if (passes::maps_axes(op)) {
    std::vector<int> inner(op.operand(0)->type.shape.size(), -1);
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (const int axis = passes::operand_axis(op, static_cast<int>(i)); axis >= 0)
        inner[static_cast<std::size_t>(axis)] = axes[i];
    return limit_by_mask(op.operand(0), inner, extents, wraps);
  }
  const auto limit = column_limit(op);
  if (!limit || limit->in_32_bits || limit->bound.axis >= 0) return false;
  const int axis = axes[static_cast<std::size_t>(limit->columns.axis)];
  if (axis < 0) return false;
  const auto of = [&](const passes::IndexTile& tile) {
    Value* offset = tile.offset ? scalar(tile.offset) : b_.getInt64(0);
    return b_.CreateAdd(offset, b_.getInt64(static_cast<std::uint64_t>(tile.start)));
  };
  Value *first = of(limit->columns), *whole = extents[static_cast<std::size_t>(axis)];
  Value* room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, of(limit->bound), first);
  if (limit->inclusive) room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, room, b_.getInt64(1));
  Value* too_large = b_.CreateICmpSGT(first, b_.CreateSub(b_.getInt64(INT64_MAX), whole));
  wraps = wraps ? b_.CreateOr(wraps, too_large) : too_large;
  extents[static_cast<std::size_t>(axis)] = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole, room);
  return true;
}

// The memory of a dot's operand. A load of a view is used in place, with the extents that lie inside the view
// and, if it is masked, before the end of a slice. Any other operand, and a tile that begins before its view,
// is copied to scratch first.
KernelEmitter::Matrix KernelEmitter::operand_matrix(const ir::Value* v) {
  // Look through transpositions of the load.
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < v->type.shape.size(); ++a)
    order.push_back(a);
  const ir::Value* source = v;
  while (source->def && source->def->is(Opcode::Permute) && !plan_.has_buffer(source)) {
    const auto& permutation = source->def->integers("order");
    for (std::size_t& a : order)
      a = static_cast<std::size_t>(permutation[a]);
    source = source->def->operand(0);
  }
  bool plain =
      source->def && source->def->is(Opcode::ViewLoad) && !plan_.has_buffer(source) && !source->def->other();
  Values extents;
  Value* copied = nullptr; // where the tile cannot be used in place
  if (plain) {
    std::vector<int> axes;
    for (std::int64_t extent : extents_of(source->type)) {
      axes.push_back(static_cast<int>(axes.size()));
      extents.push_back(b_.getInt64(static_cast<std::uint64_t>(extent)));
    }
    const ir::Value* mask = source->def->mask();
    plain = !mask || limit_by_mask(mask, axes, extents, copied);
  }
  if (!plain && source != v && loads_rows(source)) return transposed_matrix(materialize(source), order);
  if (!plain) return buffer_matrix(materialize(v));

  const ir::Op& load = *source->def;
  const auto& axes = load.integers("axes");
  Matrix m = view_matrix(load, order, extents);
  m.to_next = bytes_to_next_tile(load);

  // A tile that begins before its view lacks its first elements, which strides cannot express.
  auto offsets = load.view_offsets();
  for (std::int64_t axis : axes) {
    const ir::Value* offset = offsets[static_cast<std::size_t>(axis)];
    if (non_negative_.count(offset)) continue;
    Value* negative = b_.CreateICmpSLT(scalar(offset), b_.getInt64(0));
    copied = copied ? b_.CreateOr(copied, negative) : negative;
  }
  if (!copied) return m;
  Buffer copy = make_buffer(source->type);
  emit_if(b_, copied, [&] {
    Root root{Root::Kind::Fill, source};
    root.buffer = copy;
    emit_nest({root}, copy.extents);
  });
  m.pointer = b_.CreateSelect(copied, copy.pointer, m.pointer);
  if (m.to_next) m.to_next = b_.CreateSelect(copied, b_.getInt64(0), m.to_next);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto number = [&](const std::vector<std::int64_t>& numbers) {
      return b_.getInt64(static_cast<std::uint64_t>(numbers[order[i]]));
    };
    m.strides[i] = b_.CreateSelect(copied, number(copy.strides), m.strides[i]);
    m.valid[i] = b_.CreateSelect(copied, number(copy.extents), m.valid[i]);
  }
  return m;
}

// Joins a computed operand to the pending roots if it is computed from their results, element by element:
// attention's weights are rounded where they are computed. Returns the buffer that the pending nest fills.
std::optional<Buffer> KernelEmitter::join_pending(const ir::Value* operand) {
  if (pending_.empty() || !only_fill_and_reduce(pending_) || extents_of(operand->type) != pending_domain_)
    return std::nullopt;
  const bool computed = operand->def && ir::is_elementwise(operand->def->code) && !plan_.has_buffer(operand);
  Root root{Root::Kind::Fill, operand};
  if (!computed || !can_join(root)) return std::nullopt;
  root.buffer = make_buffer(operand->type);
  root.sole = users_[operand].size() == 1;
  add_root(root);
  return root.buffer;
}

void KernelEmitter::emit_dot(const ir::Op& op) {
  const ir::Value *a = op.operand(0), *b = op.operand(1);
  const auto joined_a = join_pending(a), joined_b = a == b ? joined_a : join_pending(b);
  flush();
  locate(op);
  DType accumulator_dtype = dot_accumulator(a->type.dtype, b->type.dtype);
  const ir::Value* result = op.result();
  bool converts = result->type.dtype != accumulator_dtype;

  // C is the buffer of the carried tile, the result's own buffer, or a wider temporary if the result's dtype
  // is narrower.
  const ir::Value* carried = dot_target_arg_.count(&op) ? dot_target_arg_.at(&op) : nullptr;
  bool in_place = carried && !converts;
  Buffer c = converts ? make_buffer(accumulator_dtype, false, extents_of(result->type))
                      : own_buffer(in_place ? carried : result);
  if (in_place) buffers_[result] = c;
  const ir::Value* initial = op.num_operands() == 3 ? op.operand(2) : nullptr;

  Matrix ma = joined_a ? buffer_matrix(*joined_a) : operand_matrix(a);
  Matrix mb = joined_b ? buffer_matrix(*joined_b) : operand_matrix(b);
  if (initial && !(in_place && initial == carried) && !converts) {
    Root root{Root::Kind::Fill, initial};
    root.buffer = c;
    emit_nest({root}, c.extents);
  }
  locate(op);
  Sums sums = sums_in(c, initial && !converts);
  keep_needed_rows(result, ma, sums);
  multiply(dot_shape(op), ma, mb, sums);
  if (converts) add_converted(op, c);
}

DotShape KernelEmitter::dot_shape(const ir::Op& dot) {
  auto a = extents_of(dot.operand(0)->type), b = extents_of(dot.operand(1)->type);
  return {.a = dot.operand(0)->type.dtype,
          .b = dot.operand(1)->type.dtype,
          .m = a[a.size() - 2],
          .n = b.back(),
          .k = a.back(),
          .fixed_order = dot.text("sum_order", "any") == "fixed"};
}

Values KernelEmitter::constants(const std::vector<std::int64_t>& numbers) {
  Values values;
  for (std::int64_t n : numbers)
    values.push_back(b_.getInt64(static_cast<std::uint64_t>(n)));
  return values;
}

KernelEmitter::Sums KernelEmitter::sums_in(const Buffer& buffer, bool accumulate) {
  return {buffer.pointer, buffer.dtype, strides_of(buffer), constants(buffer.extents), accumulate};
}

// Reduces a product, and A, to the rows that are needed.
void KernelEmitter::keep_needed_rows(const ir::Value* product, Matrix& a, Sums& sums) {
  const std::size_t rows = sums.extents.size() - 2;
  Value* needed = needed_extent(product, rows, sums.extents[rows]);
  if (needed == sums.extents[rows]) return;
  sums.extents[rows] = needed;
  a.valid[rows] = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a.valid[rows], needed);
}

void KernelEmitter::multiply(DotShape shape, const Matrix& ma, const Matrix& mb, const Sums& sums) {
  const std::size_t batch = ma.strides.size() - 2;
  auto smallest = [&](Value* x, Value* y) {
    return x == y ? x : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  Value *m = ma.valid[batch], *n = mb.valid[batch + 1], *k = smallest(ma.valid[batch + 1], mb.valid[batch]);
  if (!sums.accumulate) {
    Value* missing = b_.getFalse();
    for (std::size_t i = 0; i < batch; ++i)
      missing = b_.CreateOr(missing, b_.CreateICmpNE(smallest(ma.valid[i], mb.valid[i]), sums.extents[i]));
    zero_missing(m, n, missing, sums);
  }
  shape.a_strides = ma.known, shape.b_strides = mb.known, shape.rounds = sums.rounded;
  shape.prefetches_next_b = mb.to_next && shape.m <= tuning::skinny_rows;
  Buffer scratch = make_buffer(DType::U8, false, {dot_scratch_bytes(shape, dot_target_)});
  DotContext context{b_, shape, dot_target_};
  auto product = [&](Value* pa, Value* pb, Value* pc) {
    DotOperands operands;
    operands.a = {pa, ma.strides[batch], ma.strides[batch + 1]};
    operands.b = {pb, mb.strides[batch], mb.strides[batch + 1]};
    operands.c = pc;
    operands.c_row_stride = sums.strides[batch];
    operands.m = m, operands.n = n, operands.k = k;
    operands.accumulate = b_.getInt1(sums.accumulate);
    operands.scratch = scratch.pointer;
    operands.rounded = sums.rounded, operands.rounded_row_stride = sums.rounded_row_stride;
    operands.to_next_b = mb.to_next;
    emit_dot_accumulate(context, operands);
  };
  auto batches = [&](auto&& self, std::size_t i, Value* pa, Value* pb, Value* pc) -> void {
    if (i == batch) return product(pa, pb, pc);
    emit_loop(b_, b_.getInt64(0), smallest(ma.valid[i], mb.valid[i]), b_.getInt64(1), {},
              [&](Value* at, const Values&, llvm::Instruction*) -> Values {
                auto next = [&](Value* pointer, DType t, Value* stride) {
                  return b_.CreateGEP(memory_type(context_, t), pointer, b_.CreateMul(at, stride));
                };
                self(self, i + 1, next(pa, shape.a, ma.strides[i]), next(pb, shape.b, mb.strides[i]),
                     next(pc, sums.dtype, sums.strides[i]));
                return {};
              });
  };
  batches(batches, 0, ma.pointer, mb.pointer, sums.pointer);
}

// Zeroes the rows and columns of the result that lie outside the operands' views: those from m and n on, and
// everything if matrices of a batch are missing.
void KernelEmitter::zero_missing(Value* m, Value* n, Value* missing_batch, const Sums& sums) {
  const std::size_t batch = sums.extents.size() - 2;
  Value *rows = sums.extents[batch], *columns = sums.extents[batch + 1];
  Value *short_m = b_.CreateICmpSLT(m, rows), *short_n = b_.CreateICmpSLT(n, columns);
  Value* partial = b_.CreateOr(missing_batch, b_.CreateOr(short_m, short_n));
  if (auto* folded = llvm::dyn_cast<llvm::ConstantInt>(partial); folded && folded->isZero()) return;
  const auto size = static_cast<std::uint64_t>(size_of(sums.dtype));
  auto zero = [&](Value* row, Value* column, Value* elements) {
    Value* at = b_.CreateAdd(b_.CreateMul(row, sums.strides[batch]), column);
    b_.CreateMemSet(b_.CreateGEP(memory_type(context_, sums.dtype), sums.pointer, at), b_.getInt8(0),
                    b_.CreateMul(elements, b_.getInt64(size)), llvm::MaybeAlign(size));
  };
  auto zero_rows = [&](Value* begin, Value* end, Value* column) {
    emit_loop(b_, begin, end, b_.getInt64(1), {},
              [&](Value* row, const Values&, llvm::Instruction*) -> Values {
                zero(row, column, b_.CreateSub(columns, column));
                return {};
              });
  };
  Value* none = b_.getInt64(0);
  emit_if(b_, partial, [&] {
    if (batch) return zero(none, none, b_.CreateMul(sums.strides[0], sums.extents[0]));
    emit_if(b_, short_m, [&] { zero_rows(m, rows, none); });
    emit_if(b_, short_n, [&] { zero_rows(none, m, n); });
  });
}

// Computes result = cast(sums) + initial, element by element.
void KernelEmitter::add_converted(const ir::Op& op, const Buffer& sums) {
  const DType wide = sums.dtype, narrow = op.result()->type.dtype;
  const ir::Value* initial = op.num_operands() == 3 ? op.operand(2) : nullptr;
  Buffer& out = own_buffer(op.result());
  emit_each_element(sums.extents, [&](Nest& nest, const Indices& at) {
    Value* v = load_buffer(nest, sums, at);
    if (initial)
      v = b_.CreateFAdd(
          emit_cast(b_, numbers_, operand_element(nest, initial, at), initial->type.dtype, wide), v);
    store_buffer(nest, out, at, emit_cast(b_, numbers_, v, wide, narrow));
  });
}

} // namespace kiln::cpu
