// Propagates needed extents from the last operation to the first, repeatedly until nothing changes.
#include <kiln/jit/cpu/facts/needed_extents.h>

#include <kiln/jit/passes/axes.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::size_t most_stores = 8; // per tile; more are not worth comparing at run time

} // namespace

NeededExtents::NeededExtents(const ir::Kernel& bound) {
  std::vector<const Op*> ops;
  ir::walk(bound.body, [&](const Op& op) {
    ops.push_back(&op);
    for (const auto& result : op.results)
      add_tile(result.get());
    for (const auto& region : op.regions)
      for (const auto& arg : region->args)
        add_tile(arg.get());
  });
  do {
    changed_ = false;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      visit(**op);
  } while (changed_);
}

const std::vector<StoredAxis>& NeededExtents::stores(const Value* tile, std::size_t axis) const {
  static const std::vector<StoredAxis> none;
  const auto at = needs_.find(tile);
  return at == needs_.end() || at->second[axis].all ? none : at->second[axis].stores;
}

void NeededExtents::add_tile(const Value* v) {
  if (v->type.is_tile()) needs_.try_emplace(v, v->type.shape.size());
}

void NeededExtents::need(const Value* v, std::size_t axis, const Needs& more) {
  Needs& needs = needs_.at(v)[axis];
  if (needs.all) return;
  for (const StoredAxis& s : more.stores) {
    if (std::find(needs.stores.begin(), needs.stores.end(), s) != needs.stores.end()) continue;
    needs.stores.push_back(s);
    changed_ = true;
  }
  if (!more.all && needs.stores.size() <= most_stores) return;
  needs = {true, {}};
  changed_ = true;
}

void NeededExtents::need_all(const Value* v) {
  if (!v->type.is_tile()) return;
  for (std::size_t axis = 0; axis < v->type.shape.size(); ++axis)
    need(v, axis, {true, {}});
}

void NeededExtents::need_like(const Value* v, const Value* like) {
  if (!v->type.is_tile()) return;
  for (std::size_t axis = 0; axis < v->type.shape.size(); ++axis)
    need(v, axis, Needs(needs_.at(like)[axis]));
}

void NeededExtents::visit(const Op& op) {
  switch (op.code) {
  case Opcode::Yield: return; // part of the operation that it ends
  case Opcode::Dot: return visit_dot(op);
  case Opcode::Reduce:
  case Opcode::Scan: return visit_along(op);
  case Opcode::For:
  case Opcode::While:
  case Opcode::If: return visit_loop(op);
  default: break;
  }
  if (passes::maps_axes(op)) return visit_moved(op);
  const bool elementwise = ir::is_elementwise(op.code) && op.result()->type.is_tile();
  for (const Value* v : op.operands) {
    if (elementwise && v->type.is_tile())
      need_like(v, op.result());
    else if (!(op.is(Opcode::ViewStore) && v == op.stored_value()))
      need_all(v);
  }
  if (!op.is(Opcode::ViewStore) || !op.stored_value()->type.is_tile()) return;
  for (std::size_t axis = 0; axis < op.stored_value()->type.shape.size(); ++axis)
    need(op.stored_value(), axis, {false, {{&op, axis}}});
}

// An axis of the operand without a counterpart in the result has extent 1, and is needed.
void NeededExtents::visit_moved(const Op& op) {
  const Value *from = op.operand(0), *to = op.result();
  std::vector<bool> moved(from->type.shape.size());
  for (std::size_t axis = 0; axis < to->type.shape.size(); ++axis) {
    const int at = passes::operand_axis(op, static_cast<int>(axis));
    if (at < 0) continue;
    moved[static_cast<std::size_t>(at)] = true;
    need(from, static_cast<std::size_t>(at), Needs(needs_.at(to)[axis]));
  }
  for (std::size_t axis = 0; axis < moved.size(); ++axis)
    if (!moved[axis]) need(from, axis, {true, {}});
}

// A dot needs all of K. Of the rows of a, the columns of b and the matrices of a batch, it needs those that
// its result needs.
void NeededExtents::visit_dot(const Op& op) {
  const Value* result = op.result();
  const std::size_t rank = result->type.shape.size();
  for (int k = 0; k < 2; ++k) {
    const std::size_t along_k = k == 0 ? rank - 1 : rank - 2;
    for (std::size_t axis = 0; axis < rank; ++axis)
      need(op.operand(k), axis, axis == along_k ? Needs{true, {}} : Needs(needs_.at(result)[axis]));
  }
  if (op.num_operands() == 3) need_like(op.operand(2), result);
}

// Reductions and scans need all elements along their axis. Along other axes they need what any result needs.
void NeededExtents::visit_along(const Op& op) {
  const auto along = static_cast<std::size_t>(op.integer("axis"));
  for (const Value* v : op.operands) {
    need(v, along, {true, {}});
    for (const auto& result : op.results) {
      if (!result->type.is_tile()) continue;
      for (std::size_t axis = 0; axis < v->type.shape.size(); ++axis)
        if (axis != along)
          need(v, axis, Needs(needs_.at(result.get())[axis - (op.is(Opcode::Reduce) && axis > along)]));
    }
  }
}

// Initial values, and values that a region yields, are needed where arguments of the regions or results are.
void NeededExtents::visit_loop(const Op& op) {
  const int results = op.num_results();
  for (int i = 0; i < results; ++i) {
    const Value* result = op.result(i);
    if (!result->type.is_tile()) continue;
    std::vector<const Value*> readers{result}, written;
    for (const auto& region : op.regions) {
      if (!op.is(Opcode::If))
        readers.push_back(region->args[region->args.size() - static_cast<std::size_t>(results - i)].get());
      const bool test = op.is(Opcode::While) && region == op.regions.front();
      if (!test) written.push_back(region->terminator()->operand(i));
    }
    if (!op.is(Opcode::If)) written.push_back(op.operand(op.num_operands() - results + i));
    for (const Value* v : written)
      for (const Value* reader : readers)
        need_like(v, reader);
  }
}

} // namespace kiln::cpu
