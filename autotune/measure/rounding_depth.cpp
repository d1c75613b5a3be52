// Implements the length of chains of rounding operations, from operation to operation.
#include <kiln/autotune/measure/rounding_depth.h>

#include <kiln/jit/passes/control_flow_values.h>

#include <algorithm>
#include <unordered_map>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::OpClass;
using ir::Opcode;
using ir::Value;

constexpr int many = 2;

bool has_floats(const Op& op) {
  return std::any_of(op.results.begin(), op.results.end(),
                     [](const auto& result) { return is_float(result->type.dtype); });
}

// How much an operation adds to the chain of its operands.
int roundings_of(const Op& op) {
  if (op.is(Opcode::AtomicRmw))
    return is_float(op.stored_value()->type.dtype) && op.text("kind") == "add" ? many : 0;
  if (!has_floats(op)) return 0;
  switch (op.code) {
  case Opcode::Neg:
  case Opcode::Abs:
  case Opcode::Floor:
  case Opcode::Ceil:
  case Opcode::Trunc:
  case Opcode::Round:
  case Opcode::Min:
  case Opcode::Max:
  case Opcode::MinNan:
  case Opcode::MaxNan: return 0;
  case Opcode::Add:
  case Opcode::Sub:
  case Opcode::Mul:
  case Opcode::Sqrt: return 1;
  case Opcode::Reduce:
  case Opcode::Scan: {
    int inner = 0;
    for (const auto& region : op.regions)
      ir::walk(*region, [&](const Op& each) { inner = std::max(inner, roundings_of(each)); });
    return inner > 0 ? many : 0;
  }
  default:
    switch (op.info().cls) {
    case OpClass::Unary:
    case OpClass::Binary:
    case OpClass::Ternary:
    case OpClass::Dot: return many;
    default: return 0;
    }
  }
}

class Depths {
public:
  explicit Depths(const ir::Kernel& kernel) {
    bool changed;
    do { // loops lead back
      changed = false;
      ir::walk(kernel.body, [&](const Op& op) {
        passes::each_control_flow(
            op, [&](const Value* from, const Value* to) { changed |= raise(to, of(from)); });
        int depth = 0;
        for (const Value* operand : op.operands)
          depth = std::max(depth, of(operand));
        depth = std::min(many, depth + roundings_of(op));
        most_ = std::max(most_, depth);
        if (op.info().cls != OpClass::Control)
          for (const auto& result : op.results)
            changed |= raise(result.get(), depth);
      });
    } while (changed);
  }
  int most() const { return most_; }

private:
  int of(const Value* v) const {
    const auto found = depths_.find(v);
    return found == depths_.end() ? 0 : found->second;
  }
  bool raise(const Value* v, int depth) {
    int& kept = depths_[v];
    if (depth <= kept) return false;
    kept = depth;
    return true;
  }

  std::unordered_map<const Value*, int> depths_;
  int most_ = 0;
};

} // namespace

int rounding_depth(const ir::Kernel& kernel) { return Depths(kernel).most(); }

} // namespace kiln::tune
