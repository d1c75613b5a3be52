// Derives upper bounds of non-negative scalars in one walk in program order.
#include <kiln/jit/passes/non_negative.h>

#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace kiln::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

using Bound = std::optional<std::int64_t>; // none: it may be negative

constexpr std::int64_t most_programs = std::numeric_limits<std::int32_t>::max();

std::int64_t largest(const ir::Type& type) {
  return std::numeric_limits<std::int64_t>::max() >> (64 - 8 * size_of(type.dtype));
}

class Analysis {
public:
  explicit Analysis(const ir::Kernel& kernel) { run(kernel.body); }
  NonNegativeScalars take() { return std::move(known_); }

private:
  void run(const ir::Region& region) {
    for (const auto& op : region.ops) {
      if (op->is(Opcode::For) && find(op->operand(0))) // lower, lower + step, ..., below upper
        known_[op->region()->args[0].get()] = largest(op->operand(0)->type);
      for (const auto& inner : op->regions)
        run(*inner);
      if (op->num_results() != 1 || !is_signed_scalar(op->result()->type)) continue;
      if (Bound bound = of(*op)) known_[op->result()] = *bound;
    }
  }

  static bool is_signed_scalar(const ir::Type& type) {
    return type.is_scalar() && !type.pointer && is_integer(type.dtype) && is_signed(type.dtype);
  }

  Bound find(const Value* v) const {
    auto at = known_.find(v);
    return at == known_.end() ? Bound() : Bound(at->second);
  }

  // 0 if the value is no constant, or not positive.
  static std::int64_t positive_constant(const Value* v) {
    auto cell = constant_of(v);
    return cell ? std::max<std::int64_t>(0, static_cast<std::int64_t>(*cell)) : 0;
  }

  Bound of(const Op& op) const {
    const std::int64_t limit = largest(op.result()->type);
    if (auto cell = constant_of(op.result())) {
      const auto number = static_cast<std::int64_t>(*cell);
      return number >= 0 && number <= limit ? Bound(number) : Bound();
    }
    switch (op.code) {
    case Opcode::ProgramId: return most_programs - 1;
    case Opcode::NumPrograms: return most_programs;
    case Opcode::ViewExtent: {
      const Op* made = op.operand(0)->def; // the extents of a view of a pointer may be anything
      return made && made->is(Opcode::ViewOf) ? Bound() : Bound(limit);
    }
    case Opcode::Select: {
      const Bound x = find(op.operand(1)), y = find(op.operand(2));
      return x && y ? Bound(std::max(*x, *y)) : Bound();
    }
    case Opcode::Cast:
      if (op.operand(0)->type.dtype == DType::Bool) return 1;
      if (Bound x = find(op.operand(0)); x && *x <= limit) return x;
      return {};
    default: break;
    }
    if (op.num_operands() != 2) return {};
    const Bound x = find(op.operand(0)), y = find(op.operand(1));
    if (op.is(Opcode::Max) && (x || y)) return x && y ? std::max(*x, *y) : limit;
    if (op.is(Opcode::Rem) && x) { // the dividend's sign; the dividend itself if the divisor is zero
      const std::int64_t by = positive_constant(op.operand(1));
      return by ? std::min(*x, by - 1) : *x;
    }
    if (!x || !y) return {};
    std::int64_t result = 0;
    switch (op.code) {
    case Opcode::Add: // only if the bound shows that it does not wrap
      return !__builtin_add_overflow(*x, *y, &result) && result <= limit ? Bound(result) : Bound();
    case Opcode::Mul:
      return !__builtin_mul_overflow(*x, *y, &result) && result <= limit ? Bound(result) : Bound();
    case Opcode::Min: return std::min(*x, *y);
    case Opcode::Div: // division by zero gives zero
      return *x / std::max<std::int64_t>(1, positive_constant(op.operand(1)));
    default: return {};
    }
  }

  NonNegativeScalars known_;
};

} // namespace

NonNegativeScalars non_negative_scalars(const ir::Kernel& bound) { return Analysis(bound).take(); }

} // namespace kiln::passes
