// Matrix products: operands read in place where they are plain loads from views, else from scratch.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// The memory behind a dot's operand. A plain load of a view is used in place, with the extents that lie
// inside the view; anything else, and offsets before the view's start, is put into scratch first.
KernelEmitter::Matrix KernelEmitter::operand_matrix(const ir::Value* v) {
  // Look through transpositions of a load.
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
  auto in_buffer = [&](const Buffer& buffer) {
    Matrix m;
    m.pointer = buffer.pointer;
    for (std::size_t a = 0; a < buffer.extents.size(); ++a) {
      m.strides.push_back(b_.getInt64(static_cast<std::uint64_t>(buffer.strides[a])));
      m.valid.push_back(b_.getInt64(static_cast<std::uint64_t>(buffer.extents[a])));
    }
    if (buffer.strides.back() == 1) m.known = DotStrides::UnitInner;
    return m;
  };
  bool plain = source->def && source->def->is(Opcode::ViewLoad) && !plan_.has_buffer(source) &&
               !source->def->mask() && !source->def->other();
  if (!plain) return in_buffer(materialize(v));

  const ir::Op& load = *source->def;
  ViewFacts& view = facts(load.operand(0));
  int last = load.operand(0)->type.view_rank - 1;
  bool unit = load.operand(0)->type.layout != LayoutClass::Any;
  const auto& axes = load.integers("axes");
  auto offsets = load.view_offsets();
  auto extents = extents_of(source->type);
  Matrix m;
  Value* start = b_.getInt64(0);
  Value* before = b_.getFalse();
  Value* dropped_outside = b_.getFalse();
  for (std::size_t a = 0; a < offsets.size(); ++a) {
    Value* offset = scalar(offsets[a]);
    Value* stride = unit && static_cast<int>(a) == last ? b_.getInt64(1) : view.strides[a];
    start = b_.CreateAdd(start, b_.CreateMul(offset, stride));
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) == axes.end())
      dropped_outside = b_.CreateOr(dropped_outside, b_.CreateICmpUGE(offset, view.extents[a]));
    else
      before = b_.CreateOr(before, b_.CreateICmpSLT(offset, b_.getInt64(0)));
  }
  m.pointer = b_.CreateGEP(memory_type(context_, v->type.dtype), view.data, start);
  std::vector<Value*> strides, valid;
  for (std::size_t t = 0; t < axes.size(); ++t) {
    auto axis = static_cast<std::size_t>(axes[t]);
    strides.push_back(unit && axes[t] == last ? b_.getInt64(1) : view.strides[axis]);
    Value* room = b_.CreateSub(view.extents[axis], scalar(offsets[axis]));
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room,
                                    b_.getInt64(static_cast<std::uint64_t>(extents[t])));
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, room, b_.getInt64(0));
    valid.push_back(b_.CreateSelect(dropped_outside, b_.getInt64(0), room));
  }
  for (std::size_t a : order)
    m.strides.push_back(strides[a]), m.valid.push_back(valid[a]);
  if (unit && axes.back() == last && order.back() == axes.size() - 1) m.known = DotStrides::UnitInner;
  if (unit && axes.back() == last && order.size() >= 2 && order[order.size() - 2] == axes.size() - 1)
    m.known = DotStrides::UnitOuter;

  // A tile that begins before the view has its first elements outside, which strides cannot express.
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(before); constant && constant->isZero()) return m;
  Buffer copy = make_buffer(source->type);
  emit_if(b_, before, [&] {
    Root root{Root::Kind::Fill, source};
    root.buffer = copy;
    emit_nest({root}, copy.extents);
  });
  m.pointer = b_.CreateSelect(before, copy.pointer, m.pointer);
  for (std::size_t i = 0; i < order.size(); ++i) {
    m.strides[i] = b_.CreateSelect(before, b_.getInt64(static_cast<std::uint64_t>(copy.strides[order[i]])),
                                   m.strides[i]);
    m.valid[i] =
        b_.CreateSelect(before, b_.getInt64(static_cast<std::uint64_t>(extents[order[i]])), m.valid[i]);
  }
  return m;
}

void KernelEmitter::emit_dot(const ir::Op& op) {
  flush();
  locate(op);
  const ir::Value *a = op.operand(0), *bv = op.operand(1);
  auto a_extents = extents_of(a->type), b_extents = extents_of(bv->type);
  std::size_t rank = a_extents.size(), batch = rank - 2;
  DType accumulator_dtype = dot_accumulator(a->type.dtype, bv->type.dtype);
  const ir::Value* result = op.result();
  bool converts = result->type.dtype != accumulator_dtype;

  // Where C lives: the carried tile, the result's own buffer, or a wider temporary if the result's dtype is
  // narrower.
  const ir::Value* carried = dot_target_arg_.count(&op) ? dot_target_arg_.at(&op) : nullptr;
  bool in_place = carried && !converts;
  Buffer c = converts ? make_buffer(accumulator_dtype, false, extents_of(result->type))
                      : own_buffer(in_place ? carried : result);
  if (in_place) buffers_[result] = c;
  const ir::Value* initial = op.num_operands() == 3 ? op.operand(2) : nullptr;

  Matrix ma = operand_matrix(a), mb = operand_matrix(bv);
  if (initial && !(in_place && initial == carried) && !converts) {
    Root root{Root::Kind::Fill, initial};
    root.buffer = c;
    emit_nest({root}, c.extents);
  }
  locate(op);
  bool accumulate = initial && !converts;
  auto smallest = [&](Value* x, Value* y) {
    return x == y ? x : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  Value *m = ma.valid[batch], *n = mb.valid[batch + 1], *k = smallest(ma.valid[batch + 1], mb.valid[batch]);
  std::int64_t full_m = a_extents[batch], full_n = b_extents[batch + 1];
  if (!accumulate) {
    // Rows and columns that lie outside the operands' views are zero.
    Value* partial = b_.CreateOr(b_.CreateICmpNE(m, b_.getInt64(static_cast<std::uint64_t>(full_m))),
                                 b_.CreateICmpNE(n, b_.getInt64(static_cast<std::uint64_t>(full_n))));
    for (std::size_t i = 0; i < batch; ++i)
      partial = b_.CreateOr(partial, b_.CreateICmpNE(smallest(ma.valid[i], mb.valid[i]),
                                                     b_.getInt64(static_cast<std::uint64_t>(a_extents[i]))));
    std::int64_t elements = c.strides.empty() ? 1 : c.strides[0] * c.extents[0];
    auto* folded = llvm::dyn_cast<llvm::ConstantInt>(partial);
    if (!folded || !folded->isZero())
      emit_if(b_, partial, [&] {
        b_.CreateMemSet(c.pointer, b_.getInt8(0),
                        static_cast<std::uint64_t>(elements * size_of(accumulator_dtype)),
                        llvm::MaybeAlign(64));
      });
  }
  DotShape shape{.a = a->type.dtype,
                 .b = bv->type.dtype,
                 .m = full_m,
                 .n = full_n,
                 .k = a_extents[batch + 1],
                 .a_strides = ma.known,
                 .b_strides = mb.known};
  Buffer scratch = make_buffer(DType::U8, false, {dot_scratch_bytes(shape, dot_target_)});
  DotContext context{b_, shape, dot_target_};
  auto product = [&](Value* pa, Value* pb, Value* pc) {
    DotOperands operands;
    operands.a = {pa, ma.strides[batch], ma.strides[batch + 1]};
    operands.b = {pb, mb.strides[batch], mb.strides[batch + 1]};
    operands.c = pc;
    operands.c_row_stride = b_.getInt64(static_cast<std::uint64_t>(c.strides[batch]));
    operands.m = m, operands.n = n, operands.k = k;
    operands.accumulate = b_.getInt1(accumulate);
    operands.scratch = scratch.pointer;
    emit_dot_accumulate(context, operands);
  };
  auto batches = [&](auto&& self, std::size_t i, Value* pa, Value* pb, Value* pc) -> void {
    if (i == batch) return product(pa, pb, pc);
    emit_loop(b_, b_.getInt64(0), smallest(ma.valid[i], mb.valid[i]), b_.getInt64(1), {},
              [&](Value* at, const Values&, llvm::Instruction*) -> Values {
                self(self, i + 1,
                     b_.CreateGEP(memory_type(context_, a->type.dtype), pa, b_.CreateMul(at, ma.strides[i])),
                     b_.CreateGEP(memory_type(context_, bv->type.dtype), pb, b_.CreateMul(at, mb.strides[i])),
                     b_.CreateGEP(memory_type(context_, accumulator_dtype), pc,
                                  b_.CreateMul(at, b_.getInt64(static_cast<std::uint64_t>(c.strides[i])))));
                return {};
              });
  };
  batches(batches, 0, ma.pointer, mb.pointer, c.pointer);
  if (converts) add_converted(op, c);
}

// result = cast(sums) + initial, element by element.
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
