// Evaluates vectors that span several narrow rows, where a row or a column is repeated.
//
// In x[r, c] + bias[c] with three columns, a vector of 8 lanes spans parts of 3 or 4 rows, and its lanes need
// bias[0, 1, 2, 0, 1, 2, 0, 1]. The next vectors need bias[2, 0, 1, ...] and bias[1, 2, 0, ...], and then
// these three vectors repeat. The vector loop is therefore unrolled so that a step has whole rows: 3 vectors,
// which are 8 rows. The repeated row is one vector for each of them, which is computed before the loop. One
// element of each row, as in x[r, c] * scale[r], is loaded as one vector for the whole step, whose lanes are
// permuted: scale[0, 0, 0, 1, 1, 1, 2, 2] for the first vector.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The largest number of operations of a step, which bounds the time to compile.
constexpr int max_operations = 1000, function_operations = 25;

constexpr std::int64_t max_width = 16; // a row of 15 elements and one of padding

// The row or column, with an axis of one element, that a reshape repeats in narrow rows along the
// last axis of `domain`; null if `op` is something else.
const ir::Value* repeated_operand(const ir::Op& op, const std::vector<std::int64_t>& domain) {
  if (!op.is(Opcode::Reshape) || extents_of(op.result()->type) != domain) return nullptr;
  const ir::Value* rows = op.operand(0);
  if (!rows->def || !rows->def->is(Opcode::Broadcast)) return nullptr;
  const auto extents = extents_of(rows->type);
  if (extents.size() != domain.size() + 1 || !std::equal(domain.begin(), domain.end() - 1, extents.begin()))
    return nullptr;
  const ir::Value* repeated = rows->def->operand(0);
  const ir::Shape& shape = repeated->type.shape;
  if (shape.size() != extents.size()) return nullptr;
  return shape[shape.size() - 2].is_one() != shape.back().is_one() ? repeated : nullptr;
}

} // namespace

// The width of the narrow rows along the vector axis; 0 if it is not made of such rows, or not only of rows
// of one width.
int KernelEmitter::width_of_narrow_rows(const Nest& nest) const {
  const auto& domain = nest.domain;
  if (nest.flat || nest.vector_axis != static_cast<int>(domain.size()) - 1 || nest.lanes != nest.native_lanes)
    return 0;
  std::int64_t width = 0;
  bool one_width = true;
  int operations = 0;
  std::set<const ir::Value*> seen;
  auto visit = [&](auto&& self, const ir::Value* v) -> void {
    const bool lazy = v->type.is_tile() && v->def && (!plan_.has_buffer(v) || nest.being_filled.count(v));
    if (!lazy || !seen.insert(v).second) return;
    operations += has_long_latency(*v->def) ? function_operations : 1;
    if (repeated_operand(*v->def, domain) || load_of_rows(*v->def, domain)) {
      const std::int64_t here = v->def->operand(0)->type.shape.back().value();
      one_width &= width == 0 || width == here;
      width = here;
    } else if (ir::is_elementwise(v->def->code)) {
      for (const ir::Value* operand : v->def->operands)
        self(self, operand);
    }
  };
  for (const Root& root : nest.roots) {
    if (root.carries_values() || root.kind == Root::Kind::Update) return 0;
    if (root.kind == Root::Kind::Store && root.op->mask()) visit(visit, root.op->mask());
    if (root.stored_from) continue;
    visit(visit, root.kind == Root::Kind::Fill ? root.value : root.op->stored_value());
  }
  if (!one_width || width < 2 || width > max_width || nest.lanes < 4) return 0;
  const std::int64_t step = std::lcm<std::int64_t>(width, nest.lanes);
  return domain.back() % step == 0 && step / nest.lanes * operations <= max_operations
             ? static_cast<int>(width)
             : 0;
}

// Evaluates the current vector of a repeated row or column; null if `op` is something else, or the vector is
// not in the fast part of the loop.
Value* KernelEmitter::narrow_rows(Nest& nest, const ir::Op& op, const Indices& at) {
  if (nest.guarded || nest.narrow == 0 || nest.lanes != nest.loop_lanes || !at.back().linear ||
      !at.back().direct)
    return nullptr;
  const ir::Value* repeated = repeated_operand(op, nest.domain);
  if (!repeated) return rows_apart(nest, op, at);
  Indices inside = at;
  inside.push_back(Index{b_.getInt64(0)});
  for (std::size_t a = 0; a + 2 < inside.size(); ++a)
    if (repeated->type.shape[a].is_one()) inside[a] = Index{b_.getInt64(0)};
  inside[at.size() - 1] = Index{b_.getInt64(0)};
  return repeated->type.shape.back().is_one() ? repeated_column(nest, repeated, inside)
                                              : repeated_row(nest, repeated, inside);
}

// The row, shifted to begin with the column of the current vector's first element.
Value* KernelEmitter::repeated_row(Nest& nest, const ir::Value* row, const Indices& at) {
  Indices column = at;
  Values elements;
  for (int c = 0; c < nest.narrow; ++c) {
    column.back() = Index{b_.getInt64(static_cast<std::uint64_t>(c))};
    elements.push_back(element(nest, row, column));
  }
  const int first = static_cast<int>(nest.phase % nest.narrow);
  const bool constant = nest.hoist_point && depth_of(at) < nest.hoist_depth;
  Nest::Key key = key_of(row, at, -1 - first);
  key.lanes = -1 - first; // negative, so that it is no key of an element
  if (const auto known = nest.hoisted.find(key); constant && known != nest.hoisted.end())
    return known->second;
  IRBuilder::InsertPointGuard keep(b_);
  if (constant) b_.SetInsertPoint(nest.hoist_point);
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(nest.narrow)));
  Value* once = llvm::PoisonValue::get(lanes_type(elements[0]->getType(), lanes));
  for (std::size_t c = 0; c < elements.size(); ++c)
    once = b_.CreateInsertElement(once, elements[c], c);
  std::vector<int> order;
  for (int l = 0; l < nest.lanes; ++l)
    order.push_back((first + l) % nest.narrow);
  Value* v = b_.CreateShuffleVector(once, order);
  return constant ? nest.hoisted[key] = v : v;
}

// The elements of the current vector's rows, each repeated for all elements of its row.
Value* KernelEmitter::repeated_column(Nest& nest, const ir::Value* column, const Indices& at) {
  Value*& all = nest.columns[column]; // of all rows of the step
  if (!all) {
    Indices rows = at;
    Value* first = b_.CreateExactSDiv(nest.step, b_.getInt64(static_cast<std::uint64_t>(nest.narrow)));
    rows[at.size() - 2] = Index{first, true, nullptr, nest.hoist_depth, false, nest.narrow};
    const int lanes = std::exchange(nest.lanes, nest.unroll * nest.lanes / nest.narrow);
    if (nest.lanes == 1) rows[at.size() - 2].linear = false;
    Value* v = element(nest, column, rows);
    all = widen(b_, v, nest.lanes);
    nest.lanes = lanes;
  }
  if (!is_vector(all)) return all;
  std::vector<int> order;
  for (int l = 0; l < nest.lanes; ++l)
    order.push_back(static_cast<int>((nest.phase + l) / nest.narrow));
  return b_.CreateShuffleVector(all, order);
}

} // namespace kiln::cpu
