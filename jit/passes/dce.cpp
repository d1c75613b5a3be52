// dce: removes operations, carried values of loops and results of branches that are not needed.
//
//  1. Writes, atomics, output and checks are needed, and so is every operation around them.
//  2. The operands of a needed operation are needed. Of a loop these are its bounds or its condition, and of
//     a branch its condition.
//  3. A carried value is needed if its result, or its argument inside the loop, is needed. It then needs its
//     initial value and the value that the loop yields for it. A value that only computes itself is therefore
//     removed.
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <unordered_set>

namespace kiln::passes {

namespace {

using namespace ir;

bool is_root(const Op& op) {
  Effect effect = op.info().effect;
  return effect == Effect::Write || effect == Effect::ReadWrite || effect == Effect::Debug;
}
bool is_structured(const Op& op) { return op.is(Opcode::For) || op.is(Opcode::While) || op.is(Opcode::If); }

class DeadCode {
public:
  explicit DeadCode(Kernel& kernel) {
    std::vector<const Op*> roots;
    find_roots(kernel.body, nullptr, roots);
    for (const Op* op : roots)
      need(op);
    while (!work_.empty()) {
      const Value* v = work_.back();
      work_.pop_back();
      follow(v);
    }
    sweep(kernel.body);
  }

private:
  void find_roots(const Region& region, const Op* parent, std::vector<const Op*>& roots) {
    for (const auto& op : region.ops) {
      if (parent) parent_[op.get()] = parent;
      if (is_root(*op)) roots.push_back(op.get());
      for (const auto& inner : op->regions)
        find_roots(*inner, op.get(), roots);
    }
  }

  void need(const Value* v) {
    if (values_.insert(v).second) work_.push_back(v);
  }
  void need(const Op* op) {
    if (!ops_.insert(op).second) return;
    if (auto at = parent_.find(op); at != parent_.end()) need(at->second);
    switch (op->code) {
    case Opcode::For:
      for (int i = 0; i < 3; ++i)
        need(op->operand(i));
      break;
    case Opcode::While: need(op->region(0)->terminator()->operand(0)); break;
    case Opcode::If: need(op->operand(0)); break;
    default:
      for (const Value* v : op->operands)
        need(v);
      for (const auto& region : op->regions) // a combine
        for (const Value* v : region->terminator()->operands)
          need(v);
    }
  }

  // Rule 3: marks all values that carry the same value as `v`.
  void follow(const Value* v) {
    const Op* op = v->def;
    int index = v->index;
    if (op) {
      need(op);
    } else if (v->region->parent) {
      op = v->region->parent;
      if (op->is(Opcode::For) && --index < 0) return; // the index
    } else {
      return;
    }
    switch (op->code) {
    case Opcode::For:
      need(op->result(index));
      need(op->operand(3 + index));
      need(op->region()->terminator()->operand(index));
      break;
    case Opcode::While:
      need(op->result(index));
      need(op->operand(index));
      need(op->region(1)->terminator()->operand(index));
      break;
    case Opcode::If:
      for (const auto& region : op->regions)
        need(region->terminator()->operand(index));
      break;
    default: break;
    }
  }

  void sweep(Region& region) {
    std::erase_if(region.ops,
                  [&](const auto& op) { return !op->is(Opcode::Yield) && !ops_.contains(op.get()); });
    for (auto& op : region.ops) {
      if (is_structured(*op)) drop_results(*op);
      for (auto& inner : op->regions)
        sweep(*inner);
    }
  }

  // Removes entry first + i of `list` for each i that is not kept.
  template <class List> static void filter(List& list, const std::vector<bool>& kept, std::size_t first) {
    std::size_t to = first;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) list[to++] = std::move(list[first + i]);
    list.resize(to);
  }
  static void renumber(std::vector<std::unique_ptr<Value>>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i]->index = static_cast<int>(i);
  }

  void drop_results(Op& op) {
    std::vector<bool> kept;
    for (const auto& r : op.results)
      kept.push_back(values_.contains(r.get()));
    if (std::find(kept.begin(), kept.end(), false) == kept.end()) return;
    filter(op.results, kept, 0);
    renumber(op.results);
    if (!op.is(Opcode::If)) filter(op.operands, kept, op.is(Opcode::For) ? 3 : 0);
    for (auto& region : op.regions) {
      bool is_condition = op.is(Opcode::While) && region == op.regions[0];
      if (!op.is(Opcode::If)) filter(region->args, kept, op.is(Opcode::For) ? 1 : 0);
      renumber(region->args);
      if (!is_condition) filter(region->terminator()->operands, kept, 0);
    }
  }

  std::unordered_map<const Op*, const Op*> parent_;
  std::unordered_set<const Op*> ops_;
  std::unordered_set<const Value*> values_;
  std::vector<const Value*> work_;
};

} // namespace

void dce(Kernel& kernel, const PassOptions&) { DeadCode{kernel}; }

} // namespace kiln::passes
