// cpu-flat-reductions: splits a reduction over several axes at once into one reduction for each axis.
//
//   sum(flatten(x))  becomes  sum(sum(x, 1), 0)
//
// Neighbouring elements of the flat tile that form a vector are not always neighbours in a row of x: where a
// row's length is not a multiple of the number of lanes, the index of each element would have to be divided
// by it.
//
// The kernel is bound. A reduction is split if
//  1. it reduces one tile with one operation that is associative (floats are added in another order);
//  2. its operand is a reshaped tile, and the reduced axis consists of whole axes of that tile, at least two;
//  3. the extent of the last of them is no power of two: emit/reshape.cpp makes vectors along such axes;
//  4. it is no sum of floats that are narrower than f32, because that is rounded once.
#include <kiln/jit/cpu/rewrite/passes.h>

#include <kiln/jit/cpu/rewrite/replace_results.h>
#include <kiln/jit/emit/combine.h>

#include <bit>
#include <optional>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

struct AxisRange {
  std::size_t begin, end;
};

std::int64_t elements_after(const Shape& shape, std::size_t axis) {
  std::int64_t elements = 1;
  for (std::size_t a = axis + 1; a < shape.size(); ++a)
    elements *= shape[a].value();
  return elements;
}

// The axes of `from` that together are `axis` of `to`; none if no whole axes are.
std::optional<AxisRange> axes_of(const Shape& from, const Shape& to, std::size_t axis) {
  const std::int64_t inner = elements_after(to, axis), outer = inner * to[axis].value();
  std::size_t end = from.size();
  std::int64_t elements = 1;
  while (end > 0 && elements < inner)
    elements *= from[--end].value();
  if (elements != inner) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && elements < outer)
    elements *= from[--begin].value();
  if (elements != outer) return std::nullopt;
  return AxisRange{begin, end};
}

// The axes of the reshaped tile that `op` reduces, if it follows the rules.
std::optional<AxisRange> axes_to_reduce(const Op& op) {
  if (!op.is(Opcode::Reduce) || op.num_operands() != 1 || !emit::simple_combine(op)) return std::nullopt;
  const Value* flat = op.operand(0);
  if (!flat->def || !flat->def->is(Opcode::Reshape)) return std::nullopt;
  if (emit::keeps_wide(op) && is_float(flat->type.dtype) && size_of(flat->type.dtype) < 4)
    return std::nullopt;
  const Shape& from = flat->def->operand(0)->type.shape;
  const auto axes = axes_of(from, flat->type.shape, static_cast<std::size_t>(op.integer("axis")));
  if (!axes || axes->end - axes->begin < 2) return std::nullopt;
  if (std::has_single_bit(static_cast<std::uint64_t>(from[axes->end - 1].value()))) return std::nullopt;
  return axes;
}

// Reduces the reshaped tile along these axes, the last one first.
Value* split(const Op& op, AxisRange axes, ir::Builder& builder) {
  Value* v = op.operand(0)->def->operand(0);
  for (std::size_t axis = axes.end; axis-- > axes.begin;) {
    ir::ValueMap operand{{op.operand(0), v}};
    Op* one = builder.insert(ir::clone(op, operand));
    one->set("axis", static_cast<std::int64_t>(axis));
    Shape shape = v->type.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    one->result()->type = op.result()->type.with_shape(shape);
    v = one->result();
  }
  if (v->type == op.result()->type) return v;
  return builder.create(Opcode::Reshape, {v}, {op.result()->type})->result();
}

} // namespace

void split_flat_reductions(ir::Kernel& kernel, const passes::PassOptions&) {
  replace_results(kernel, [](const Op& op, ir::Builder& builder) -> Value* {
    const auto axes = axes_to_reduce(op);
    return axes ? split(op, *axes, builder) : nullptr;
  });
}

} // namespace kiln::cpu
