// fuse-dot: turns `acc + dot(a, b)` into `dot(a, b, acc)`, so that a code generator can accumulate in place.
//
//  1. The operands and the result of the addition have one type, and one operand is a dot of that type
//     without an accumulator.
//  2. The dot is in the same region as the addition, and has no other use.
//  3. If both operands are such dots, the second one is fused.
// A dot may add its accumulator in any order (dsl/SEMANTICS.md), so that this keeps the meaning.
#include <kiln/jit/passes/passes.h>

#include <algorithm>

namespace kiln::passes {

using namespace ir;

namespace {

void fuse_region(Region& region, const std::unordered_map<const Value*, int>& uses) {
  for (std::size_t i = 0; i < region.ops.size(); ++i) {
    Op& sum = *region.ops[i];
    for (const auto& inner : sum.regions)
      fuse_region(*inner, uses);
    if (!sum.is(Opcode::Add)) continue;
    auto fusible = [&](const Value* v) {
      return v->def && v->def->is(Opcode::Dot) && v->def->num_operands() == 2 && uses.at(v) == 1 &&
             v->type == sum.result()->type &&
             std::any_of(region.ops.begin(), region.ops.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const auto& op) { return op.get() == v->def; });
    };
    int which = fusible(sum.operand(1)) ? 1 : fusible(sum.operand(0)) ? 0 : -1;
    if (which < 0) continue;
    const Op* dot = sum.operand(which)->def;
    // The addition becomes the dot in place, so that its result stays; the old dot is removed.
    sum.code = Opcode::Dot;
    sum.loc = dot->loc;
    sum.operands = {dot->operand(0), dot->operand(1), sum.operand(1 - which)};
    for (const auto& [name, value] : dot->attributes())
      sum.set(name, value);
    std::erase_if(region.ops, [&](const auto& op) { return op.get() == dot; });
    --i;
  }
}

} // namespace

void fuse_dot(Kernel& kernel, const PassOptions&) { fuse_region(kernel.body, count_uses(kernel.body)); }

} // namespace kiln::passes
