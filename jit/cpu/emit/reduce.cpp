// Emits reductions: initial values, the combination of vectors, and the last steps across lanes.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/combine.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

Accumulators KernelEmitter::initial_accumulators(Nest& nest) {
  Accumulators result;
  for (const Root& root : nest.roots) {
    if (!root.carries_values()) continue;
    Accumulator a;
    auto simple = simple_combine(*root.op);
    for (const ir::Value* v : root.op->operands) {
      DType t = v->type.dtype;
      Value* start =
          simple ? identity(context_, *simple, t) : llvm::Constant::getNullValue(compute_type(context_, t));
      a.values.push_back(widen(b_, start, nest.lanes));
    }
    if (!simple) a.has = llvm::Constant::getNullValue(lanes_type(b_.getInt1Ty(), nest.lanes));
    result.push_back(a);
  }
  return result;
}

// Combines `running` with one more vector of elements. Lanes outside the domain keep their values.
void KernelEmitter::accumulate(Nest& nest, const Root& root, const Indices& at, Accumulator& running) {
  Values elements;
  for (const ir::Value* v : root.op->operands)
    elements.push_back(widen(b_, operand_element(nest, v, at), nest.lanes));
  locate(*root.op);
  if (running.values.empty()) return (void)(running.values = elements);
  auto simple = simple_combine(*root.op);
  DType t = root.op->operand(0)->type.dtype;
  if (simple) {
    Value* x = elements[0];
    if (nest.tail && nest.reduced_axis < 0)
      x = b_.CreateSelect(nest.tail, x, widen(b_, identity(context_, *simple, t), nest.lanes));
    Value*& acc = running.values[0];
    acc = evaluate_combine(*root.op->region(), {acc, x}, keeps_wide(*root.op))[0];
    return;
  }
  Values arguments = running.values;
  arguments.insert(arguments.end(), elements.begin(), elements.end());
  Values combined = evaluate_combine(*root.op->region(), arguments, false);
  for (Value*& v : combined)
    v = widen(b_, v, nest.lanes);
  if (!running.has) return (void)(running.values = combined);
  Value* valid = nest.tail && nest.reduced_axis < 0 ? nest.tail
                                                    : llvm::Constant::getAllOnesValue(running.has->getType());
  for (std::size_t i = 0; i < combined.size(); ++i) {
    Value* next = b_.CreateSelect(running.has, combined[i], elements[i]);
    running.values[i] = b_.CreateSelect(valid, next, running.values[i]);
  }
  running.has = b_.CreateOr(running.has, valid);
}

Accumulator KernelEmitter::merge(Nest&, const Root& root, const Accumulator& a, const Accumulator& b) {
  Accumulator result;
  Values arguments = a.values;
  arguments.insert(arguments.end(), b.values.begin(), b.values.end());
  Values combined = evaluate_combine(*root.op->region(), arguments, keeps_wide(*root.op));
  if (!a.has) {
    result.values = combined;
    return result;
  }
  Value* both = b_.CreateAnd(a.has, b.has);
  for (std::size_t i = 0; i < combined.size(); ++i)
    result.values.push_back(
        b_.CreateSelect(both, combined[i], b_.CreateSelect(a.has, a.values[i], b.values[i])));
  result.has = b_.CreateOr(a.has, b.has);
  return result;
}

// Combines the lower half of each vector with its upper half.
Accumulator KernelEmitter::fold_half(Nest& nest, const Root& root, const Accumulator& running) {
  const int lanes = lanes_of(running.values[0]);
  llvm::SmallVector<int, 32> low, high;
  for (int i = 0; i < lanes / 2; ++i)
    low.push_back(i), high.push_back(i + lanes / 2);
  auto half = [&](Value* v, const llvm::SmallVector<int, 32>& which) -> Value* {
    return lanes == 2 ? b_.CreateExtractElement(v, static_cast<std::uint64_t>(which[0]))
                      : b_.CreateShuffleVector(v, which);
  };
  Accumulator a, b;
  for (Value* v : running.values)
    a.values.push_back(half(v, low)), b.values.push_back(half(v, high));
  if (running.has) a.has = half(running.has, low), b.has = half(running.has, high);
  return merge(nest, root, a, b);
}

// Whether a vector is folded without shortening it. The maximum and minimum of floats are one instruction for
// a whole AVX-512 register and three for a part of one.
bool KernelEmitter::folds_whole_registers(const Value* values, const ir::Op& op) const {
  const auto simple = simple_combine(op);
  const DType t = op.operand(0)->type.dtype;
  if ((simple != Opcode::Min && simple != Opcode::Max) || !is_float(t) || !numbers_.math.avx512) return false;
  return lanes_of(values) == (t == DType::F64 ? 8 : 16);
}

// Folds the lanes if the vector axis was reduced, rounds narrow sums, and stores the result.
void KernelEmitter::finish_reduction(Nest& nest, const Root& root, Accumulator running, const Indices& at) {
  const ir::Op& op = *root.op;
  int lanes = nest.lanes;
  if (nest.reduced_axis < 0 && folds_whole_registers(running.values[0], op)) {
    for (; lanes > 1; lanes /= 2) {
      llvm::SmallVector<int, 32> high(static_cast<std::size_t>(nest.lanes), llvm::PoisonMaskElem);
      for (int i = 0; i < lanes / 2; ++i)
        high[static_cast<std::size_t>(i)] = i + lanes / 2;
      Accumulator upper;
      upper.values.push_back(b_.CreateShuffleVector(running.values[0], high));
      running = merge(nest, root, running, upper);
    }
    running.values[0] = b_.CreateExtractElement(running.values[0], std::uint64_t{0});
  } else if (nest.reduced_axis < 0) {
    for (; lanes > 1; lanes /= 2)
      running = fold_half(nest, root, running);
  }
  for (int i = 0; i < op.num_results(); ++i) {
    const ir::Value* result = op.result(i);
    Value* v = running.values[static_cast<std::size_t>(i)];
    if (keeps_wide(op)) v = round_to(b_, numbers_, v, result->type.dtype);
    if (result->type.is_scalar()) {
      scalars_[result] = v;
      continue;
    }
    Indices where = at;
    where.erase(where.begin() + op.integer("axis"));
    store_buffer(nest, own_buffer(result), where, v);
  }
}

} // namespace kiln::cpu
