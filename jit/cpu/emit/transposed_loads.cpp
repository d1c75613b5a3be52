// Emits transposed loads, which are contiguous along the loop around the vector loop.
//
// Loads of a transposed matrix are such loads.
//
// If the nest computed one row after the other, each vector would be gathered from as many lines of memory as
// it has lanes, and the next row would need the same lines again. Instead, a block of rows is computed
// together: whole lines are loaded as vectors along the outer loop and are transposed in registers. The same
// load may also be needed in its own order, as in t + trans(t); that use is no transposed load.
//
// Matrices with few rows, such as the columns of narrow rows, are one block.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>
#include <kiln/jit/emit/transpose.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>
#include <bit>

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

// Finds the transposed loads and stores of a nest that stores or fills, and whose vectors are long enough.
// For views of any strides only the strides at run time show which accesses are transposed; then returns that
// condition, else null.
Value* KernelEmitter::find_transposed_accesses(Nest& nest) {
  if (nest.vector_axis < 0 || nest.outer_axes.empty() || nest.lanes < tuning::min_transposed_lanes ||
      nest.reduced_axis >= 0 ||
      std::any_of(nest.roots.begin(), nest.roots.end(), [](const Root& root) { return root.in_order; }))
    return nullptr;
  const int row_axis = nest.outer_axes.back();
  const std::int64_t rows = nest.domain[static_cast<std::size_t>(row_axis)];
  const std::int64_t columns = nest.domain[static_cast<std::size_t>(nest.vector_axis)];
  const int lanes = std::min(nest.lanes, tuning::max_transposed_rows);
  if (columns < lanes) return nullptr;
  Value* condition = nullptr;
  int least_bytes = line_bytes;
  std::set<const ir::Value*> seen;
  // Adds a load or store to `into`, unless its view is known to be contiguous along another axis.
  auto add = [&](std::map<const ir::Op*, Nest::TransposedAccess>& into, const ir::Op& op, const Axes& axes) {
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
    into.emplace(&op,
                 Nest::TransposedAccess{static_cast<std::size_t>(row), static_cast<std::size_t>(column)});
    least_bytes = std::min(least_bytes, size_of(view.dtype));
  };
  int operations = 0;
  auto visit = [&](auto&& self, const ir::Value* v, const Axes& axes) -> void {
    const bool lazy = v->type.is_tile() && v->def && (!plan_.has_buffer(v) || nest.being_filled.count(v));
    if (!lazy || axes.empty() || !seen.insert(v).second) return;
    operations += has_long_latency(*v->def) ? function_operations : 1;
    if (v->def->is(Opcode::ViewLoad)) return add(nest.transposed_loads, *v->def, axes);
    for (const ir::Value* operand : v->def->operands)
      if (operand->type.is_tile()) self(self, operand, operand_axes(*v->def, operand, axes));
  };
  Axes all(nest.domain.size());
  for (std::size_t a = 0; a < all.size(); ++a)
    all[a] = static_cast<int>(a);
  for (const Root& root : nest.roots) {
    if (root.carries_values() || root.kind == Root::Kind::Update) {
      nest.transposed_loads.clear(), nest.transposed_stores.clear();
      return nullptr;
    }
    if (root.kind == Root::Kind::Store && !root.destination && root.op->is(Opcode::ViewStore))
      add(nest.transposed_stores, *root.op, all);
    if (root.stored_from) continue;
    visit(visit, root.kind == Root::Kind::Fill ? root.value : root.op->stored_value(), all);
  }
  if (operations * std::min<std::int64_t>(lanes, rows) > max_operations)
    nest.transposed_loads.clear(), nest.transposed_stores.clear();
  if (!nest.computes_blocks()) return nullptr;
  nest.lanes = nest.native_lanes = lanes;
  nest.block = static_cast<int>(std::min<std::int64_t>(lanes, rows)); // fewer rows than lanes: all of them
  while (rows >= lanes && nest.block * least_bytes < line_bytes && 2 * nest.block <= rows &&
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
  if (load->second != Nest::TransposedAccess{row, column}) return nullptr;
  const auto first = static_cast<std::size_t>(of_block / nest.lanes * nest.lanes);
  const auto count = static_cast<std::size_t>(std::min(nest.lanes, nest.block));
  auto at_row = [&](std::size_t i) {
    Indices there = at;
    there[row].base = nest.rows[first + i];
    return there;
  };
  for (std::size_t i : {std::size_t{0}, count - 1}) // the fast part ends where either is not inside
    internal_check(!view_access(nest, op, at_row(i)).mask, "a transposed load needs a mask");

  const ir::Value* view = op.operand(0);
  Value* stride = facts(view).strides[static_cast<std::size_t>(op.integers("axes")[column])];
  Indices corner = at_row(0);
  corner[column].linear = false;
  Value* address = view_access(nest, op, corner, /*address_only=*/true).address;
  Values lines;
  if (!interleaves(nest)) {
    lines = load_lines(nest, op, address, stride);
  } else {
    // Narrow rows mostly follow one another in memory, so that they can be loaded as whole vectors.
    Values others;
    llvm::BasicBlock *of_lines = nullptr, *of_others = nullptr;
    emit_if_else(
        b_, follows(nest, stride),
        [&] {
          lines = load_interleaved(nest, op, address);
          of_lines = b_.GetInsertBlock();
        },
        [&] {
          others = load_lines(nest, op, address, stride);
          of_others = b_.GetInsertBlock();
        });
    for (std::size_t i = 0; i < count; ++i) {
      llvm::PHINode* either = b_.CreatePHI(lines[i]->getType(), 2);
      either->addIncoming(lines[i], of_lines);
      either->addIncoming(others[i], of_others);
      lines[i] = either;
    }
  }
  for (std::size_t i = 0; i < count; ++i)
    nest.memo[key_of(op.result(), at_row(i), nest.lanes)] = lines[i];
  return lines[static_cast<std::size_t>(of_block) - first];
}

// Loads the part of each column that is in the block, and transposes these parts. If the block has fewer rows
// than vectors have lanes, several short parts are put together to a vector.
Values KernelEmitter::load_lines(Nest& nest, const ir::Op& op, Value* address, Value* stride) {
  const DType dtype = op.result()->type.dtype;
  const llvm::Align align(static_cast<unsigned>(size_of(dtype)));
  llvm::Type* element = memory_type(context_, dtype);
  const auto rows = static_cast<std::size_t>(std::min(nest.lanes, nest.block));
  const std::size_t length = std::bit_ceil(rows);
  llvm::Type* part = lanes_type(element, static_cast<int>(length));
  Value* ahead = b_.CreateMul(
      stride, b_.getInt64(static_cast<std::uint64_t>(nest.lanes * tuning::transposed_prefetch_vectors)));
  Values parts;
  for (int i = 0; i < nest.lanes; ++i) {
    if (i > 0) address = b_.CreateGEP(element, address, stride);
    if (rows == static_cast<std::size_t>(nest.lanes))
      prefetch_line(b_, b_.CreateGEP(element, address, ahead), Cache::L2);
    if (rows == length)
      parts.push_back(b_.CreateAlignedLoad(part, address, align));
    else
      parts.push_back(b_.CreateMaskedLoad(part, address, align, first_lanes(rows, length),
                                          llvm::Constant::getNullValue(part)));
  }
  Values lines;
  for (std::size_t k = 0; k < length; ++k) {
    Values together; // parts k, k + length, k + 2 length, ...
    for (std::size_t i = k; i < parts.size(); i += length)
      together.push_back(parts[i]);
    lines.push_back(joined(b_, together));
  }
  // As they are in memory, narrow floats take fewer registers.
  lines = length == static_cast<std::size_t>(nest.lanes)
              ? transposed(b_, std::move(lines), target_.sve_bytes ? 8 * target_.sve_bytes : 128)
              : transposed_squares(b_, std::move(lines));
  for (Value*& line : lines)
    line = from_memory(b_, numbers_, line, dtype);
  return lines;
}

// Whether the nest loads and stores whole vectors of narrow rows that follow one another, and interleaves
// their columns.
bool KernelEmitter::interleaves(const Nest& nest) const {
  const int most =
      numbers_.math.avx512 ? tuning::max_interleaved_columns : tuning::avx2_max_interleaved_columns;
  return nest.block < nest.lanes && nest.block <= most;
}

// i1: narrow rows that are `stride` elements apart follow one another.
Value* KernelEmitter::follows(const Nest& nest, Value* stride) {
  return b_.CreateICmpEQ(stride, b_.getInt64(static_cast<std::uint64_t>(nest.block)));
}

Values KernelEmitter::load_interleaved(Nest& nest, const ir::Op& op, Value* address) {
  const DType dtype = op.result()->type.dtype;
  llvm::Type* type = lanes_type(memory_type(context_, dtype), nest.lanes);
  Values vectors;
  for (int k = 0; k < nest.block; ++k) {
    Value* part = b_.CreateConstGEP1_64(type, address, static_cast<std::uint64_t>(k));
    Value* bits = b_.CreateAlignedLoad(type, part, llvm::Align(static_cast<unsigned>(size_of(dtype))));
    vectors.push_back(from_memory(b_, numbers_, bits, dtype));
  }
  return deinterleaved(b_, vectors);
}

// The mask of the first `count` of so many lanes.
llvm::Constant* KernelEmitter::first_lanes(std::size_t count, std::size_t lanes) {
  std::vector<llvm::Constant*> bits;
  for (std::size_t i = 0; i < lanes; ++i)
    bits.push_back(b_.getInt1(i < count));
  return llvm::ConstantVector::get(bits);
}

} // namespace kiln::cpu
