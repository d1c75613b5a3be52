// Adds up the prices of a kernel's operations.
#include <kiln/jit/runtime/cpu/program_cost.h>

#include <kiln/dsl/ir/arguments.h>

#include <cmath>
#include <limits>
#include <optional>

namespace kiln {

using ir::Opcode;

class CostModel::Estimator {
public:
  Estimator(const ir::Kernel& kernel, CostModel& into)
      : layout_(ir::ArgumentLayout::of(kernel)), into_(into) {}

  // Adds the operations of a region that runs `times` times.
  void add(const ir::Region& region, double times) {
    for (const auto& op : region.ops) {
      double inner = times;
      if (op->is(Opcode::For)) {
        if (add_loop(*op, times)) continue;
        inner = std::numeric_limits<double>::infinity();
      } else if (op->is(Opcode::While)) {
        inner = std::numeric_limits<double>::infinity();
      } else if (op->is(Opcode::Reduce) || op->is(Opcode::Scan)) {
        inner = times * elements(*op->operand(0));
      }
      if (double ns = price(*op); ns > 0) into_.fixed_ns_ += times * ns;
      for (const auto& body : op->regions)
        add(*body, inner);
    }
  }

private:
  static double elements(const ir::Value& v) {
    return v.type.is_view() ? 1 : static_cast<double>(v.type.numel());
  }

  static double price(const ir::Op& op) {
    double n = op.num_results() ? elements(*op.result()) : 1;
    for (const ir::Value* v : op.operands)
      n = std::max(n, elements(*v));
    switch (op.code) {
    case Opcode::Dot: {
      const ir::Shape& a = op.operand(0)->type.shape;
      return 0.03 * elements(*op.result()) * static_cast<double>(a.back().value());
    }
    case Opcode::ViewLoad:
    case Opcode::ViewStore: return 10 + 0.3 * n;
    case Opcode::Load:
    case Opcode::Store:
    case Opcode::ViewGather:
    case Opcode::ViewScatter: return 10 + n;
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas: return 10 * n;
    case Opcode::Gather:
    case Opcode::Histogram: return 10 + n;
    case Opcode::Sort: {
      const auto axis = static_cast<std::size_t>(op.integer("axis"));
      const double rounds = std::log2(static_cast<double>(op.operand(0)->type.shape[axis].value())) + 1;
      return 10 + 0.1 * n * rounds * rounds;
    }
    case Opcode::DevicePrint:
    case Opcode::DeviceAssert: return 1000 + n;
    default: break;
    }
    if (op.info().cls == ir::OpClass::Shape || op.info().cls == ir::OpClass::Source) return 0;
    if (op.info().cls == ir::OpClass::Unary) return 0.5 * n; // a math function is the most expensive case
    return 0.1 * n;
  }

  static std::optional<std::int64_t> constant(const ir::Value* v) {
    if (!v->def || !v->def->is(Opcode::Constant)) return std::nullopt;
    return v->def->integer("value");
  }

  // A loop from a constant to a constant or an argument.
  bool add_loop(const ir::Op& op, double times) {
    auto lower = constant(op.operand(0)), step = constant(op.operand(2));
    if (!lower || !step || *step <= 0) return false;
    if (auto upper = constant(op.operand(1))) {
      add(*op.region(),
          times * static_cast<double>(std::max<std::int64_t>(0, (*upper - *lower) / *step + 1)));
      return true;
    }
    auto extent = layout_.word_of(op.operand(1));
    if (!extent) return false;
    CostModel body;
    CostModel& outer = into_;
    Estimator(*this, body).add(*op.region(), times);
    outer.fixed_ns_ += body.fixed_ns_;
    outer.terms_.push_back({*extent, body.fixed_ns_ / static_cast<double>(*step)});
    // The inner loop's trip count is not constant, and may differ in each iteration of the outer one.
    if (!body.terms_.empty()) outer.fixed_ns_ = std::numeric_limits<double>::infinity();
    return true;
  }

  Estimator(const Estimator& outer, CostModel& into) : layout_(outer.layout_), into_(into) {}

  ir::ArgumentLayout layout_;
  CostModel& into_;
};

CostModel CostModel::of(const ir::Kernel& kernel) {
  CostModel model;
  Estimator(kernel, model).add(kernel.body, 1);
  return model;
}

} // namespace kiln
