// Derives extents in bounds through broadcasts, dots, reductions and elementwise operations.
#include <kiln/jit/passes/in_bounds.h>

#include <kiln/jit/passes/axes.h>

#include <algorithm>

namespace kiln::passes {

using namespace ir;

namespace {

InBoundsExtents::Extents whole(const Type& type) {
  InBoundsExtents::Extents extents{};
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    extents[i] = static_cast<double>(type.shape[i].value());
  return extents;
}

} // namespace

InBoundsExtents::Extents InBoundsExtents::of(const Value* tile) const {
  const auto at = known_.find(tile);
  return at == known_.end() ? whole(tile->type) : at->second;
}

double InBoundsExtents::elements(const Value* tile) const {
  if (!known_.contains(tile)) return static_cast<double>(tile->type.numel());
  const Extents extents = of(tile);
  double n = 1;
  for (std::size_t i = 0; i < tile->type.shape.size(); ++i)
    n *= extents[i];
  return n;
}

void InBoundsExtents::set(const Value* tile, const Extents& extents) {
  if (extents == whole(tile->type))
    known_.erase(tile);
  else
    known_.insert_or_assign(tile, extents);
}

void InBoundsExtents::follow(const Op& op) {
  if (known_.empty() || op.results.empty() || op.operands.empty() || !op.operand(0)->type.is_tile()) return;
  if (maps_axes(op)) return follow_axes(op);
  if (op.is(Opcode::Dot)) return follow_dot(op);
  if (is_elementwise(op.code) || op.is(Opcode::Reduce) || op.is(Opcode::Scan)) follow_elements(op);
}

void InBoundsExtents::follow_axes(const Op& op) {
  const Extents from = of(op.operand(0));
  Extents to = whole(op.result()->type);
  for (std::size_t i = 0; i < op.result()->type.shape.size(); ++i)
    if (const int axis = operand_axis(op, static_cast<int>(i)); axis >= 0)
      to[i] = from[static_cast<std::size_t>(axis)];
  set(op.result(), to);
}

void InBoundsExtents::follow_dot(const Op& op) {
  const Extents a = of(op.operand(0)), b = of(op.operand(1));
  const std::size_t n = op.result()->type.shape.size() - 1;
  Extents to = a;
  for (std::size_t i = 0; i + 1 < n; ++i)
    to[i] = std::min(a[i], b[i]);
  to[n] = b[n];
  set(op.result(), to);
}

double InBoundsExtents::flops_of_dot(const Op& op) const {
  const std::size_t last = op.result()->type.shape.size() - 1;
  const double depth = std::min(of(op.operand(0))[last], of(op.operand(1))[last - 1]);
  return 2 * elements(op.result()) * depth;
}

void InBoundsExtents::follow_elements(const Op& op) {
  const std::size_t rank = op.operand(0)->type.shape.size();
  Extents least = of(op.operand(0));
  for (const Value* v : op.operands) {
    if (v->type.shape.size() != rank) continue;
    const Extents extents = of(v);
    for (std::size_t i = 0; i < rank; ++i)
      least[i] = std::min(least[i], extents[i]);
  }
  if (op.is(Opcode::Reduce)) {
    const auto axis = static_cast<std::ptrdiff_t>(op.integer("axis"));
    std::copy(least.begin() + axis + 1, least.end(), least.begin() + axis);
  }
  for (const auto& result : op.results)
    if (result->type.is_tile()) set(result.get(), least);
}

} // namespace kiln::passes
