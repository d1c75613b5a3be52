// Emits scans (inclusive prefixes) as steps of loop nests.
//
// A scan shares its nest with what computes its operands and uses its results, such as the store of a
// cumulative sum.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/combine.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// Whether the evaluation of `v` may read lanes that are far apart in memory. Such operands are computed by a
// nest of their own, which transposes their loads (transposed_loads.cpp).
bool may_read_transposed(const Plan& plan, const ir::Value* v, std::set<const ir::Value*>& seen) {
  if (!v->def || !v->type.is_tile() || plan.has_buffer(v) || !seen.insert(v).second) return false;
  const ir::Op& op = *v->def;
  if (op.is(Opcode::Permute)) return true;
  if (op.is(Opcode::ViewLoad)) {
    const ir::Type& view = op.operand(0)->type;
    const auto& axes = op.integers("axes");
    if (view.view_rank > 1 &&
        (view.layout == LayoutClass::Any || axes.empty() || axes.back() != view.view_rank - 1))
      return true;
  }
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](const ir::Value* operand) { return may_read_transposed(plan, operand, seen); });
}

// Computes the prefix of each lane by doubling: combines the second half of each 2, 4, 8... lanes with the
// last lane of the first half (Sklansky, "Conditional-sum addition logic", 1960). The first shuffles stay
// within 128 bits.
template <class Combine>
Values prefixes(IRBuilder& b, Values v, int lanes, bool reversed, Combine&& combine) {
  for (int half = 1; half < lanes; half *= 2) {
    llvm::SmallVector<int, 64> before;
    std::vector<llvm::Constant*> second;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool in_second = ((lane & half) != 0) != reversed;
      const int last = (lane & -(2 * half)) + (reversed ? half : half - 1);
      before.push_back(in_second ? last : lane);
      second.push_back(b.getInt1(in_second));
    }
    Values shifted;
    for (Value* x : v)
      shifted.push_back(b.CreateShuffleVector(x, before));
    const Values combined = combine(shifted, v);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = b.CreateSelect(llvm::ConstantVector::get(second), combined[i], v[i]);
  }
  return v;
}

} // namespace

void KernelEmitter::emit_scan(const ir::Op& op) {
  Root root{Root::Kind::Scan, nullptr, &op};
  for (const ir::Value* v : op.operands) {
    std::set<const ir::Value*> seen;
    if (root.copies.count(v) || !may_read_transposed(plan_, v, seen)) continue;
    flush();
    root.copies.emplace(v, materialize(v));
  }
  add_root(std::move(root));
}

// Advances a scan by one vector: computes its prefixes, which the roots that follow use as elements of the
// results. Along the lanes, the carried value is combined with the last lane of each vector, so that the
// chain of dependences has one operation per vector.
void KernelEmitter::advance_scan(Nest& nest, const Root& root, const Indices& at, Accumulator& running) {
  const ir::Op& op = *root.op;
  const int lanes = nest.lanes;
  const bool along = nest.reduced_axis < 0, wide = keeps_wide(op);
  Values own;
  for (const ir::Value* v : op.operands) {
    const auto copy = root.copies.find(v);
    Value* element =
        copy != root.copies.end() ? load_buffer(nest, copy->second, at) : operand_element(nest, v, at);
    own.push_back(widen(b_, element, lanes));
  }
  locate(op);
  auto combine = [&](Values left, const Values& right) {
    left.insert(left.end(), right.begin(), right.end());
    left = evaluate_combine(*op.region(), left, wide);
    for (Value*& v : left)
      v = widen(b_, v, lanes);
    return left;
  };
  auto after_running = [&](const Values& elements) {
    if (running.values.empty()) return elements;
    Values next = combine(running.values, elements);
    for (std::size_t i = 0; running.has && i < next.size(); ++i)
      next[i] = b_.CreateSelect(running.has, next[i], elements[i]);
    return next;
  };
  if (along) own = prefixes(b_, own, lanes, nest.reversed, combine);
  const Values results = after_running(own);
  if (along && lanes > 1) {
    const llvm::SmallVector<int, 64> last(static_cast<std::size_t>(lanes), nest.reversed ? 0 : lanes - 1);
    for (Value*& v : own)
      v = b_.CreateShuffleVector(v, last);
    running.values = after_running(own);
  } else {
    running.values = results;
  }
  if (running.has) running.has = llvm::Constant::getAllOnesValue(running.has->getType());
  for (int i = 0; i < op.num_results(); ++i) {
    const ir::Value* result = op.result(i);
    Value* v = results[static_cast<std::size_t>(i)];
    if (wide) v = round_to(b_, numbers_, v, result->type.dtype);
    nest.memo[key_of(result, at, lanes)] = v;
    if (std::find(root.kept.begin(), root.kept.end(), result) != root.kept.end())
      store_buffer(nest, own_buffer(result), at, v);
  }
}

} // namespace kiln::cpu
