// Follows the old values of atomics to the addresses of stores.
#include <kiln/autotune/measure/appended.h>

#include <kiln/jit/passes/control_flow_values.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

bool is_atomic(const Op& op) { return op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas); }
bool refers_to_memory(const Value* v) { return v->type.is_view() || v->type.pointer; }

// Whether two values are computed by the same operations from the same values.
bool same(const Value* a, const Value* b) {
  if (a == b) return true;
  const Op *p = a->def, *q = b->def;
  if (!p || !q || p->code != q->code || p->attributes() != q->attributes() ||
      p->operands.size() != q->operands.size() || !p->regions.empty() || ir::may_read(*p) ||
      ir::may_write(*p) || a->type != b->type)
    return false;
  for (std::size_t i = 0; i < p->operands.size(); ++i)
    if (!same(p->operands[i], q->operands[i])) return false;
  return true;
}

class Places {
public:
  explicit Places(const ir::Kernel& kernel) : kernel_(kernel) {}

  std::vector<Append> run() {
    do {
      changed_ = false;
      ir::walk(kernel_.body, [&](const Op& op) { follow(op); });
    } while (changed_);
    ir::walk(kernel_.body, [&](const Op& op) { look_at_store(op); });
    return grouped();
  }

private:
  using Atomics = std::set<const Op*>;
  // The stores of one kind to a parameter. Without an index, the axis is not known.
  struct Found {
    Atomics atomics;
    int axis = -1;
    const Value* index = nullptr;
  };

  const Atomics& atomics_of(const Value* v) { return from_[v]; }
  void flow(const Value* from, const Value* to) {
    const Atomics source = from_[from];
    for (const Op* atomic : source)
      changed_ |= from_[to].insert(atomic).second;
  }

  void follow(const Op& op) {
    if (is_atomic(op)) changed_ |= from_[op.result()].insert(&op).second;
    const auto flows = [this](const Value* from, const Value* to) { flow(from, to); };
    if (passes::each_control_flow(op, flows)) return;
    for (const Value* operand : op.operands)
      for (const auto& result : op.results)
        flow(operand, result.get());
  }

  // The atomics on which the place depends, and the stored value does not.
  Atomics placing(const Op& store, const Value* place) {
    Atomics found = atomics_of(place);
    for (const Op* atomic : atomics_of(store.stored_value()))
      found.erase(atomic);
    return found;
  }

  void look_at_store(const Op& op) {
    if (op.is(Opcode::Store)) return note(op.operand(0), {placing(op, op.operand(0)), -1, nullptr});
    if (!op.is(Opcode::ViewStore) && !op.is(Opcode::ViewScatter)) return;
    Found found{placing(op, op.operand(0)), -1, nullptr};
    bool known = found.atomics.empty(); // the view itself has its place from an atomic otherwise
    const std::span<Value* const> offsets = op.view_offsets();
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      const Atomics here = placing(op, offsets[axis]);
      if (here.empty()) continue;
      known &= found.axis < 0 && is_parameter(op.operand(0));
      found.axis = static_cast<int>(axis);
      found.index = offsets[axis];
      found.atomics.insert(here.begin(), here.end());
    }
    if (!known) found.axis = -1, found.index = nullptr;
    note(op.operand(0), found);
  }

  bool is_parameter(const Value* v) const { return !v->def && v->region == &kernel_.body; }

  void note(const Value* pointer, const Found& found) {
    if (found.atomics.empty()) return;
    std::unordered_set<const Value*> seen;
    mark(pointer, found, seen);
  }

  // Notes the parameters that a pointer comes from; all of them if it is carried by a loop.
  void mark(const Value* pointer, const Found& found, std::unordered_set<const Value*>& seen) {
    if (!refers_to_memory(pointer) || !seen.insert(pointer).second) return;
    for (std::size_t i = 0; i < kernel_.body.args.size(); ++i)
      if (kernel_.body.args[i].get() == pointer) return add(i, found);
    if (!pointer->def || !pointer->def->regions.empty()) {
      for (std::size_t i = 0; i < kernel_.body.args.size(); ++i)
        if (refers_to_memory(kernel_.body.args[i].get())) add(i, {found.atomics, -1, nullptr});
      return;
    }
    for (const Value* operand : pointer->def->operands)
      mark(operand, found, seen);
  }

  void add(std::size_t parameter, const Found& found) {
    const auto [at, is_new] = found_.try_emplace(parameter, found);
    if (is_new) return;
    Found& known = at->second;
    const bool agree = known.atomics == found.atomics && known.axis == found.axis && known.index &&
                       found.index && same(known.index, found.index);
    known.atomics.insert(found.atomics.begin(), found.atomics.end());
    if (!agree) known.axis = -1, known.index = nullptr;
  }

  std::vector<Append> grouped() const {
    std::vector<Append> appends;
    std::vector<const Found*> founds;
    for (const auto& [parameter, found] : found_) {
      Append a{static_cast<int>(parameter), found.axis, static_cast<int>(parameter)};
      for (std::size_t i = 0; i < founds.size() && found.index; ++i)
        if (founds[i]->index && founds[i]->atomics == found.atomics && same(founds[i]->index, found.index)) {
          a.group = appends[i].group;
          break;
        }
      appends.push_back(a);
      founds.push_back(&found);
    }
    return appends;
  }

  const ir::Kernel& kernel_;
  std::unordered_map<const Value*, Atomics> from_; // the atomics that each value depends on
  std::map<std::size_t, Found> found_;             // by parameter
  bool changed_ = false;
};

} // namespace

std::vector<Append> appends_of(const ir::Kernel& kernel) { return Places(kernel).run(); }

} // namespace kiln::tune
