// Implements the elementwise operations: on floats in f32 or f64, on integers modulo 2**width.
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kiln::ir {

namespace {

[[noreturn]] void no_such(Opcode code, DType t) {
  internal_error(std::string(name(code)) + " is not defined for " + std::string(name(t)));
}

// Rounds to double, and to an odd last bit if the result is inexact. Rounding the result again, to a much
// narrower format, then has the same result as rounding the value once (Boldo and Melquiond, "When double
// rounding is odd", 2005).
double round_to_odd(long double value) {
  auto d = static_cast<double>(value);
  if (d == value || !std::isfinite(d) || (std::bit_cast<Cell>(d) & 1)) return d;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return std::nextafter(d, value > d ? infinity : -infinity);
}

template <class T> T unary(Opcode code, T x, DType t) {
  // The standard library does not round these functions correctly, so they are computed in a wider format and
  // then rounded.
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  Wide w = x;
  auto rounded = [](Wide v) { return static_cast<T>(v); };
  switch (code) {
  case Opcode::Neg: return -x;
  case Opcode::Abs: return std::fabs(x);
  case Opcode::Sqrt: return std::sqrt(x);
  case Opcode::Floor: return std::floor(x);
  case Opcode::Ceil: return std::ceil(x);
  case Opcode::Trunc: return std::trunc(x);
  case Opcode::Round: return std::rint(x);
  case Opcode::Exp: return rounded(std::exp(w));
  case Opcode::Exp2: return rounded(std::exp2(w));
  case Opcode::Expm1: return rounded(std::expm1(w));
  case Opcode::Log: return rounded(std::log(w));
  case Opcode::Log2: return rounded(std::log2(w));
  case Opcode::Log1p: return rounded(std::log1p(w));
  case Opcode::Sin: return rounded(std::sin(w));
  case Opcode::Cos: return rounded(std::cos(w));
  case Opcode::Tan: return rounded(std::tan(w));
  case Opcode::Tanh: return rounded(std::tanh(w));
  case Opcode::Erf: return rounded(std::erf(w));
  case Opcode::Sigmoid: return rounded(1 / (1 + std::exp(-w)));
  case Opcode::Gelu: // the result at -infinity is the limit
    return std::isinf(w) && w < 0 ? T(-0.0) : rounded(w * std::erfc(-w / std::sqrt(Wide(2))) / 2);
  case Opcode::Rsqrt: return rounded(1 / std::sqrt(w));
  default: no_such(code, t);
  }
}

template <class T> T binary(Opcode code, T a, T b, DType t) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  switch (code) {
  case Opcode::Add: return a + b;
  case Opcode::Sub: return a - b;
  case Opcode::Mul: return a * b;
  case Opcode::Div: return a / b;
  case Opcode::Rem: return std::fmod(a, b);
  case Opcode::Pow: return static_cast<T>(std::pow(Wide(a), Wide(b)));
  case Opcode::Atan2: return static_cast<T>(std::atan2(Wide(a), Wide(b)));
  case Opcode::Min: return std::isnan(a) ? b : std::isnan(b) ? a : b < a ? b : a;
  case Opcode::Max: return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? b : a;
  case Opcode::MinNan: return std::isnan(b) || b < a ? b : a;
  case Opcode::MaxNan: return std::isnan(b) || a < b ? b : a;
  default: no_such(code, t);
  }
}

template <class T> bool compare(Opcode code, T a, T b) {
  switch (code) {
  case Opcode::Eq: return a == b;
  case Opcode::Ne: return a != b;
  case Opcode::Lt: return a < b;
  case Opcode::Le: return a <= b;
  case Opcode::Gt: return a > b;
  default: return a >= b;
  }
}

template <class T> Cell evaluate_float(Opcode code, DType t, Cell a, Cell b, Cell c) {
  auto number = [t](Cell x) { return static_cast<T>(float_of(t, x)); }; // exact
  auto cell = [t](T x) { return cell_of_float(t, x); };
  switch (info(code).cls) {
  case OpClass::Unary: return cell(unary<T>(code, number(a), t));
  case OpClass::Binary: return cell(binary<T>(code, number(a), number(b), t));
  case OpClass::Compare: return compare(code, number(a), number(b));
  case OpClass::Ternary: return cell(std::fma(number(a), number(b), number(c)));
  case OpClass::Predicate: return code == Opcode::IsNan ? std::isnan(number(a)) : std::isinf(number(a));
  default: no_such(code, t);
  }
}

int width_of(DType t) { return t == DType::Bool ? 1 : 8 * size_of(t); }
Cell low_bits(DType t, Cell x) {
  int width = width_of(t);
  return width == 64 ? x : x & ((Cell{1} << width) - 1);
}
Cell wrap(DType t, Cell x) {
  int unused = 64 - width_of(t);
  return is_signed(t) ? static_cast<Cell>(static_cast<std::int64_t>(x << unused) >> unused) : low_bits(t, x);
}

Cell evaluate_integer(Opcode code, DType t, Cell a, Cell b, Cell c) {
  bool sign = is_signed(t);
  auto sa = static_cast<std::int64_t>(a), sb = static_cast<std::int64_t>(b);
  auto width = static_cast<Cell>(width_of(t));
  switch (code) {
  case Opcode::Neg: return wrap(t, 0 - a);
  case Opcode::Not: return wrap(t, ~a);
  case Opcode::Abs: return sign && sa < 0 ? wrap(t, 0 - a) : a;
  case Opcode::PopCount: return wrap(t, static_cast<Cell>(std::popcount(low_bits(t, a))));
  case Opcode::IsNan: return 0;
  case Opcode::IsInf: return 0;
  case Opcode::Add: return wrap(t, a + b);
  case Opcode::Sub: return wrap(t, a - b);
  case Opcode::Mul: return wrap(t, a * b);
  case Opcode::MulHi:
    return sign ? wrap(t, static_cast<Cell>(static_cast<__int128>(sa) * sb >> width))
                : wrap(t, static_cast<Cell>(static_cast<unsigned __int128>(a) * b >> width));
  case Opcode::Div:
    if (b == 0) return 0;
    if (sign) return sb == -1 ? wrap(t, 0 - a) : static_cast<Cell>(sa / sb);
    return a / b;
  case Opcode::Rem:
    if (b == 0) return a;
    if (sign) return sb == -1 ? 0 : static_cast<Cell>(sa % sb);
    return a % b;
  case Opcode::Min: return (sign ? sb < sa : b < a) ? b : a;
  case Opcode::Max: return (sign ? sa < sb : a < b) ? b : a;
  case Opcode::And: return a & b;
  case Opcode::Or: return a | b;
  case Opcode::Xor: return a ^ b;
  case Opcode::Shl: return low_bits(t, b) >= width ? 0 : wrap(t, a << low_bits(t, b));
  case Opcode::Shr:
    if (sign) return static_cast<Cell>(sa >> (low_bits(t, b) >= width ? 63 : low_bits(t, b)));
    return low_bits(t, b) >= width ? 0 : a >> low_bits(t, b);
  case Opcode::Fma: return wrap(t, a * b + c);
  default: break;
  }
  if (info(code).cls == OpClass::Compare) return sign ? compare(code, sa, sb) : compare(code, a, b);
  no_such(code, t);
}

} // namespace

bool can_evaluate(Opcode code, DType t) {
  if (!is_elementwise(code) || info(code).cls == OpClass::Convert) return false;
  if (code == Opcode::Select || info(code).cls == OpClass::Compare || info(code).cls == OpClass::Predicate)
    return true;
  switch (code) {
  case Opcode::Not:
  case Opcode::PopCount:
  case Opcode::MulHi:
  case Opcode::And:
  case Opcode::Or:
  case Opcode::Xor:
  case Opcode::Shl:
  case Opcode::Shr: return !is_float(t);
  case Opcode::Neg:
  case Opcode::Abs:
  case Opcode::Add:
  case Opcode::Sub:
  case Opcode::Mul:
  case Opcode::Div:
  case Opcode::Rem:
  case Opcode::Min:
  case Opcode::Max:
  case Opcode::Fma: return true;
  default: return is_float(t);
  }
}

Cell evaluate(Opcode code, DType t, Cell a, Cell b, Cell c) {
  if (code == Opcode::Select) return a ? b : c;
  if (!can_evaluate(code, t)) no_such(code, t);
  if (t == DType::F64) return evaluate_float<double>(code, t, a, b, c);
  if (is_float(t)) return evaluate_float<float>(code, t, a, b, c);
  return evaluate_integer(code, t, a, b, c);
}

Cell evaluate_cast(DType from, DType to, Cell x) {
  if (from == to) return x;
  if (!is_float(from)) {
    if (to == DType::Bool) return x != 0;
    if (!is_float(to)) return wrap(to, x);
    return cell_of_float(to, is_signed(from) ? static_cast<long double>(static_cast<std::int64_t>(x))
                                             : static_cast<long double>(x));
  }
  long double value = float_of(from, x);
  if (is_float(to)) return cell_of_float(to, value);
  if (to == DType::Bool) return value != 0;
  if (std::isnan(value)) return 0;
  int bits = is_signed(to) ? width_of(to) - 1 : width_of(to);
  long double limit = std::ldexp(1.0L, bits);
  value = std::trunc(value);
  if (value >= limit) return is_signed(to) ? (Cell{1} << bits) - 1 : wrap(to, ~Cell{0});
  if (is_signed(to)) return static_cast<Cell>(static_cast<std::int64_t>(std::max(value, -limit)));
  return value <= 0 ? 0 : static_cast<Cell>(value);
}

Cell evaluate_bitcast(DType from, DType to, Cell x) {
  int bytes = size_of(from);
  Cell bits = bytes == 8 ? x : x & ((Cell{1} << 8 * bytes) - 1);
  if (to == DType::Bool) return bits != 0;
  return is_float(to) ? bits : wrap(to, bits);
}

Cell cell_of_integer(DType t, std::int64_t value) { return wrap(t, static_cast<Cell>(value)); }

Cell cell_of_float(DType t, long double value) {
  if (t == DType::F64) return std::bit_cast<Cell>(static_cast<double>(value));
  if (t == DType::F32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return encode_float(t, round_to_odd(value));
}

long double float_of(DType t, Cell x) {
  if (t == DType::F64) return std::bit_cast<double>(x);
  if (t == DType::F32) return std::bit_cast<float>(static_cast<std::uint32_t>(x));
  return decode_float(t, static_cast<std::uint16_t>(x));
}

Cell constant_cell(const Op& op) {
  DType t = op.result()->type.dtype;
  const Attribute* value = op.find("value");
  internal_check(value != nullptr, "a constant without a value");
  if (is_float(t)) return cell_of_float(t, std::get<double>(*value));
  auto number = static_cast<Cell>(std::get<std::int64_t>(*value));
  return t == DType::Bool ? number != 0 : wrap(t, number);
}

Attribute constant_attribute(DType t, Cell x) {
  if (is_float(t)) return static_cast<double>(float_of(t, x));
  return static_cast<std::int64_t>(x);
}

Cell load_cell(DType t, const void* address) {
  Cell x = 0;
  std::memcpy(&x, address, static_cast<std::size_t>(size_of(t))); // all targets are little-endian
  if (t == DType::Bool) return x != 0;
  return is_float(t) ? x : wrap(t, x);
}

void store_cell(DType t, void* address, Cell x) {
  std::memcpy(address, &x, static_cast<std::size_t>(size_of(t)));
}

std::string_view relation_text(Opcode code) {
  switch (code) {
  case Opcode::Eq: return " == ";
  case Opcode::Ne: return " != ";
  case Opcode::Lt: return " < ";
  case Opcode::Le: return " <= ";
  case Opcode::Gt: return " > ";
  case Opcode::Ge: return " >= ";
  default: return {};
  }
}

} // namespace kiln::ir
