// Decodes integer and floating-point arithmetic and special functions.
#include "decoder.h"
#include <kiln/jit/emulator/core/number.h>
#include <kiln/jit/emulator/core/warp.h>

#include <cfenv>

namespace kiln::emulator {
namespace {

InstructionClass class_of(Type t) {
  switch (t) {
  case Type::F32:
  case Type::F32x2: return InstructionClass::Float32;
  case Type::F64: return InstructionClass::Float64;
  default: return ptx::is_float(t) ? InstructionClass::Half : InstructionClass::Integer;
  }
}
bool is_half(Type t) { return t == Type::F16 || t == Type::F16x2 || t == Type::BF16 || t == Type::BF16x2; }

// The loops round as the host does, so directed rounding sets the host's rounding mode around them.
void directed(Warp& w, const Instruction& i, Mask m) {
  const int before = std::fegetround();
  std::fesetround(i.mode2 == 1 ? FE_TOWARDZERO : i.mode2 == 2 ? FE_DOWNWARD : FE_UPWARD);
  i.inner(w, i, m);
  std::fesetround(before);
}

Handler handler(Decoder& d, AluOp op, Type t, bool flush = false) {
  Handler h = alu_handler(op, t, flush);
  if (!h) d.unknown(t);
  return h;
}

template <float (*value)(std::uint16_t)> void widen(Warp& w, const Instruction& i, Mask) {
  for (int l = 0; l < warp_size; ++l)
    w.reg<float>(i.d)[l] = value(w.reg<std::uint16_t>(i.a)[l]);
}

// Emits the conversion of operand n from f16 or bf16 to f32.
std::uint32_t widened(Decoder& d, std::size_t n, Type narrow) {
  Instruction i;
  i.run = narrow == Type::F16 ? widen<from_f16> : widen<from_bf16>;
  i.kind = InstructionClass::Move;
  i.a = d.source(n, narrow);
  i.d = d.temporary(32);
  i.line = d.statement().line;
  d.emit_hidden(i);
  return i.d;
}

// Emits `run` on the operands of the statement: a destination, then sources of the given types.
void emit_simple(Decoder& d, Handler run, Type destination, std::initializer_list<Type> sources,
                 std::uint8_t rounding = 0) {
  d.expect_operands(sources.size() + 1);
  Instruction i = d.plain(run);
  if (rounding) {
    i.inner = run;
    i.run = directed;
    i.mode2 = rounding;
  }
  std::size_t n = 1;
  for (Type t : sources) {
    const std::uint32_t r = t == Type::Pred ? d.predicate(d.operand(n)) : d.source(n, t);
    (n == 1 ? i.a : n == 2 ? i.b : i.c) = r;
    ++n;
  }
  i.d = d.destination(0, destination);
  d.emit(i);
}

std::uint8_t take_rounding(Decoder& d) {
  std::string_view r = d.take_one_of({"rn", "rz", "rm", "rp", "approx", "full"});
  return r == "rz" ? 1 : r == "rm" ? 2 : r == "rp" ? 3 : 0;
}

Type double_width(Decoder& d, Type t) {
  switch (t) {
  case Type::U16: return Type::U32;
  case Type::S16: return Type::S32;
  case Type::U32: return Type::U64;
  case Type::S32: return Type::S64;
  default: d.unknown(t);
  }
}

// add.f32.f16 d, a, c and fma.f32.f16 d, a, b, c: all sources but the last are narrow.
void mixed_operation(Decoder& d, AluOp op, Type narrow, std::size_t sources) {
  if (narrow != Type::F16 && narrow != Type::BF16) d.unknown(narrow);
  if (const std::string& target = d.builder().module.target; !target.starts_with("sm_1") || target.size() < 6)
    d.fail(quoted(d.statement().opcode) + " requires sm_100 or newer, and this module is for " + target);
  d.set_class(InstructionClass::Float32);
  const std::uint8_t rounding = take_rounding(d);
  d.expect_operands(sources + 1);
  Instruction i = d.plain(handler(d, op, Type::F32));
  if (rounding) {
    i.inner = i.run;
    i.run = directed;
    i.mode2 = rounding;
  }
  i.a = widened(d, 1, narrow);
  i.b = sources == 3 ? widened(d, 2, narrow) : d.source(2, Type::F32);
  if (sources == 3) i.c = d.source(3, Type::F32);
  i.d = d.destination(0, Type::F32);
  d.emit(i);
}

void float_operation(Decoder& d, AluOp op, Type t, std::size_t sources) {
  d.set_class(class_of(t));
  std::uint8_t rounding = take_rounding(d);
  if (is_half(t) && rounding) d.unknown(t);
  const bool flush = d.take("ftz");
  const Handler h = handler(d, op, t, flush);
  if (sources == 1) emit_simple(d, h, t, {t}, rounding);
  if (sources == 2) emit_simple(d, h, t, {t, t}, rounding);
  if (sources == 3) emit_simple(d, h, t, {t, t, t}, rounding);
}

bool is_halves(Type t) { return t == Type::U16x2 || t == Type::S16x2; }
void on_halves(Decoder& d, Type t, bool relu) {
  const Handler h = packed_halves(d.root(), t, relu);
  if (!h) d.unknown(t);
  emit_simple(d, h, t, {t, t});
}

// --- Extended precision: the carry of each lane ------------------------------------------------------------

// A difference is computed as a + ~b + 1, as the hardware does: a carry means that nothing was borrowed.
// mode: bit 0 carry in, bit 1 carry out.
template <class T, bool Subtract> void carrying(Warp& w, const Instruction& i, Mask m) {
  Mask carry = w.frame()->carry;
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const T a = w.reg<T>(i.a)[l], b = Subtract ? static_cast<T>(~w.reg<T>(i.b)[l]) : w.reg<T>(i.b)[l];
    const T in = i.mode & 1 ? carry >> l & 1 : Subtract;
    const T r = static_cast<T>(a + b + in);
    const bool out = r < a || (r == a && in);
    if (i.mode & 2) carry = (carry & ~(Mask(1) << l)) | Mask(out) << l;
    w.reg<T>(i.d)[l] = r;
  }
  w.frame()->carry = carry;
}

template <class T, class Product, bool High> void carrying_mad(Warp& w, const Instruction& i, Mask m) {
  Mask carry = w.frame()->carry;
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const Product p = static_cast<Product>(w.reg<T>(i.a)[l]) * static_cast<Product>(w.reg<T>(i.b)[l]);
    using U = std::make_unsigned_t<T>;
    const U a = static_cast<U>(High ? p >> (sizeof(T) * 8) : p), c = static_cast<U>(w.reg<T>(i.c)[l]);
    const U in = i.mode & 1 ? carry >> l & 1 : 0;
    const U r = static_cast<U>(a + c + in);
    const bool out = r < a || (r == a && in);
    if (i.mode & 2) carry = (carry & ~(Mask(1) << l)) | Mask(out) << l;
    w.reg<T>(i.d)[l] = static_cast<T>(r);
  }
  w.frame()->carry = carry;
}

void with_carry(Decoder& d, bool subtract, bool carry_in) {
  const bool carry_out = d.take("cc");
  const Type t = d.take_type();
  const bool wide = bits_of(t) == 64;
  if (bits_of(t) != 32 && !wide) d.unknown(t);
  d.expect_operands(3);
  Instruction i =
      d.plain(subtract ? (wide ? carrying<std::uint64_t, true> : carrying<std::uint32_t, true>)
                       : (wide ? carrying<std::uint64_t, false> : carrying<std::uint32_t, false>));
  i.mode = static_cast<std::uint8_t>(carry_in | carry_out << 1);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.d = d.destination(0, t);
  d.emit(i);
}
void addc(Decoder& d) { with_carry(d, false, true); }
void subc(Decoder& d) { with_carry(d, true, true); }

void mad_with_carry(Decoder& d, bool carry_in) {
  const bool carry_out = d.take("cc");
  const bool high = d.take("hi");
  if (!high && !d.take("lo")) d.fail(quoted(d.statement().opcode) + " requires .lo or .hi");
  const Type t = d.take_type();
  Handler h = nullptr;
  switch (t) {
  case Type::U32:
    h = high ? carrying_mad<std::uint32_t, std::uint64_t, true>
             : carrying_mad<std::uint32_t, std::uint64_t, false>;
    break;
  case Type::S32:
    h = high ? carrying_mad<std::int32_t, std::int64_t, true>
             : carrying_mad<std::int32_t, std::int64_t, false>;
    break;
  case Type::U64:
    h = high ? carrying_mad<std::uint64_t, unsigned __int128, true>
             : carrying_mad<std::uint64_t, unsigned __int128, false>;
    break;
  case Type::S64:
    h = high ? carrying_mad<std::int64_t, __int128, true> : carrying_mad<std::int64_t, __int128, false>;
    break;
  default: d.unknown(t);
  }
  d.expect_operands(4);
  Instruction i = d.plain(h);
  i.mode = static_cast<std::uint8_t>(carry_in | carry_out << 1);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.source(3, t);
  i.d = d.destination(0, t);
  d.emit(i);
}
void madc(Decoder& d) { mad_with_carry(d, true); }

// --- Two and three operands --------------------------------------------------------------------------------

void add_or_sub(Decoder& d, bool subtract) {
  auto next = d.next_modifier();
  if (next && *next == "cc") return with_carry(d, subtract, false);
  const bool saturate = d.take("sat");
  const Type t = d.take_type();
  if (is_halves(t) && !saturate) return on_halves(d, t, false);
  const AluOp op = saturate ? (subtract ? AluOp::SubSat : AluOp::AddSat) : subtract ? AluOp::Sub : AluOp::Add;
  if (ptx::is_float(t)) {
    if (const Type narrow = d.maybe_type(); narrow != Type::None) {
      if (t != Type::F32) d.unknown(t);
      return mixed_operation(d, op, narrow, 2);
    }
    return float_operation(d, op, t, 2);
  }
  emit_simple(d, handler(d, op, t), t, {t, t});
}
void add(Decoder& d) { add_or_sub(d, false); }
void sub(Decoder& d) { add_or_sub(d, true); }

void mul(Decoder& d) {
  const std::string_view part = d.take_one_of({"lo", "hi", "wide"});
  const bool saturate = d.take("sat");
  const Type t = d.take_type();
  if (ptx::is_float(t)) {
    if (!part.empty()) d.unknown(t);
    return float_operation(d, saturate ? AluOp::MulSat : AluOp::Mul, t, 2);
  }
  if (part.empty() || saturate) d.fail("an integer multiplication requires .lo, .hi or .wide");
  const AluOp op = part == "lo" ? AluOp::Mul : part == "hi" ? AluOp::MulHi : AluOp::MulWide;
  emit_simple(d, handler(d, op, t), part == "wide" ? double_width(d, t) : t, {t, t});
}

void fma(Decoder& d) {
  const bool saturate = d.take("sat"), relu = d.take("relu");
  const Type t = d.take_type();
  if (!ptx::is_float(t)) d.unknown(t);
  if (const Type narrow = d.maybe_type(); narrow != Type::None) {
    if (t != Type::F32 || relu) d.unknown(t);
    return mixed_operation(d, saturate ? AluOp::FmaSat : AluOp::Fma, narrow, 3);
  }
  float_operation(d, saturate ? AluOp::FmaSat : relu ? AluOp::FmaRelu : AluOp::Fma, t, 3);
}

void mad(Decoder& d) {
  auto has_carry = d.statement().opcode.find(".cc") != std::string_view::npos;
  if (has_carry) return mad_with_carry(d, false);
  const std::string_view part = d.take_one_of({"lo", "hi", "wide"});
  if (part.empty()) return fma(d);
  const bool saturate = d.take("sat");
  const Type t = d.take_type();
  if (saturate && part != "hi") d.unknown(t);
  const AluOp op = saturate       ? AluOp::MadHiSat
                   : part == "lo" ? AluOp::Mad
                   : part == "hi" ? AluOp::MadHi
                                  : AluOp::MadWide;
  const Type wide = part == "wide" ? double_width(d, t) : t;
  emit_simple(d, handler(d, op, t), wide, {t, t, wide});
}

void mul24(Decoder& d) {
  const bool high = d.take("hi");
  if (!high) d.take("lo");
  const Type t = d.take_type();
  emit_simple(d, handler(d, high ? AluOp::Mul24Hi : AluOp::Mul24, t), t, {t, t});
}
void mad24(Decoder& d) {
  const bool high = d.take("hi");
  if (!high) d.take("lo");
  const Type t = d.take_type();
  emit_simple(d, handler(d, high ? AluOp::Mad24Hi : AluOp::Mad24, t), t, {t, t, t});
}
void sad(Decoder& d) {
  const Type t = d.take_type();
  emit_simple(d, handler(d, AluOp::Sad, t), t, {t, t, t});
}
void div(Decoder& d) {
  const Type t = d.take_type();
  if (ptx::is_float(t)) return float_operation(d, AluOp::Div, t, 2);
  emit_simple(d, handler(d, AluOp::Div, t), t, {t, t});
}
void rem(Decoder& d) {
  const Type t = d.take_type();
  if (ptx::is_float(t)) d.unknown(t);
  emit_simple(d, handler(d, AluOp::Rem, t), t, {t, t});
}
void one_operand(Decoder& d, AluOp op) {
  const Type t = d.take_type();
  if (ptx::is_float(t)) return float_operation(d, op, t, 1);
  emit_simple(d, handler(d, op, t), t, {t});
}
void abs(Decoder& d) { one_operand(d, AluOp::Abs); }
void neg(Decoder& d) { one_operand(d, AluOp::Neg); }

void extreme(Decoder& d, bool maximum) {
  const bool relu = d.take("relu"), nan = d.take("NaN"), xorsign = d.take("xorsign");
  const bool absolute = d.take("abs");
  const Type t = d.take_type();
  if (xorsign != absolute)
    d.fail(quoted(d.statement().opcode) + " requires both .xorsign and .abs, or neither");
  if (is_halves(t) && !nan && !xorsign) return on_halves(d, t, relu);
  if (relu) {
    if (t != Type::S32 || nan || xorsign) d.unknown(t);
    return emit_simple(d, handler(d, maximum ? AluOp::MaxRelu : AluOp::MinRelu, t), t, {t, t});
  }
  if (!ptx::is_float(t)) {
    if (nan || xorsign) d.unknown(t);
    return emit_simple(d, handler(d, maximum ? AluOp::Max : AluOp::Min, t), t, {t, t});
  }
  if (d.operands() == 4) {
    if (xorsign) d.unknown(t);
    return float_operation(
        d, maximum ? (nan ? AluOp::MaxNan3 : AluOp::Max3) : (nan ? AluOp::MinNan3 : AluOp::Min3), t, 3);
  }
  const AluOp op = nan && xorsign ? (maximum ? AluOp::MaxNanXorsign : AluOp::MinNanXorsign)
                   : nan          ? (maximum ? AluOp::MaxNan : AluOp::MinNan)
                   : xorsign      ? (maximum ? AluOp::MaxXorsign : AluOp::MinXorsign)
                                  : (maximum ? AluOp::Max : AluOp::Min);
  float_operation(d, op, t, 2);
}
void min(Decoder& d) { extreme(d, false); }
void max(Decoder& d) { extreme(d, true); }

void copysign(Decoder& d) {
  const Type t = d.take_type();
  if (!ptx::is_float(t)) d.unknown(t);
  float_operation(d, AluOp::Copysign, t, 2);
}

template <AluOp op> void special(Decoder& d) {
  const Type t = d.take_type();
  if (!ptx::is_float(t)) d.unknown(t);
  const bool exact = op == AluOp::Sqrt || op == AluOp::Rcp;
  const bool approximate = d.take("approx");
  if (!exact && !approximate) d.fail(quoted(d.statement().opcode) + " requires .approx");
  if (t == Type::F64 && exact && approximate && op == AluOp::Rcp) {
    if (!d.take("ftz")) d.unknown(t);
    d.set_class(InstructionClass::Special);
    return emit_simple(d, handler(d, op, t, true), t, {t});
  }
  float_operation(d, op, t, 1);
}

// --- Dot products ------------------------------------------------------------------------------------------

template <class A, class B> void dot4(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint32_t a = w.reg<std::uint32_t>(i.a)[l], b = w.reg<std::uint32_t>(i.b)[l];
    std::uint32_t sum = w.reg<std::uint32_t>(i.c)[l];
    for (int k = 0; k < 4; ++k)
      sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<A>(a >> (8 * k))) *
                                        static_cast<std::int32_t>(static_cast<B>(b >> (8 * k))));
    w.reg<std::uint32_t>(i.d)[l] = sum;
  }
}
// mode: 1 for the upper half of b.
template <class A, class B> void dot2(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint32_t a = w.reg<std::uint32_t>(i.a)[l], b = w.reg<std::uint32_t>(i.b)[l] >> (16 * i.mode);
    std::uint32_t sum = w.reg<std::uint32_t>(i.c)[l];
    for (int k = 0; k < 2; ++k)
      sum += static_cast<std::uint32_t>(static_cast<std::int64_t>(static_cast<A>(a >> (16 * k))) *
                                        static_cast<std::int64_t>(static_cast<B>(b >> (8 * k))));
    w.reg<std::uint32_t>(i.d)[l] = sum;
  }
}
template <bool four> void dot(Decoder& d) {
  std::uint8_t high = 0;
  if (!four) {
    high = d.take("hi");
    if (!high && !d.take("lo")) d.fail("dp2a requires .lo or .hi");
  }
  const Type a = d.take_type(), b = d.take_type();
  if ((a != Type::U32 && a != Type::S32) || (b != Type::U32 && b != Type::S32)) d.unknown(a);
  const bool sa = a == Type::S32, sb = b == Type::S32;
  Handler h;
  if (four)
    h = sa ? (sb ? dot4<std::int8_t, std::int8_t> : dot4<std::int8_t, std::uint8_t>)
           : (sb ? dot4<std::uint8_t, std::int8_t> : dot4<std::uint8_t, std::uint8_t>);
  else
    h = sa ? (sb ? dot2<std::int16_t, std::int8_t> : dot2<std::int16_t, std::uint8_t>)
           : (sb ? dot2<std::uint16_t, std::int8_t> : dot2<std::uint16_t, std::uint8_t>);
  d.expect_operands(4);
  Instruction i = d.plain(h);
  i.mode = high;
  i.a = d.source(1, a);
  i.b = d.source(2, b);
  i.c = d.source(3, Type::U32);
  i.d = d.destination(0, Type::U32);
  d.emit(i);
}

constexpr auto special_class = InstructionClass::Special;
constexpr Opcode arithmetic_table[] = {
    {"add", InstructionClass::Integer, add},         {"sub", InstructionClass::Integer, sub},
    {"mul", InstructionClass::Integer, mul},         {"mad", InstructionClass::Integer, mad},
    {"fma", InstructionClass::Integer, fma},         {"addc", InstructionClass::Integer, addc},
    {"subc", InstructionClass::Integer, subc},       {"madc", InstructionClass::Integer, madc},
    {"mul24", InstructionClass::Integer, mul24},     {"mad24", InstructionClass::Integer, mad24},
    {"sad", InstructionClass::Integer, sad},         {"div", InstructionClass::Integer, div},
    {"rem", InstructionClass::Integer, rem},         {"abs", InstructionClass::Integer, abs},
    {"neg", InstructionClass::Integer, neg},         {"min", InstructionClass::Integer, min},
    {"max", InstructionClass::Integer, max},         {"copysign", InstructionClass::Integer, copysign},
    {"dp4a", InstructionClass::Integer, dot<true>},  {"dp2a", InstructionClass::Integer, dot<false>},
    {"sqrt", special_class, special<AluOp::Sqrt>},   {"rcp", special_class, special<AluOp::Rcp>},
    {"rsqrt", special_class, special<AluOp::Rsqrt>}, {"sin", special_class, special<AluOp::Sin>},
    {"cos", special_class, special<AluOp::Cos>},     {"lg2", special_class, special<AluOp::Lg2>},
    {"ex2", special_class, special<AluOp::Ex2>},     {"tanh", special_class, special<AluOp::Tanh>},
};

} // namespace

std::span<const Opcode> arithmetic_opcodes() { return arithmetic_table; }

} // namespace kiln::emulator
