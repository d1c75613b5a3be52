// Finds how a kernel uses the memory behind each parameter: which parameters each pointer may come from is
// computed as a fixed point, because loops carry pointers.
#include <kiln/jit/passes/parameter_uses.h>

#include <kiln/jit/passes/control_flow_values.h>

#include <cstddef>
#include <unordered_map>

namespace kiln::passes {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

bool refers_to_memory(const Value& v) { return v.type.is_view() || v.type.pointer; }

class Uses {
public:
  explicit Uses(const ir::Kernel& kernel) : kernel_(kernel), uses_(kernel.body.args.size()) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      Parameters alone(uses_.size());
      alone[i] = refers_to_memory(*kernel.body.args[i]);
      if (alone[i]) origins_[kernel.body.args[i].get()] = std::move(alone);
    }
  }

  std::vector<ParameterUse> run() {
    do {
      changed_ = false;
      ir::walk(kernel_.body, [this](const Op& op) { follow(op); });
    } while (changed_);
    ir::walk(kernel_.body, [this](const Op& op) { use(op); });
    return std::move(uses_);
  }

private:
  using Parameters = std::vector<bool>; // those that a pointer may come from

  void add(const Value* to, const Parameters& more) {
    Parameters& known = origins_.try_emplace(to, uses_.size()).first->second;
    for (std::size_t i = 0; i < more.size(); ++i)
      if (more[i] && !known[i]) known[i] = changed_ = true;
  }
  void flow(const Value* from, const Value* to) {
    if (!refers_to_memory(*to)) return;
    if (const auto found = origins_.find(from); found != origins_.end()) add(to, Parameters(found->second));
  }

  void follow(const Op& op) {
    if (each_control_flow(op, [this](const Value* from, const Value* to) { flow(from, to); })) return;
    for (const auto& result : op.results) {
      if (!refers_to_memory(*result)) continue;
      bool derived = false;
      for (const Value* operand : op.operands) {
        derived |= refers_to_memory(*operand);
        flow(operand, result.get());
      }
      if (!derived) add(result.get(), Parameters(uses_.size(), true));
    }
  }

  void use(const Op& op) {
    const bool read = ir::may_read(op), written = ir::may_write(op);
    if (!(read || written) || !op.regions.empty()) return; // operations inside of regions are visited too
    const auto found = origins_.find(op.operand(0));
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (!refers_to_memory(*kernel_.body.args[i])) continue;
      if (found != origins_.end() && !found->second[i]) continue;
      uses_[i].read |= read;
      uses_[i].written |= written;
    }
  }

  const ir::Kernel& kernel_;
  std::vector<ParameterUse> uses_;
  std::unordered_map<const Value*, Parameters> origins_;
  bool changed_ = false;
};

} // namespace

std::vector<ParameterUse> parameter_uses(const ir::Kernel& kernel) { return Uses(kernel).run(); }

} // namespace kiln::passes
