// Emits the computation of tile elements that lie past the ends of all views.
//
// Tiles have such elements where they are far longer than a row, or have rows below a matrix.
//
// There a load gives its `other`, and a comparison of column indices with a bound fails, so that most tiles
// have one value along the whole part, such as exp(-inf - largest). It is computed once. It is then stored
// once per vector, or combined until combining it changes nothing more.
#include <kiln/jit/cpu/emit/vector_level.h>
#include <kiln/jit/cpu/tuning.h>

#include <kiln/jit/emit/combine.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

constexpr int deepest = 8; // depth up to which the operands of masks are analysed

bool runs_along_lanes(const Indices& at) {
  return std::any_of(at.begin(), at.end(), [](const Index& index) { return index.linear && index.direct; });
}

} // namespace

// Whether a mask is false in every lane that is past all views and bounds.
bool KernelEmitter::fails_out_of_bounds(const Nest& nest, const ir::Value* mask, const Indices& at,
                                        int depth) {
  if (!mask->def || !mask->type.is_tile() || plan_.has_buffer(mask) || depth > deepest) return false;
  const ir::Op& op = *mask->def;
  if (passes::maps_axes(op))
    return fails_out_of_bounds(nest, op.operand(0), operand_indices(op, at), depth + 1);
  if (op.is(Opcode::And))
    return fails_out_of_bounds(nest, op.operand(0), at, depth + 1) ||
           fails_out_of_bounds(nest, op.operand(1), at, depth + 1);
  return known_limit(nest, op, at).has_value();
}

// The value of an operation in every lane that is past all views and bounds, if it is known for that reason.
Value* KernelEmitter::value_out_of_bounds(Nest& nest, const ir::Op& op, const Indices& at) {
  if (!nest.out_of_bounds) return nullptr;
  const bool read = op.is(Opcode::ViewLoad) || op.is(Opcode::ViewGather) || op.is(Opcode::Load);
  if (!read) return fails_out_of_bounds(nest, op.result(), at) ? b_.getFalse() : nullptr;
  const bool ends_in_lanes = op.is(Opcode::ViewLoad) && runs_along_lanes(at);
  if (!ends_in_lanes && !(op.mask() && fails_out_of_bounds(nest, op.mask(), at))) return nullptr;
  if (op.other()) return operand_element(nest, op.other(), at);
  return llvm::Constant::getNullValue(compute_type(context_, op.result()->type.dtype));
}

// Whether tiles have one value in all lanes that are past all views and bounds.
class KernelEmitter::SameOutOfBounds {
public:
  SameOutOfBounds(KernelEmitter& emitter, const Nest& nest) : e_(emitter), nest_(nest) {}

  // `seen`: the fast part evaluates the value as well, so that the ends of its views are known.
  bool operator()(const ir::Value* v, const Indices& at, bool seen = true) {
    if (!v->type.is_tile() || std::all_of(at.begin(), at.end(), [](const Index& i) { return i.uniform(); }))
      return true;
    if (!v->def || (e_.plan_.has_buffer(v) && !nest_.being_filled.count(v))) return false;
    const auto [known, made] = known_.try_emplace({key_of(v, at, nest_.lanes), seen}, false);
    if (made) known->second = of_op(*v->def, at, seen);
    return known->second;
  }

private:
  bool of_op(const ir::Op& op, const Indices& at, bool seen) {
    if (passes::maps_axes(op)) return (*this)(op.operand(0), e_.operand_indices(op, at), seen);
    switch (op.code) {
    case Opcode::Splat: return true;
    case Opcode::ViewLoad:
      return seen && runs_along_lanes(at) && !nest_.transposed_loads.count(&op) && other(op, at);
    case Opcode::ViewGather:
    case Opcode::Load:
      return seen && op.mask() && e_.fails_out_of_bounds(nest_, op.mask(), at) && other(op, at);
    case Opcode::Select:
      if (seen && e_.fails_out_of_bounds(nest_, op.operand(0), at)) return (*this)(op.operand(2), at, false);
      break;
    default: break;
    }
    if (e_.fails_out_of_bounds(nest_, op.result(), at)) return seen;
    return ir::is_elementwise(op.code) &&
           std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const ir::Value* operand) { return (*this)(operand, at, seen); });
  }
  bool other(const ir::Op& load, const Indices& at) {
    return !load.other() || (*this)(load.other(), at, false);
  }

  KernelEmitter& e_;
  const Nest& nest_;
  std::map<std::pair<Nest::Key, bool>, bool> known_;
};

bool KernelEmitter::VectorLevel::all_same_out_of_bounds() const {
  Indices at = at_;
  at[axis_] = Index{b_.getInt64(0), true, nullptr, outer_ + 1};
  if (down_columns_)
    at[static_cast<std::size_t>(nest_.reduced_axis)] = Index{b_.getInt64(0), false, nullptr, outer_ + 2};
  SameOutOfBounds same(e_, nest_);
  return std::all_of(nest_.roots.begin(), nest_.roots.end(), [&](const Root& root) {
    if (root.kind == Root::Kind::Fill) // down columns, each row has its own value
      return !down_columns_ && !root.stored_from && same(root.value, at);
    if (root.kind == Root::Kind::Store) // stores no lane
      return root.op->mask() && e_.fails_out_of_bounds(nest_, root.op->mask(), at);
    return root.kind == Root::Kind::Reduce && simple_combine(*root.op) &&
           std::all_of(root.op->operands.begin(), root.op->operands.end(),
                       [&](const ir::Value* v) { return same(v, at); });
  });
}

// The index of the first vector that lies completely past all views and bounds.
Value* KernelEmitter::VectorLevel::out_of_bounds_begin(Value* fast_end) {
  const bool worth_it = nest_.lanes > 1 && extent_ >= tuning::min_out_of_bounds_vectors * nest_.lanes;
  if (!worth_it || extent_ % nest_.lanes != 0 || nest_.ends.empty() || nest_.bounds[axis_] ||
      !nest_.rows.empty() || nest_.flat || !all_same_out_of_bounds())
    return nullptr;
  Value* begin = fast_end;
  for (Value* end : nest_.ends)
    begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, end);
  begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, begin, constant(extent_));
  return b_.CreateAnd(b_.CreateAdd(begin, constant(nest_.lanes - 1)), constant(-nest_.lanes));
}

Accumulators KernelEmitter::VectorLevel::out_of_bounds_part(Value* begin, const Accumulators& so_far) {
  auto* out_of_bounds = llvm::BasicBlock::Create(e_.context_, "outside", e_.function_);
  auto* join = llvm::BasicBlock::Create(e_.context_, "join", e_.function_);
  Value* end = constant(extent_);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), out_of_bounds, join);
  b_.SetInsertPoint(out_of_bounds);
  nest_.guarded = nest_.out_of_bounds = true;
  nest_.tail = nullptr;
  nest_.loop_lanes = nest_.lanes;
  nest_.hoist_point = nullptr;
  nest_.memo.clear();
  at_[axis_] = Index{begin, true, nullptr, outer_ + 1};
  Values after;
  if (down_columns_)
    repeated_columns(begin, end);
  else
    after = flatten(repeated(begin, end, so_far));
  nest_.out_of_bounds = false;
  nest_.memo.clear();
  llvm::BasicBlock* last = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  const Values given = flatten(so_far);
  for (std::size_t i = 0; i < after.size(); ++i) {
    llvm::PHINode* either = b_.CreatePHI(after[i]->getType(), 2);
    either->addIncoming(given[i], before);
    either->addIncoming(after[i], last);
    after[i] = either;
  }
  return unflatten(after, so_far);
}

// Stores the one value of every fill, and combines the one value of every reduction until that changes
// nothing more. That is soon the case where zeros are added, or where the maximum of equal values is
// computed.
Accumulators KernelEmitter::VectorLevel::repeated(Value* begin, Value* end, const Accumulators& so_far) {
  std::vector<std::pair<const Root*, Value*>> fills;
  for (const Root& root : nest_.roots)
    if (root.kind == Root::Kind::Fill) fills.emplace_back(&root, e_.operand_element(nest_, root.value, at_));
  auto combined = [&](Accumulators running) {
    each_reduction([&](const Root& root, std::size_t r) { e_.accumulate(nest_, root, at_, running[r]); });
    return running;
  };
  Accumulators total = so_far;
  if (!so_far.empty()) {
    const Accumulators once = combined(so_far), twice = combined(once);
    Value* rest = b_.CreateSelect(unchanged(once, twice), end, b_.CreateAdd(begin, constant(nest_.lanes)));
    Loop loop = emit_loop(b_, rest, end, constant(nest_.lanes), flatten(once),
                          [&](Value*, const Values& carried, llvm::Instruction*) -> Values {
                            return flatten(combined(unflatten(carried, once)));
                          });
    total = unflatten(loop.results, once);
  }
  for (const auto& [root, value] : fills)
    emit_loop(b_, begin, fill_end(*root, end), constant(nest_.lanes), {},
              [&, root = root, value = value](Value* j, const Values&, llvm::Instruction*) -> Values {
                at_[axis_].base = j;
                e_.store_buffer(nest_, root->buffer, at_, value);
                return {};
              });
  return total;
}

// Where a fill may end: nothing after this nest reads its elements beyond the views to which they are stored.
Value* KernelEmitter::VectorLevel::fill_end(const Root& root, Value* end) {
  std::set<const ir::Value*> seen;
  Value* room = root.own ? e_.room_after(nest_, root.value, seen) : nullptr;
  return room ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room, end) : end;
}

// How many elements of `v` along the vector axis are stored by the stores that alone need them, once the
// roots of this nest are complete. Null if all elements may be needed.
Value* KernelEmitter::room_after(const Nest& nest, const ir::Value* v, std::set<const ir::Value*>& seen) {
  Value* most = b_.getInt64(0);
  const auto users = users_.find(v);
  if (!seen.insert(v).second || users == users_.end()) return most;
  for (const ir::Op* user : users->second) {
    const bool here = std::any_of(nest.roots.begin(), nest.roots.end(), [&](const Root& root) {
      return root.kind == Root::Kind::Reduce && root.op == user;
    });
    if (here) continue;
    Value* room = nullptr;
    if (user->is(Opcode::ViewStore) && user->stored_value() == v) {
      const auto axis =
          static_cast<std::size_t>(user->integers("axes")[static_cast<std::size_t>(nest.vector_axis)]);
      if (Value* offset = place_of_program(user->view_offsets()[axis]))
        room = b_.CreateSub(facts(user->operand(0)).extents[axis], offset);
    } else if (ir::is_elementwise(user->code) && user->result()->type.is_tile()) {
      room = room_after(nest, user->result(), seen);
    }
    if (!room) return nullptr;
    most = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, room);
  }
  return most;
}

void KernelEmitter::VectorLevel::repeated_columns(Value* begin, Value* end) {
  const Accumulators columns = reduced_columns(1)[0].running;
  emit_loop(b_, begin, end, constant(nest_.lanes), {},
            [&](Value* j, const Values&, llvm::Instruction*) -> Values {
              at_[axis_].base = j;
              finish(columns);
              return {};
            });
}

// i1: two lists of vectors have the same bits.
Value* KernelEmitter::VectorLevel::unchanged(const Accumulators& before, const Accumulators& after) {
  const Values x = flatten(before), y = flatten(after);
  Value* same = b_.getTrue();
  for (std::size_t i = 0; i < x.size(); ++i) {
    llvm::Type* bits = same_lanes(b_.getIntNTy(x[i]->getType()->getScalarSizeInBits()), x[i]);
    Value* equal = b_.CreateICmpEQ(b_.CreateBitCast(x[i], bits), b_.CreateBitCast(y[i], bits));
    same = b_.CreateAnd(same, b_.CreateAndReduce(equal));
  }
  return same;
}

} // namespace kiln::cpu
