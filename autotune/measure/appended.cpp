// Follows the old values of atomics to the addresses of stores.
#include <kiln/autotune/measure/appended.h>

#include <kiln/jit/passes/control_flow_values.h>

#include <cstddef>
#include <functional>
#include <unordered_set>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

class Places {
public:
  explicit Places(const ir::Kernel& kernel) : kernel_(kernel), appended_(kernel.body.args.size()) {}

  std::vector<bool> run() {
    std::size_t before;
    do {
      before = from_atomics_.size();
      ir::walk(kernel_.body, [&](const Op& op) { follow(op); });
    } while (from_atomics_.size() != before);
    ir::walk(kernel_.body, [&](const Op& op) { look_at_store(op); });
    return appended_;
  }

private:
  bool depends(const Value* v) const { return from_atomics_.count(v) > 0; }
  void flow(const Value* from, const Value* to) {
    if (depends(from)) from_atomics_.insert(to);
  }

  void follow(const Op& op) {
    if (op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas)) from_atomics_.insert(op.result());
    const auto flows = [this](const Value* from, const Value* to) { flow(from, to); };
    if (passes::each_control_flow(op, flows)) return;
    for (const Value* operand : op.operands)
      for (const auto& result : op.results)
        flow(operand, result.get());
  }

  void look_at_store(const Op& op) {
    if (!op.is(Opcode::Store) && !op.is(Opcode::ViewStore) && !op.is(Opcode::ViewScatter)) return;
    bool placed = false;
    for (const Value* operand : op.operands)
      placed |= operand != op.stored_value() && operand != op.mask() && depends(operand);
    if (!placed) return;
    std::unordered_set<const Value*> seen;
    mark(op.operand(0), seen);
  }

  // Marks the parameters that a pointer comes from; all of them if it is carried by a loop.
  void mark(const Value* pointer, std::unordered_set<const Value*>& seen) {
    if (!(pointer->type.is_view() || pointer->type.pointer) || !seen.insert(pointer).second) return;
    for (std::size_t i = 0; i < appended_.size(); ++i)
      if (kernel_.body.args[i].get() == pointer) {
        appended_[i] = true;
        return;
      }
    if (!pointer->def || !pointer->def->regions.empty()) {
      appended_.assign(appended_.size(), true);
      return;
    }
    for (const Value* operand : pointer->def->operands)
      mark(operand, seen);
  }

  const ir::Kernel& kernel_;
  std::vector<bool> appended_;
  std::unordered_set<const Value*> from_atomics_;
};

} // namespace

std::vector<bool> appended_parameters(const ir::Kernel& kernel) { return Places(kernel).run(); }

} // namespace kiln::tune
