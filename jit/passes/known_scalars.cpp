// Implements the evaluation of scalars: the grid, facts about views, and elementwise operations on numbers.
#include <kiln/jit/passes/known_scalars.h>

#include <algorithm>

namespace kiln::passes {

using namespace ir;

KnownScalars::KnownScalars(const Kernel& kernel, const KnownArguments& arguments)
    : kernel_(kernel), layout_(ArgumentLayout::of(kernel)), arguments_(arguments) {
  find_grid();
}

void KnownScalars::find_grid() {
  int rank = static_cast<int>(kernel_.grid.size());
  walk(kernel_.body, [&](const Op& op) {
    if (op.is(Opcode::ProgramId) || op.is(Opcode::NumPrograms))
      rank = std::max(rank, static_cast<int>(op.integer("axis")) + 1);
  });
  grid_known_ = true;
  if (kernel_.grid.empty()) {
    grid_ = arguments_.grid;
    grid_known_ = rank == 0 || !grid_.empty();
  }
  for (const GridAxis& axis : kernel_.grid) {
    Known extent = word(layout_.extent_word(axis.param, axis.axis));
    grid_known_ &= extent.has_value();
    std::int64_t e = static_cast<std::int64_t>(extent.value_or(0)), tile = axis.tile.value();
    grid_.push_back(e / tile + (e % tile != 0));
  }
  grid_.resize(static_cast<std::size_t>(std::max<int>(rank, static_cast<int>(grid_.size()))), 1);
  coordinates_.assign(grid_.size(), std::nullopt);
}

KnownScalars::Known KnownScalars::word(int index) const {
  auto i = static_cast<std::size_t>(index);
  return i < arguments_.words.size() ? arguments_.words[i] : std::nullopt;
}

KnownScalars::Known KnownScalars::value(const Value* v) const {
  if (!v->def && v->region == &kernel_.body)
    return word(layout_.first_word[static_cast<std::size_t>(v->index)]);
  auto at = values_.find(v);
  return at == values_.end() ? std::nullopt : at->second;
}

std::optional<std::int64_t> KnownScalars::integer(const Value* v) const {
  Known cell = value(v);
  if (!cell) return std::nullopt;
  return static_cast<std::int64_t>(*cell);
}

std::optional<std::int64_t> KnownScalars::extent(const Value* view, int axis) const {
  if (view->def || view->region != &kernel_.body) return std::nullopt;
  Known cell = word(layout_.extent_word(view->index, axis));
  if (!cell) return std::nullopt;
  return static_cast<std::int64_t>(*cell);
}

KnownScalars::Known KnownScalars::compute(const Op& op) const {
  const auto axis = static_cast<std::size_t>(op.integer("axis"));
  switch (op.code) {
  case Opcode::Constant: return constant_cell(op);
  case Opcode::DimSize: return static_cast<Cell>(std::get<Dim>(*op.find("dim")).value());
  case Opcode::ProgramId: return coordinates_[axis];
  case Opcode::NumPrograms: return grid_known_ ? Known(static_cast<Cell>(grid_[axis])) : std::nullopt;
  case Opcode::ViewExtent: {
    auto e = extent(op.operand(0), static_cast<int>(axis));
    return e ? Known(static_cast<Cell>(*e)) : std::nullopt;
  }
  case Opcode::ViewStride: {
    const Value* view = op.operand(0);
    if (view->def) return std::nullopt;
    return word(layout_.stride_word(view->index, view->type.view_rank, static_cast<int>(axis)));
  }
  default: break;
  }
  if (!is_elementwise(op.code) || op.is(Opcode::PtrAdd)) return std::nullopt;
  Cell operands[3] = {};
  for (int i = 0; i < op.num_operands(); ++i) {
    Known operand = value(op.operand(i));
    if (!operand) return std::nullopt;
    operands[i] = *operand;
  }
  const DType from = cell_dtype(op.operand(op.is(Opcode::Select) ? 1 : 0)->type);
  const DType to = cell_dtype(op.result()->type);
  if (op.is(Opcode::Cast)) return evaluate_cast(from, to, operands[0]);
  if (op.is(Opcode::Bitcast)) return evaluate_bitcast(from, to, operands[0]);
  if (!can_evaluate(op.code, from)) return std::nullopt;
  return evaluate(op.code, from, operands[0], operands[1], operands[2]);
}

} // namespace kiln::passes
