// Checks the rules for product loops one by one.
#include <kiln/jit/cpu/facts/product_loop.h>

#include <kiln/jit/cpu/dot/dot_shape.h>
#include <kiln/jit/cpu/facts/scope.h>
#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

namespace {

// Whether `v` is the loop's index, possibly plus a loop-invariant value.
bool steps_with(const Value* v, const Value* index, const Scope& body) {
  if (v == index) return true;
  if (!v->def || !v->def->is(Opcode::Add)) return false;
  const Value *x = v->def->operand(0), *y = v->def->operand(1);
  return (x == index && !body.has(y)) || (y == index && !body.has(x));
}

// Finds the operand's plain load (rule 3). If there is none, the operand is computed.
void follow(ProductOperand& operand, std::size_t k_axis, const Value* index, const Scope& body,
            const Plan& plan, const passes::NonNegativeScalars& non_negative) {
  for (std::size_t a = 0; a < operand.value->type.shape.size(); ++a)
    operand.order.push_back(a);
  const Value* source = operand.value;
  while (source->def && source->def->is(Opcode::Permute) && body.has(source)) {
    const auto& permutation = source->def->integers("order");
    for (std::size_t& a : operand.order)
      a = static_cast<std::size_t>(permutation[a]);
    source = source->def->operand(0);
  }
  const Op* load = source->def;
  if (!body.has(source) || !load || !load->is(Opcode::ViewLoad) || load->mask() || load->other() ||
      plan.has_buffer(source))
    return;
  const auto& axes = load->integers("axes");
  const auto k = static_cast<std::size_t>(axes[operand.order[k_axis]]);
  auto offsets = load->view_offsets();
  for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
    if (axis == k ? !steps_with(offsets[axis], index, body) : body.has(offsets[axis])) return;
    if (!non_negative.count(offsets[axis])) return;
  }
  operand.load = load;
}

} // namespace

std::optional<ProductLoop> product_loop(const Op& loop, const Plan& plan,
                                        const passes::NonNegativeScalars& non_negative) {
  const Region& body = *loop.region();
  if (loop.num_results() != 1 || !loop.result()->type.is_tile() || body.args.size() != 2) return std::nullopt;
  const Value* carried = body.args[1].get();
  ProductLoop product;
  product.loop = &loop;
  auto step = passes::constant_of(loop.operand(2));
  if (!step) return std::nullopt;
  product.step = static_cast<std::int64_t>(*step);
  for (const auto& op : body.ops) {
    if (op->is(Opcode::Yield)) continue;
    if (!op->regions.empty() || op->num_results() != 1 ||
        (op->info().effect != ir::Effect::Pure && op->info().effect != ir::Effect::Read))
      return std::nullopt;
    if (op->is(Opcode::Dot)) {
      if (product.dot) return std::nullopt;
      product.dot = op.get();
    } else if (std::find(op->operands.begin(), op->operands.end(), carried) != op->operands.end()) {
      return std::nullopt;
    }
  }
  const Op* dot = product.dot;
  if (!dot || dot->num_operands() != 3 || dot->operand(2) != carried || dot->operand(0) == carried ||
      dot->operand(1) == carried || body.terminator()->operand(0) != dot->result())
    return std::nullopt;
  if (dot->result()->type.dtype != dot_accumulator(dot->operand(0)->type.dtype, dot->operand(1)->type.dtype))
    return std::nullopt;
  for (const auto& op : body.ops) // only the yield uses the sum
    if (op->operands.end() != std::find(op->operands.begin(), op->operands.end(), dot->result()) &&
        !op->is(Opcode::Yield))
      return std::nullopt;
  const std::size_t rank = dot->result()->type.shape.size();
  if (dot->operand(0)->type.shape.back().value() != product.step || product.step <= 0) return std::nullopt;
  product.a.value = dot->operand(0);
  product.b.value = dot->operand(1);
  const Scope scope(body);
  follow(product.a, rank - 1, body.args[0].get(), scope, plan, non_negative);
  follow(product.b, rank - 2, body.args[0].get(), scope, plan, non_negative);
  const bool computed = !product.a.load || !product.b.load;
  if (computed && rank != 2) return std::nullopt;
  return product;
}

} // namespace kiln::cpu
