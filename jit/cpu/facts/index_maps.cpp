// Composes index maps with the operations that move elements.
#include <kiln/jit/cpu/facts/index_maps.h>

#include <kiln/dsl/ir/evaluate_tiles.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/axes.h>

#include <utility>

namespace kiln::cpu {

using ir::Opcode;

namespace {

// The first number of an expression.
enum Kind : std::int64_t {
  nest_axis, // an axis of the nest
  a_constant,
  of_reshape, // an axis of a group of axes, from the indices of a group of the other shape
};

} // namespace

int IndexMaps::number_of(Expression expression) {
  const auto [at, made] = numbers_.try_emplace(expression, static_cast<int>(expressions_.size()));
  if (made) expressions_.push_back(std::move(expression));
  return at->second;
}

int IndexMaps::constant(std::int64_t value) { return number_of({a_constant, value}); }

const std::int64_t* IndexMaps::value_of(int number) const {
  const Expression& e = expressions_[static_cast<std::size_t>(number)];
  return e[0] == a_constant ? &e[1] : nullptr;
}

IndexMap IndexMaps::identity(std::size_t rank) {
  IndexMap map;
  for (std::size_t axis = 0; axis < rank; ++axis)
    map.push_back(number_of({nest_axis, static_cast<std::int64_t>(axis)}));
  return map;
}

IndexMap IndexMaps::of_operand(const ir::Op& op, const IndexMap& at) {
  if (op.is(Opcode::Reshape)) return of_reshaped(op, at);
  if (op.is(Opcode::Extract)) {
    IndexMap inner = at;
    inner.insert(inner.begin() + op.integer("axis"), constant(op.integer("index")));
    return inner;
  }
  if (!passes::maps_axes(op)) return at;
  return passes::indices_in_operand(op, at, constant(0));
}

// Groups of axes that remain one axis keep their expression. Vectors that are picked from one longer vector
// are evaluated together (emit/reshape.cpp), so that constant indices along the last axes of a group do not
// matter.
IndexMap IndexMaps::of_reshaped(const ir::Op& reshape, const IndexMap& at) {
  const std::vector<std::int64_t> from = extents_of(reshape.result()->type),
                                  to = extents_of(reshape.operand(0)->type);
  IndexMap inner(to.size(), constant(0));
  for (const passes::AxisGroup& group : passes::axis_groups(from, to)) {
    // Axes of one element do not matter.
    std::vector<std::pair<std::int64_t, int>> indices; // extents and expressions
    for (std::size_t a = group.from; a < group.from_end; ++a)
      if (from[a] > 1) indices.emplace_back(from[a], at[a]);
    std::vector<std::size_t> axes;
    for (std::size_t a = group.to; a < group.to_end; ++a)
      if (to[a] > 1) axes.push_back(a);
    if (indices.size() == 1 && axes.size() == 1) {
      inner[axes[0]] = indices[0].second;
      continue;
    }
    std::int64_t apart = 1;
    for (std::size_t i = indices.size(); i-- > 1 && value_of(indices[i].second);) {
      apart *= indices[i].first;
      if (apart > tuning::max_reshape_parts) break;
      indices[i].second = constant(0);
    }
    for (std::size_t axis : axes) {
      Expression e{of_reshape};
      for (std::size_t a : axes)
        e.push_back(to[a]);
      e.push_back(static_cast<std::int64_t>(axis - group.to));
      for (const auto& [extent, expression] : indices)
        e.insert(e.end(), {extent, expression});
      inner[axis] = number_of(std::move(e));
    }
  }
  return inner;
}

} // namespace kiln::cpu
