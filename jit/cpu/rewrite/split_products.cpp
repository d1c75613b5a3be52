// cpu-split-products: gives each product in a loop over K a loop of its own.
//
//   for k: s += dot(a[m, k], b[k, n]); g += dot(a[m, k], c[k, n]); r += sum(a[m, k])
//
// becomes one loop for s, one for g and one for r. The first two are then product loops
// (facts/product_loop.h), which gains far more than reading `a` once: the routine that multiplies packs `a`
// anyway.
//
// The kernel is bound. A carried value leaves its loop if
//  1. the loop has no side effects, and carries other values too;
//  2. the value is a sum of products: the body uses it only as the accumulator of one dot, and yields the
//     result of that dot, which has no other use;
//  3. both operands of the dot are plain loads, possibly permuted: without a mask or `other`, at offsets that
//     depend on no carried value.
// Each value that leaves gets a copy of the loop; dce then removes what a copy does not need.
#include <kiln/jit/cpu/rewrite/passes.h>

#include <kiln/jit/cpu/facts/scope.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

namespace {

bool is_carried(const Value* v, const Region& body) {
  return !v->def && v->region == &body && v->index > 0; // the first argument is the loop's index
}

// Whether a load's offset depends on a value that the loop carries.
bool depends_on_carried(const Value* v, const Region& body, const Scope& inside) {
  if (is_carried(v, body)) return true;
  return inside.has(v) && v->def &&
         (!v->def->regions.empty() ||
          std::any_of(v->def->operands.begin(), v->def->operands.end(),
                      [&](const Value* operand) { return depends_on_carried(operand, body, inside); }));
}

bool is_plain_load(const Value* v, const Region& body, const Scope& inside) {
  while (v->def && v->def->is(Opcode::Permute))
    v = v->def->operand(0);
  if (!v->def || !v->def->is(Opcode::ViewLoad) || v->def->mask() || v->def->other()) return false;
  const auto offsets = v->def->view_offsets();
  return std::none_of(offsets.begin(), offsets.end(),
                      [&](const Value* offset) { return depends_on_carried(offset, body, inside); });
}

// Rules 2 and 3.
bool may_leave(const Region& body, int carried, const std::unordered_map<const Value*, int>& uses,
               const Scope& inside) {
  const Value* sum = body.args[static_cast<std::size_t>(carried + 1)].get();
  const Value* next = body.terminator()->operand(carried);
  if (!next->def || !next->def->is(Opcode::Dot) || next->def->num_operands() != 3) return false;
  const Op& dot = *next->def;
  return dot.operand(2) == sum && uses.at(sum) == 1 && uses.at(next) == 1 &&
         is_plain_load(dot.operand(0), body, inside) && is_plain_load(dot.operand(1), body, inside);
}

// The copies of `loop`, one for each value that leaves it. They belong before the loop, whose own results for
// these values have no use afterwards.
std::vector<std::unique_ptr<Op>> loops_of_products(const Op& loop, ir::ValueMap& replaced) {
  std::vector<std::unique_ptr<Op>> loops;
  if (!loop.is(Opcode::For) || loop.num_results() < 2 || ir::has_side_effects(loop)) return loops;
  const Region& body = *loop.region();
  const auto uses = ir::count_uses(body);
  const Scope inside(body);
  for (int i = 0; i < loop.num_results(); ++i) {
    if (!may_leave(body, i, uses, inside)) continue;
    ir::ValueMap of_copy;
    loops.push_back(ir::clone(loop, of_copy));
    replaced[loop.result(i)] = loops.back()->result(i);
  }
  return loops;
}

bool split_region(Region& region) {
  bool any = false;
  for (std::size_t i = 0; i < region.ops.size(); ++i) {
    ir::ValueMap replaced;
    auto loops = loops_of_products(*region.ops[i], replaced);
    for (const auto& inner : region.ops[i]->regions)
      any |= split_region(*inner);
    if (loops.empty()) continue;
    any = true;
    ir::replace_uses(region, replaced);
    const auto count = static_cast<std::ptrdiff_t>(loops.size());
    region.ops.insert(region.ops.begin() + static_cast<std::ptrdiff_t>(i),
                      std::make_move_iterator(loops.begin()), std::make_move_iterator(loops.end()));
    i += static_cast<std::size_t>(count);
  }
  return any;
}

} // namespace

void split_products(ir::Kernel& kernel, const passes::PassOptions&) {
  if (split_region(kernel.body)) passes::dce(kernel, {});
}

} // namespace kiln::cpu
