// Implements rounding errors by inserting operations after those that round.
#include <kiln/autotune/measure/noise.h>

#include <cmath>
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

bool sums(const Op* op) {
  return op && (op->is(Opcode::Add) || op->is(Opcode::Sub) || op->is(Opcode::Mul) || op->is(Opcode::Fma) ||
                op->is(Opcode::Dot));
}

// Whether a result of an operation depends on the order in which it adds or on how a function is computed.
// Maxima do not, and comparisons with them must stay exact.
bool rounds(const Op& op, std::size_t result, bool in_loop) {
  if (rounds_as_a_function(op)) return true;
  if (op.is(Opcode::Dot)) return !in_loop;
  if (!op.is(Opcode::Reduce) && !op.is(Opcode::Scan) && !op.is(Opcode::For) && !op.is(Opcode::While))
    return false;
  const Op* yield = op.regions.back()->terminator();
  return yield && result < yield->operands.size() && sums(yield->operands[result]->def);
}

class Noise {
public:
  explicit Noise(Region* body) : builder_(body) { visit(*body, false); }

private:
  void visit(Region& region, bool in_loop) {
    std::vector<std::unique_ptr<Op>> ops = std::move(region.ops);
    region.ops.clear();
    for (std::unique_ptr<Op>& owned : ops) {
      Op& op = *owned;
      for (Value*& operand : op.operands)
        if (const auto found = noisy_.find(operand); found != noisy_.end()) operand = found->second;
      const bool combines = op.is(Opcode::Reduce) || op.is(Opcode::Scan);
      for (const auto& inner : op.regions)
        if (!combines) visit(*inner, in_loop || op.is(Opcode::For) || op.is(Opcode::While));
      region.ops.push_back(std::move(owned));
      builder_.set_region(&region);
      builder_.set_location(op.loc);
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        Value* v = op.results[i].get();
        const bool wide = v->type.dtype == DType::F32 || v->type.dtype == DType::F64;
        if (wide && !v->type.pointer && !v->type.is_view() && rounds(op, i, in_loop))
          noisy_[v] = disturbed(v);
      }
    }
  }

  Value* disturbed(Value* v) {
    const bool single = v->type.dtype == DType::F32;
    const DType bits_type = single ? DType::I32 : DType::I64;
    const double unit = std::ldexp(1.0, single ? -23 : -52);
    const auto constant = [&](DType t, auto value) {
      return builder_.splat(builder_.constant(t, value), v->type.shape);
    };
    Value* bits = builder_.create(Opcode::Bitcast, {v}, {v->type.with_dtype(bits_type)})->result();
    Value* mixed = builder_.binary(
        Opcode::Mul, bits,
        constant(bits_type, single ? std::int64_t{0x2C1B3C6D} : std::int64_t{0x9E3779B97F4A7C1}));
    Value* up = builder_.binary(Opcode::Lt, mixed, constant(bits_type, std::int64_t{0}));
    Value* factor = builder_.select(up, constant(v->type.dtype, 1 + unit), constant(v->type.dtype, 1 - unit));
    return builder_.binary(Opcode::Mul, v, factor);
  }

  ir::Builder builder_;
  ir::ValueMap noisy_;
};

} // namespace

std::unique_ptr<ir::Kernel> with_noise(const ir::Kernel& recorded) {
  auto kernel = recorded.clone();
  Noise noise(&kernel->body);
  return kernel;
}

} // namespace kiln::tune
