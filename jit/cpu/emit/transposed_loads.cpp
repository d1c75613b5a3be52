// Emits transposed loads, which are contiguous along the loop around the vector loop.
//
// Loads of a transposed matrix are such loads.
//
// If the nest computed one row after the other, each vector would be gathered from as many lines of memory as
// it has lanes, and the next row would need the same lines again. Instead, a block of rows is computed
// together: whole lines are loaded as vectors along the outer loop and are transposed in registers. The same
// load may also be needed in its own order, as in t + trans(t); that use is no transposed load.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>
#include <kiln/jit/emit/transpose.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The largest number of operations of all rows of a block, which bounds the time to compile, and the number
// of operations that a function such as exp counts as.
constexpr int max_operations = 1000, function_operations = 25;

// For each axis of a tile, the axis of the nest that it is, or -1.
using Axes = std::vector<int>;

int tile_axis_at(const Axes& axes, int nest_axis) {
  auto at = std::find(axes.begin(), axes.end(), nest_axis);
  return at == axes.end() ? -1 : static_cast<int>(at - axes.begin());
}

// The axes of an operand of an operation that is evaluated at `axes`; empty if the analysis ends here.
Axes operand_axes(const ir::Op& op, const ir::Value* operand, Axes axes) {
  if (!passes::maps_axes(op)) return ir::is_elementwise(op.code) ? axes : Axes();
  Axes inner(operand->type.shape.size(), -1);
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (const int at = passes::operand_axis(op, static_cast<int>(a)); at >= 0)
      inner[static_cast<std::size_t>(at)] = axes[a];
  return inner;
}

} // namespace

// Finds the transposed loads of a nest that stores or fills, and whose vectors are long enough. For views of
// any strides only the strides at run time show which loads are transposed; then returns that condition, else
// null.
Value* KernelEmitter::find_transposed_loads(Nest& nest) {
  if (nest.vector_axis < 0 || nest.outer_axes.empty() || nest.lanes < tuning::min_transposed_lanes ||
      nest.reduced_axis >= 0)
    return nullptr;
  const int row_axis = nest.outer_axes.back();
  const std::int64_t rows = nest.domain[static_cast<std::size_t>(row_axis)];
  const std::int64_t columns = nest.domain[static_cast<std::size_t>(nest.vector_axis)];
  const int lanes = std::min(nest.lanes, tuning::max_transposed_rows);
  if (rows < lanes || columns < lanes) return nullptr;
  Value* condition = nullptr;
  int least_bytes = line_bytes;
  std::set<const ir::Value*> seen;
  auto visit_load = [&](const ir::Op& op, const Axes& axes) {
    const int row = tile_axis_at(axes, row_axis), column = tile_axis_at(axes, nest.vector_axis);
    if (op.mask() || row < 0 || column < 0) return;
    const ir::Type& view = op.operand(0)->type;
    const std::int64_t of_view = op.integers("axes")[static_cast<std::size_t>(row)];
    if (view.layout == LayoutClass::Any) {
      Value* stride = facts(op.operand(0)).strides[static_cast<std::size_t>(of_view)];
      Value* neighbours = b_.CreateICmpEQ(stride, b_.getInt64(1));
      condition = condition ? b_.CreateAnd(condition, neighbours) : neighbours;
    } else if (of_view != view.view_rank - 1) {
      return;
    }
    nest.transposed_loads.emplace(
        &op, Nest::TransposedLoad{static_cast<std::size_t>(row), static_cast<std::size_t>(column)});
    least_bytes = std::min(least_bytes, size_of(view.dtype));
  };
  int operations = 0;
  auto visit = [&](auto&& self, const ir::Value* v, const Axes& axes) -> void {
    const bool lazy = v->type.is_tile() && v->def && (!plan_.has_buffer(v) || nest.being_filled.count(v));
    if (!lazy || axes.empty() || !seen.insert(v).second) return;
    operations += has_long_latency(*v->def) ? function_operations : 1;
    if (v->def->is(Opcode::ViewLoad)) return visit_load(*v->def, axes);
    for (const ir::Value* operand : v->def->operands)
      if (operand->type.is_tile()) self(self, operand, operand_axes(*v->def, operand, axes));
  };
  Axes all(nest.domain.size());
  for (std::size_t a = 0; a < all.size(); ++a)
    all[a] = static_cast<int>(a);
  for (const Root& root : nest.roots) {
    if (root.carries_values()) return nest.transposed_loads.clear(), nullptr;
    if (root.stored_from) continue;
    visit(visit, root.kind == Root::Kind::Fill ? root.value : root.op->stored_value(), all);
  }
  if (operations * lanes > max_operations) nest.transposed_loads.clear();
  if (nest.transposed_loads.empty()) return nullptr;
  nest.block = nest.lanes = nest.native_lanes = lanes;
  while (nest.block * least_bytes < line_bytes &&
         2 * nest.block <= std::min<std::int64_t>(rows, tuning::max_transposed_rows) &&
         2 * nest.block * operations <= max_operations)
    nest.block *= 2;
  return condition;
}

// Emits the vector at `at` of a transposed load, together with those of the other rows of its block. Returns
// null for other loads.
Value* KernelEmitter::transposed_load(Nest& nest, const ir::Op& op, const Indices& at) {
  auto load = nest.transposed_loads.find(&op);
  if (nest.guarded || nest.rows.empty() || nest.lanes != nest.loop_lanes ||
      load == nest.transposed_loads.end())
    return nullptr;
  std::size_t row = at.size(), column = at.size();
  std::ptrdiff_t of_block = 0;
  for (std::size_t a = 0; a < at.size(); ++a) {
    auto here = std::find(nest.rows.begin(), nest.rows.end(), at[a].base);
    if (at[a].linear) {
      column = a;
    } else if (here != nest.rows.end()) {
      row = a;
      of_block = here - nest.rows.begin();
    }
  }
  if (load->second != Nest::TransposedLoad{row, column}) return nullptr;
  const auto first = static_cast<std::size_t>(of_block / nest.lanes * nest.lanes);
  const auto count = static_cast<std::size_t>(nest.lanes);
  auto at_row = [&](std::size_t i) {
    Indices there = at;
    there[row].base = nest.rows[first + i];
    return there;
  };
  for (std::size_t i : {std::size_t{0}, count - 1}) // the fast part ends where either is not inside
    internal_check(!view_access(nest, op, at_row(i)).mask, "a transposed load needs a mask");

  const DType dtype = op.result()->type.dtype;
  const ir::Value* view = op.operand(0);
  llvm::Type* element = memory_type(context_, dtype);
  Value* stride = facts(view).strides[static_cast<std::size_t>(op.integers("axes")[column])];
  Indices corner = at_row(0);
  corner[column].linear = false;
  Value* address = view_access(nest, op, corner, /*address_only=*/true).address;
  Values lines;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) address = b_.CreateGEP(element, address, stride);
    Value* bits = b_.CreateAlignedLoad(lanes_type(element, nest.lanes), address,
                                       llvm::Align(static_cast<unsigned>(size_of(dtype))));
    lines.push_back(from_memory(b_, numbers_, bits, dtype));
  }
  lines = transposed(b_, std::move(lines), target_.sve_bytes ? 8 * target_.sve_bytes : 128);
  for (std::size_t i = 0; i < count; ++i)
    nest.memo[key_of(op.result(), at_row(i), nest.lanes)] = lines[i];
  return lines[static_cast<std::size_t>(of_block) - first];
}

} // namespace kiln::cpu
