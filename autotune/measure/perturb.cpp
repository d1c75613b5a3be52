// Implements the perturbation of inputs, on the bits of their floats.
#include <kiln/autotune/measure/perturb.h>

#include <kiln/dsl/float_bits.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::OpClass;
using ir::Opcode;

int mantissa_bits(DType dtype) {
  if (dtype == DType::F64) return 52;
  if (dtype == DType::F32) return 23;
  return small_float(dtype).mantissa_bits;
}

// The magnitudes, as integers, from which on the bits are an infinity or NaN.
std::uint64_t first_special(DType dtype) {
  if (dtype == DType::F64) return std::uint64_t{0x7FF} << 52;
  if (dtype == DType::F32) return std::uint64_t{0xFF} << 23;
  return small_float(dtype).first_special;
}

std::uint64_t mixed(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

template <class Bits>
void perturb_bits(std::span<unsigned char> bytes, DType dtype, double distance, Direction direction,
                  std::uint64_t seed, const std::vector<bool>& members) {
  const auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto special = static_cast<Bits>(first_special(dtype));
  const auto normal = static_cast<Bits>(Bits{1} << mantissa_bits(dtype)); // the least normal number
  const auto far = static_cast<Bits>(std::max(1.0, std::ldexp(distance, mantissa_bits(dtype))));
  const std::uint64_t stream = mixed(seed + 1);
  for (std::size_t i = 0; i + sizeof(Bits) <= bytes.size(); i += sizeof(Bits)) {
    if (!members.empty() && !members[i / sizeof(Bits)]) continue;
    Bits bits;
    std::memcpy(&bits, &bytes[i], sizeof bits);
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
    if (magnitude == 0 || magnitude >= special) continue;
    const Bits step = magnitude < normal ? Bits{1} : far;
    bool up = mixed(stream ^ i) >> 63;
    if (direction == Direction::inward && (up || magnitude <= step)) continue;
    if (magnitude <= step) up = true; // stays a number of the same sign
    if (static_cast<Bits>(special - magnitude) <= step) up = false;
    const auto moved = static_cast<Bits>(up ? magnitude + step : magnitude - step);
    bits = static_cast<Bits>((bits & sign) | moved);
    std::memcpy(&bytes[i], &bits, sizeof bits);
  }
}

bool is_store(const Op& op) {
  return op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter) || op.is(Opcode::Store);
}

} // namespace

double spacing_of(DType dtype) { return std::ldexp(1.0, -mantissa_bits(dtype)); }

double rounding_of(const ir::Kernel& kernel) {
  double rounding = rounding_inside(kernel);
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(kernel);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ir::Type& type = kernel.body.args[i]->type;
    const bool is_input = uses[i].read || (type.is_scalar() && !type.pointer);
    if (is_input && is_float(type.dtype)) rounding = std::max(rounding, spacing_of(type.dtype));
  }
  return rounding > 0 ? rounding : spacing_of(DType::F32);
}

double rounding_inside(const ir::Kernel& kernel) {
  double rounding = 0;
  std::unordered_map<const ir::Value*, bool> only_stored;
  ir::walk(kernel.body, [&](const Op& op) {
    for (const ir::Value* v : op.operands) {
      const bool stored = is_store(op) && v == op.stored_value();
      const auto [at, is_new] = only_stored.try_emplace(v, stored);
      if (!is_new) at->second &= stored;
    }
  });
  ir::walk(kernel.body, [&](const Op& op) {
    if (op.is(Opcode::Dot) && op.text("precision") == "tf32") rounding = std::max(rounding, 0x1p-10);
    // Sums round inside too, wherever their results go.
    const OpClass kind = op.info().cls;
    const ir::Type* sum = op.is(Opcode::AtomicRmw)      ? &op.stored_value()->type
                          : kind == OpClass::Collective ? &op.result()->type
                                                        : nullptr;
    if (sum && is_float(sum->dtype)) rounding = std::max(rounding, spacing_of(sum->dtype));
    const bool computes = kind == OpClass::Unary || kind == OpClass::Binary || kind == OpClass::Ternary ||
                          kind == OpClass::Dot || kind == OpClass::Collective || op.is(Opcode::Cast);
    if (!computes) return;
    for (const auto& result : op.results) {
      if (!is_float(result->type.dtype)) continue;
      const auto use = only_stored.find(result.get());
      if (use == only_stored.end() || !use->second)
        rounding = std::max(rounding, spacing_of(result->type.dtype));
    }
  });
  return rounding;
}

void perturb(std::span<unsigned char> bytes, DType dtype, double distance, Direction direction,
             std::uint64_t seed, const std::vector<bool>& members) {
  switch (size_of(dtype)) {
  case 8: return perturb_bits<std::uint64_t>(bytes, dtype, distance, direction, seed, members);
  case 4: return perturb_bits<std::uint32_t>(bytes, dtype, distance, direction, seed, members);
  case 2: return perturb_bits<std::uint16_t>(bytes, dtype, distance, direction, seed, members);
  default: return perturb_bits<std::uint8_t>(bytes, dtype, distance, direction, seed, members);
  }
}

} // namespace kiln::tune
