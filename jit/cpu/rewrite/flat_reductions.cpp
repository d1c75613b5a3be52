// Reduces the operand of the reshape along its axes, the last one first.
#include <kiln/jit/cpu/rewrite/flat_reductions.h>

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

std::int64_t elements_behind(const Shape& shape, std::size_t axis) {
  std::int64_t elements = 1;
  for (std::size_t a = axis + 1; a < shape.size(); ++a)
    elements *= shape[a].value();
  return elements;
}

// The axes of `from` whose elements are those of `axis` of `to`; none if no axes are.
std::optional<AxisRange> axes_of(const Shape& from, const Shape& to, std::size_t axis) {
  const std::int64_t inner = elements_behind(to, axis), outer = inner * to[axis].value();
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

void split_flat_reductions(ir::Kernel& kernel) {
  replace_results(kernel, [](const Op& op, ir::Builder& builder) -> Value* {
    const auto axes = axes_to_reduce(op);
    return axes ? split(op, *axes, builder) : nullptr;
  });
}

} // namespace kiln::cpu
