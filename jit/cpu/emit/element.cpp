// Evaluates lazy tiles: one element, or one vector of lanes, at given indices.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/combine.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

Nest::Key key_of(const ir::Value* v, const Indices& at, int lanes) {
  static const char linear = 0; // its address represents "plus the lane number"
  Nest::Key key{v, 0, {}};
  for (const Index& index : at) {
    key.at.push_back(index.base);
    key.at.push_back(index.linear ? static_cast<const void*>(&linear) : index.lanes);
    if (!index.uniform()) key.lanes = lanes;
  }
  return key;
}

int depth_of(const Indices& at) {
  int depth = 0;
  for (const Index& index : at)
    depth = std::max(depth, index.depth);
  return depth;
}

namespace {

bool all_uniform(const Indices& at) {
  return std::all_of(at.begin(), at.end(), [](const Index& index) { return index.uniform(); });
}

} // namespace

Value* KernelEmitter::element(Nest& nest, const ir::Value* v, const Indices& at) {
  if (!v->type.is_tile()) return scalar(v);
  Nest::Key key = key_of(v, at, nest.lanes);
  // A value that does not vary with the innermost loop is computed before it, guarded, since that place
  // always executes.
  if (nest.hoist_point && all_uniform(at) && depth_of(at) < nest.hoist_depth) {
    if (auto known = nest.hoisted.find(key); known != nest.hoisted.end()) return known->second;
    return nest.hoisted[key] = element_before(nest, nest.hoist_point, v, at);
  }
  if (auto known = nest.memo.find(key); known != nest.memo.end()) return known->second;
  const bool lazy = !plan_.has_buffer(v) || nest.being_filled.count(v);
  Value* result = lazy ? evaluate(nest, *v->def, at) : load_buffer(nest, own_buffer(v), at);
  return nest.memo[key] = result;
}

// Computes a value that is the same in all lanes at an earlier place that always executes.
Value* KernelEmitter::element_before(Nest& nest, llvm::Instruction* place, const ir::Value* v,
                                     const Indices& at) {
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(place);
  bool guarded = std::exchange(nest.guarded, true);
  Value* tail = std::exchange(nest.tail, nullptr);
  llvm::Instruction* hoist_point = std::exchange(nest.hoist_point, nullptr);
  auto memo = std::exchange(nest.memo, {});
  Value* result = element(nest, v, at);
  nest.memo = std::move(memo);
  nest.guarded = guarded;
  nest.tail = tail;
  nest.hoist_point = hoist_point;
  return result;
}

Value* KernelEmitter::index_value(const Index& index, int lanes) {
  if (index.linear) return b_.CreateAdd(widen(b_, index.base, lanes), lane_numbers(b_, lanes));
  if (index.lanes) return b_.CreateAdd(widen(b_, index.base, lanes), index.lanes);
  return index.base;
}

// The indices of an element of a broadcast or permuted tile in the operand.
Indices KernelEmitter::operand_indices(const ir::Op& op, const Indices& at) {
  return passes::indices_in_operand(op, at, Index{b_.getInt64(0)});
}

Value* KernelEmitter::evaluate(Nest& nest, const ir::Op& op, const Indices& at) {
  locate(op);
  if (Value* v = value_out_of_bounds(nest, op, at)) return v;
  switch (op.code) {
  case Opcode::Splat: return scalar(op.operand(0));
  case Opcode::Arange: {
    Value* n =
        b_.CreateAdd(index_value(at[0], nest.lanes),
                     llvm::ConstantInt::get(same_lanes(b_.getInt64Ty(), index_value(at[0], nest.lanes)),
                                            static_cast<std::uint64_t>(op.integer("start"))));
    return b_.CreateIntCast(n, same_lanes(compute_type(context_, op.result()->type.dtype), n), true);
  }
  case Opcode::Broadcast:
  case Opcode::ExpandDims:
  case Opcode::Squeeze:
  case Opcode::Permute: return element(nest, op.operand(0), operand_indices(op, at));
  case Opcode::Extract: {
    Indices inner = at;
    inner.insert(inner.begin() + op.integer("axis"),
                 Index{b_.getInt64(static_cast<std::uint64_t>(op.integer("index")))});
    return element(nest, op.operand(0), inner);
  }
  case Opcode::Reshape: return reshaped(nest, op, at);
  case Opcode::Gather: return gathered(nest, op, at);
  case Opcode::Select: {
    Value* condition = element(nest, op.operand(0), at);
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition))
      return element(nest, op.operand(known->isOne() ? 1 : 2), at);
    break;
  }
  case Opcode::ViewLoad: {
    if (Value* v = transposed_load(nest, op, at)) return v;
    Access access = view_access(nest, op, at);
    prefetch(nest, op, access, at);
    return load_access(nest, access, op.result()->type.dtype, op.other(), at);
  }
  case Opcode::ViewGather:
    return load_access(nest, gather_access(nest, op, at), op.result()->type.dtype, op.other(), at);
  case Opcode::Load:
    return load_access(nest, pointer_access(nest, op, at), op.result()->type.dtype, op.other(), at);
  case Opcode::ViewPtrs: return view_access(nest, op, at, /*address_only=*/true).address;
  case Opcode::ViewMask: {
    Value* mask = view_access(nest, op, at).mask;
    return mask ? mask : b_.getTrue();
  }
  case Opcode::Lt:
  case Opcode::Le:
  case Opcode::Gt:
  case Opcode::Ge:
    if (holds_in_fast_part(nest, op, at)) return b_.getTrue();
    break;
  default: break;
  }
  internal_check(ir::is_elementwise(op.code),
                 [&] { return "the CPU cannot evaluate " + std::string(name(op.code)) + " lazily"; });
  Values operands;
  int lanes = 1;
  for (const ir::Value* v : op.operands) {
    operands.push_back(element(nest, v, v->type.is_scalar() ? Indices{} : at));
    lanes = std::max(lanes, lanes_of(operands.back()));
  }
  for (Value*& v : operands)
    v = widen(b_, v, lanes);
  locate(op);
  NumberOptions numbers = numbers_;
  numbers.convert.flushes_bf16 = op.is(Opcode::Cast) && is_only_multiplied_as_bf16(op.result());
  return elementwise(op, numbers, operands);
}

// Whether the only readers are dots whose instructions treat denormals as zero. Then f32 denormals may become
// zero as well.
bool KernelEmitter::is_only_multiplied_as_bf16(const ir::Value* v) const {
  auto users = users_.find(v);
  if (v->type.dtype != DType::BF16 || !dot_target_.bf16_dot || users == users_.end()) return false;
  return std::all_of(users->second.begin(), users->second.end(), [&](const ir::Op* user) {
    if (user->is(Opcode::Permute)) return is_only_multiplied_as_bf16(user->result());
    return user->is(Opcode::Dot) && user->operand(0)->type.dtype == DType::BF16 &&
           user->operand(1)->type.dtype == DType::BF16 && (user->num_operands() < 3 || user->operand(2) != v);
  });
}

Values KernelEmitter::evaluate_combine(const ir::Region& region, const Values& arguments, bool keep_wide) {
  return emit_combine(b_, numbers_, region, arguments, keep_wide,
                      [&](const ir::Value* v) { return scalar(v); });
}

} // namespace kiln::cpu
