// Implements rounding errors by inserting operations after those that round.
#include <kiln/autotune/measure/noise.h>

#include <kiln/autotune/measure/perturb.h>
#include <kiln/jit/passes/control_flow_values.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

bool rounds_as_a_function(const Op& op) {
  switch (op.code) {
  case Opcode::Exp:
  case Opcode::Exp2:
  case Opcode::Expm1:
  case Opcode::Log:
  case Opcode::Log2:
  case Opcode::Log1p:
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Tan:
  case Opcode::Tanh:
  case Opcode::Erf:
  case Opcode::Sigmoid:
  case Opcode::Gelu:
  case Opcode::Rsqrt:
  case Opcode::Pow:
  case Opcode::Atan2: return true;
  default: return false;
  }
}

bool adds(const Op* op) { return op && (op->is(Opcode::Add) || op->is(Opcode::Sub) || op->is(Opcode::Fma)); }
bool sums(const Op* op) { return adds(op) || (op && (op->is(Opcode::Mul) || op->is(Opcode::Dot))); }
bool combines(const Op& op) { return op.is(Opcode::Reduce) || op.is(Opcode::Scan); }
bool loops(const Op& op) { return op.is(Opcode::For) || op.is(Opcode::While); }
bool is_atomic_sum(const Op& op) {
  return op.is(Opcode::AtomicRmw) && op.text("kind") == "add" && is_float(op.stored_value()->type.dtype);
}

bool contains(const Op& op, Opcode code) {
  bool found = false;
  for (const auto& region : op.regions)
    ir::walk(*region, [&](const Op& inner) { found |= inner.is(code); });
  return found;
}

// Whether a result of an operation depends on the order in which it adds or on how a function is computed.
// Maxima do not, and comparisons with them must stay exact.
bool rounds(const Op& op, std::size_t result, bool in_product) {
  if (rounds_as_a_function(op)) return true;
  if (op.is(Opcode::Dot)) return !in_product;
  if (!combines(op) && !loops(op)) return false;
  const Op* yield = op.regions.back()->terminator();
  return yield && result < yield->operands.size() && sums(yield->operands[result]->def);
}

// Finds values that are whole numbers whatever the inputs are: constants, converted integers, and what is
// selected, added and multiplied from these.
class WholeNumbers {
public:
  explicit WholeNumbers(const ir::Kernel& kernel) {
    ir::walk(kernel.body, [&](const Op& op) {
      passes::each_control_flow(op, [&](const Value* from, const Value* to) { carried_[to].insert(from); });
    });
    // All values count as whole until an operation says that its result is not, since loops lead back.
    std::size_t before;
    do {
      before = broken_.size();
      ir::walk(kernel.body, [this](const Op& op) {
        for (const auto& result : op.results)
          look_at(result.get());
        for (const auto& region : op.regions)
          for (const auto& arg : region->args)
            look_at(arg.get());
      });
    } while (broken_.size() != before);
  }

  bool contain(const Value* v) const {
    return !broken_.count(v) && (!v->region || v->region->parent); // parameters do not count
  }
  // Notes that `v` has been replaced.
  void replace(const Value* v, const Value* by) {
    if (!contain(v)) broken_.insert(by);
  }

private:
  void look_at(const Value* v) {
    if (!is_whole(v)) broken_.insert(v);
  }
  bool is_whole(const Value* v) const {
    if (v->type.pointer || v->type.is_view()) return false;
    if (!is_float(v->type.dtype)) return true;
    if (const auto from = carried_.find(v); from != carried_.end())
      return std::all_of(from->second.begin(), from->second.end(),
                         [this](const Value* each) { return contain(each); });
    if (!v->def) return v->region->parent && (combines(*v->region->parent)); // its operands are looked at
    const Op& op = *v->def;
    switch (op.code) {
    case Opcode::Constant: {
      const ir::Attribute* value = op.find("value");
      const double* number = value ? std::get_if<double>(value) : nullptr;
      return number && std::trunc(*number) == *number;
    }
    case Opcode::Round:
    case Opcode::Floor:
    case Opcode::Ceil:
    case Opcode::Trunc: return true;
    case Opcode::Cast: return contain(op.operand(0));
    case Opcode::Select: return contain(op.operand(1)) && contain(op.operand(2));
    case Opcode::Reduce:
    case Opcode::Scan:
      for (const auto& inner : op.region()->ops)
        if (!inner->is(Opcode::Yield) && !keeps_whole(*inner)) return false;
      break;
    default:
      if (!keeps_whole(op)) return false;
    }
    return std::all_of(op.operands.begin(), op.operands.end(),
                       [this](const Value* operand) { return contain(operand); });
  }

  static bool keeps_whole(const Op& op) {
    switch (op.code) {
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Fma:
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::Neg:
    case Opcode::Abs:
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Squeeze:
    case Opcode::Permute:
    case Opcode::Reshape: return true;
    default: return false;
    }
  }

  std::unordered_map<const Value*, std::unordered_set<const Value*>> carried_;
  std::unordered_set<const Value*> broken_;
};

class Noise {
public:
  Noise(ir::Kernel& kernel, const Config& config, double atomic_terms)
      : builder_(&kernel.body), whole_(kernel), config_(config), atomic_terms_(atomic_terms) {
    visit(kernel.body, nullptr);
  }

private:
  struct Loop { // the innermost loop around an operation
    bool has_products = false;
    bool is_counted = true; // an error could keep a loop with a condition from ending
    double added = 1;       // the number of elements that it adds to a carried sum in each iteration
  };

  void visit(Region& region, const Loop* loop) {
    std::vector<std::unique_ptr<Op>> ops = std::move(region.ops);
    region.ops.clear();
    for (std::unique_ptr<Op>& owned : ops) {
      Op& op = *owned;
      for (Value*& operand : op.operands)
        if (const auto found = noisy_.find(operand); found != noisy_.end()) operand = found->second;
      if (loops(op)) {
        Loop inside{contains(op, Opcode::Dot) || (loop && loop->has_products), op.is(Opcode::For),
                    extent_in(op)};
        for (const auto& inner : op.regions)
          visit(*inner, &inside);
      } else if (!combines(op)) {
        for (const auto& inner : op.regions)
          visit(*inner, loop);
      }
      builder_.set_region(&region);
      builder_.set_location(op.loc);
      disturb_operands(op, loop);
      region.ops.push_back(std::move(owned));
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        Value* v = op.results[i].get();
        if (can_disturb(v) && rounds(op, i, loop && loop->has_products))
          noisy_[v] = disturbed(v, combines(op) ? units_of(extent_of(op)) : 1);
      }
    }
  }

  void disturb_operands(Op& op, const Loop* loop) {
    if (combines(op))
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (can_disturb(op.operands[i]) && rounds(op, i, false))
          op.operands[i] = disturbed(op.operands[i], units_of(extent_of(op)));
    if (is_atomic_sum(op) && can_disturb(op.stored_value()))
      op.operands[1] = disturbed(op.stored_value(), units_of(atomic_terms_));
    // What a branch yields is not carried.
    const bool carries = op.is(Opcode::Yield) && loop && !loop->has_products && loop->is_counted &&
                         builder_.region()->parent && loops(*builder_.region()->parent);
    if (carries)
      for (Value*& operand : op.operands)
        if (can_disturb(operand) && adds(operand->def)) operand = disturbed(operand, units_of(loop->added));
  }

  static bool can_disturb(const Value* v) {
    return is_float(v->type.dtype) && size_of(v->type.dtype) > 1 && !v->type.pointer && !v->type.is_view();
  }
  // The rounding errors of a sum of so many terms; see noise.h.
  static double units_of(double terms) { return std::max(1.0, std::round(std::sqrt(terms) / 2)); }
  double extent_of(const Op& op) const {
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    return static_cast<double>(op.operand(0)->type.shape[axis].bind(config_));
  }
  double extent_in(const Op& loop) const {
    double most = 1;
    for (const auto& region : loop.regions)
      ir::walk(*region, [&](const Op& op) {
        if (op.is(Opcode::Reduce)) most = std::max(most, extent_of(op));
      });
    return most;
  }

  Value* disturbed(Value* v, double units) {
    constexpr double most = 0.125;
    const DType t = v->type.dtype;
    const int bytes = size_of(t);
    const DType bits_type = bytes == 2 ? DType::I16 : bytes == 4 ? DType::I32 : DType::I64;
    const std::int64_t mixer = bytes == 2 ? 0x2C1B : bytes == 4 ? 0x2C1B3C6D : 0x9E3779B97F4A7C1;
    const auto constant = [&](DType type, auto value) {
      return builder_.splat(builder_.constant(type, value), v->type.shape);
    };
    const double error = std::min(most, units * spacing_of(t));
    Value* bits = builder_.create(Opcode::Bitcast, {v}, {v->type.with_dtype(bits_type)})->result();
    Value* mixed = builder_.binary(Opcode::Mul, bits, constant(bits_type, mixer));
    Value* up = builder_.binary(Opcode::Lt, mixed, constant(bits_type, std::int64_t{0}));
    Value* factor = builder_.select(up, constant(t, 1 + error), constant(t, 1 - error));
    if (whole_.contain(v)) {
      const double largest_exact = std::min(2 / spacing_of(t), t == DType::F16 ? 2048.0 : 1e300);
      Value* exact = builder_.binary(Opcode::Lt, builder_.unary(Opcode::Abs, v), constant(t, largest_exact));
      factor = builder_.select(exact, constant(t, 1.0), factor);
    }
    Value* result = builder_.binary(Opcode::Mul, v, factor);
    whole_.replace(v, result);
    return result;
  }

  ir::Builder builder_;
  ir::ValueMap noisy_;
  WholeNumbers whole_;
  const Config& config_;
  double atomic_terms_;
};

} // namespace

std::unique_ptr<ir::Kernel> with_noise(const ir::Kernel& recorded, const Config& config,
                                       double atomic_terms) {
  auto kernel = recorded.clone();
  Noise noise(*kernel, config, atomic_terms);
  return kernel;
}

bool has_products(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const Op& op) { found |= op.is(Opcode::Dot); });
  return found;
}

bool adds_floats_by_atomics(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const Op& op) { found |= is_atomic_sum(op); });
  return found;
}

} // namespace kiln::tune
