// Follows a tile of integers back to the arange and the scalar that it is computed from.
#include <kiln/jit/passes/index_tiles.h>

#include <kiln/jit/passes/axes.h>
#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace kiln::passes {

using ir::Opcode;

IndexTile scalar_index(const ir::Value* scalar) {
  if (auto cell = constant_of(scalar)) {
    const auto n = static_cast<std::int64_t>(*cell);
    return {nullptr, scalar->type.dtype == DType::I32 ? static_cast<std::int32_t>(n) : n, -1};
  }
  return {scalar, 0, -1};
}

namespace {

constexpr int deepest = 12; // the limit of nesting, because each operation may have two operands to follow

// Whether `op` is an arange that does not wrap.
bool is_plain_arange(const ir::Op& op) {
  if (!op.is(Opcode::Arange) || !is_signed(op.result()->type.dtype)) return false;
  const std::int64_t start = op.integer("start"), extent = op.result()->type.shape[0].value();
  return size_of(op.result()->type.dtype) == 8 || start <= std::numeric_limits<std::int32_t>::max() - extent;
}

std::int64_t wrapped_sum(std::int64_t x, std::int64_t y) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}

std::int64_t wrapped_product(std::int64_t x, std::int64_t y) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
}

bool in_32_bits(const IndexTile& indices, const ir::Op& tile) {
  using Limits = std::numeric_limits<std::int32_t>;
  const auto axis = static_cast<std::size_t>(indices.axis);
  const std::int64_t extent = indices.axis >= 0 ? tile.result()->type.shape[axis].value() : 1;
  return indices.start >= Limits::min() && indices.start <= Limits::max() - extent;
}

std::optional<IndexTile> find_index_tile(const ir::Value* v, DType dtype, int depth) {
  const ir::Op* op = v->def;
  if (!op || depth > deepest || !v->type.is_tile() || v->type.dtype != dtype) return std::nullopt;
  if (op->is(Opcode::Splat)) return scalar_index(op->operand(0));
  if (is_plain_arange(*op)) return IndexTile{nullptr, op->integer("start"), 0};
  if (op->is(Opcode::Add)) {
    auto x = find_index_tile(op->operand(0), dtype, depth + 1);
    auto y = x ? find_index_tile(op->operand(1), dtype, depth + 1) : std::nullopt;
    if (!y || (x->axis >= 0 && y->axis >= 0) || (x->offset && y->offset)) return std::nullopt;
    return IndexTile{x->offset ? x->offset : y->offset, wrapped_sum(x->start, y->start),
                     std::max(x->axis, y->axis)};
  }
  if (op->is(Opcode::Cast)) { // indices that do not wrap
    auto indices = find_index_tile(op->operand(0), DType::I32, depth + 1);
    return indices && !indices->offset && in_32_bits(*indices, *op) ? indices : std::nullopt;
  }
  if (!maps_axes(*op)) return std::nullopt;
  auto indices = find_index_tile(op->operand(0), dtype, depth + 1);
  if (!indices || indices->axis < 0) return indices;
  const int axis_in_operand = indices->axis;
  indices->axis = -1;
  for (int axis = 0; axis < v->type.rank(); ++axis)
    if (operand_axis(*op, axis) == axis_in_operand) indices->axis = axis;
  return indices;
}

std::optional<std::int64_t> step_along(const ir::Value* v, int axis, int depth) {
  const ir::Op* op = v->def;
  if (axis < 0 || v->type.is_scalar() || v->type.shape[static_cast<std::size_t>(axis)].is_one()) return 0;
  if (!op || depth > deepest) return std::nullopt;
  if (op->is(Opcode::Splat)) return 0;
  if (is_plain_arange(*op)) return 1;
  if (maps_axes(*op)) return step_along(op->operand(0), operand_axis(*op, axis), depth + 1);
  if (!ir::is_elementwise(op->code)) return std::nullopt;
  std::vector<std::int64_t> steps;
  bool steady = true;
  for (const ir::Value* operand : op->operands) {
    auto step = step_along(operand, axis, depth + 1);
    if (!step) return std::nullopt;
    steps.push_back(*step);
    steady &= *step == 0;
  }
  if (steady) return 0;
  const bool wide = v->type.pointer || v->type.dtype == DType::I64; // narrower numbers wrap
  if (!wide) return std::nullopt;
  switch (op->code) {
  case Opcode::Cast: return is_integer(op->operand(0)->type.dtype) ? std::optional(steps[0]) : std::nullopt;
  case Opcode::Add:
  case Opcode::PtrAdd: return wrapped_sum(steps[0], steps[1]);
  case Opcode::Sub: return wrapped_sum(steps[0], wrapped_product(steps[1], -1));
  case Opcode::Neg: return wrapped_product(steps[0], -1);
  case Opcode::Mul:
    for (int factor : {0, 1})
      if (auto cell = constant_of(op->operand(factor)))
        return wrapped_product(steps[static_cast<std::size_t>(1 - factor)], static_cast<std::int64_t>(*cell));
    return std::nullopt;
  default: return std::nullopt;
  }
}

std::optional<IndexRange> within_dtype(const IndexRange& range, DType t) {
  using Limits = std::numeric_limits<std::int32_t>;
  const std::int64_t low = size_of(t) == 8 ? std::int64_t{Limits::min()} << 16 : Limits::min();
  const std::int64_t high = size_of(t) == 8 ? std::int64_t{Limits::max()} << 16 : Limits::max();
  return range.low >= low && range.high <= high ? std::optional(range) : std::nullopt;
}

std::optional<IndexRange> find_range(const ir::Value* v, int depth) {
  const ir::Op* op = v->def;
  const DType t = v->type.dtype;
  if (!op || depth > deepest || v->type.pointer || (t != DType::I32 && t != DType::I64)) return std::nullopt;
  if (op->is(Opcode::Arange)) {
    const std::int64_t start = op->integer("start");
    return within_dtype({start, start + v->type.shape[0].value() - 1}, t);
  }
  if (v->type.is_scalar() || op->is(Opcode::Splat)) {
    auto cell = constant_of(op->is(Opcode::Splat) ? op->operand(0) : v);
    if (!cell) return std::nullopt;
    const auto n = static_cast<std::int64_t>(*cell);
    return within_dtype({n, n}, t);
  }
  if (maps_axes(*op) || op->is(Opcode::Reshape) || op->is(Opcode::Cast)) {
    const auto range = find_range(op->operand(0), depth + 1);
    return range ? within_dtype(*range, t) : std::nullopt;
  }
  if (!op->is(Opcode::Add) && !op->is(Opcode::Sub)) return std::nullopt;
  const auto a = find_range(op->operand(0), depth + 1), b = find_range(op->operand(1), depth + 1);
  if (!a || !b) return std::nullopt;
  return op->is(Opcode::Add) ? within_dtype({a->low + b->low, a->high + b->high}, t)
                             : within_dtype({a->low - b->high, a->high - b->low}, t);
}

} // namespace

std::optional<IndexRange> index_range(const ir::Value* v) { return find_range(v, 0); }

std::optional<IndexTile> index_tile(const ir::Value* v) { return find_index_tile(v, DType::I64, 0); }
std::optional<IndexTile> index_tile_in_32_bits(const ir::Value* v) {
  return find_index_tile(v, DType::I32, 0);
}

std::optional<std::int64_t> step_along(const ir::Value* v, int axis) { return step_along(v, axis, 0); }

std::optional<std::int64_t> step_in_memory(const ir::Op& op, int axis) {
  const ir::Type& memory = op.operand(0)->type;
  if (!memory.is_view()) return step_along(op.operand(0), axis);
  if (memory.layout == LayoutClass::Any) return std::nullopt;
  const auto indices = op.view_offsets();
  const bool one_row = std::all_of(indices.begin(), indices.end() - 1,
                                   [&](const ir::Value* index) { return step_along(index, axis) == 0; });
  return one_row ? step_along(indices.back(), axis) : std::nullopt;
}

} // namespace kiln::passes
