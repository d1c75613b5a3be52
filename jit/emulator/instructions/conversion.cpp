// Decodes and executes cvt, cvta and isspacep.
#include "decoder.h"
#include <kiln/jit/emulator/core/block.h>
#include <kiln/jit/emulator/core/memory.h>
#include <kiln/jit/emulator/core/number.h>
#include <kiln/jit/emulator/core/warp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kiln::emulator {
namespace {

std::uint64_t read(const Warp& w, std::uint32_t at, int width, int lane) {
  switch (width) {
  case 16: return w.reg<std::uint16_t>(at)[lane];
  case 32: return w.reg<std::uint32_t>(at)[lane];
  default: return w.reg<std::uint64_t>(at)[lane];
  }
}
void write(const Warp& w, std::uint32_t at, int width, int lane, std::uint64_t v) {
  switch (width) {
  case 16: w.reg<std::uint16_t>(at)[lane] = static_cast<std::uint16_t>(v); break;
  case 32: w.reg<std::uint32_t>(at)[lane] = static_cast<std::uint32_t>(v); break;
  default: w.reg<std::uint64_t>(at)[lane] = v; break;
  }
}

constexpr Format format_f32{8, 23, true, 0x7fffffff};
const Format& format_of(Type t) {
  switch (t) {
  case Type::F16:
  case Type::F16x2: return format_f16;
  case Type::BF16:
  case Type::BF16x2: return format_bf16;
  case Type::E4M3:
  case Type::E4M3x2: return format_e4m3;
  case Type::E5M2:
  case Type::E5M2x2: return format_e5m2;
  case Type::TF32: return format_tf32;
  default: return format_f32;
  }
}

// Flags of a conversion, in Instruction::mode.
enum : std::uint8_t { Flush = 1, Saturate = 2, ToInteger = 4, SaturateFinite = 8, Relu = 16 };

double rounded_to_integer(double v, Rounding r) {
  switch (r) {
  case Rounding::Zero: return std::trunc(v);
  case Rounding::Down: return std::floor(v);
  case Rounding::Up: return std::ceil(v);
  default: {
    const double f = std::floor(v), rest = v - f;
    if (rest != 0.5) return rest < 0.5 ? (f == 0 && std::signbit(v) ? -0.0 : f) : (f + 1 == 0 ? -0.0 : f + 1);
    const double even = std::fmod(f, 2) == 0 ? f : f + 1;
    return even == 0 && std::signbit(v) ? -0.0 : even;
  }
  }
}

double value_of(std::uint64_t bits, Type t, bool flush) {
  if (t == Type::F64) return std::bit_cast<double>(bits);
  if (t == Type::F32) {
    float f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (flush && std::fpclassify(f) == FP_SUBNORMAL) f = std::copysign(0.0f, f);
    return f;
  }
  return decode(static_cast<std::uint32_t>(bits), format_of(t));
}

std::uint64_t to_float(double v, Type to, Rounding r, std::uint8_t flags) {
  if (flags & Saturate) v = v > 0 ? (v < 1 ? v : 1) : 0;
  if (flags & Relu && v <= 0) v = 0;
  if (to == Type::F64) return std::bit_cast<std::uint64_t>(v);
  std::uint64_t bits = encode(v, format_of(to), r, flags & SaturateFinite);
  if (to == Type::TF32) bits <<= 13;
  if (to == Type::F32 && flags & Flush && !(bits & 0x7f800000)) bits &= 0x80000000;
  return bits;
}

std::uint64_t to_integer(double v, Type from, Type to, Rounding r) {
  const int n = bits_of(to);
  if (v != v) return from != Type::F64 && n != 64 ? 0 : std::uint64_t(1) << (n - 1);
  v = rounded_to_integer(v, r);
  if (ptx::is_signed(to)) {
    const double limit = std::ldexp(1.0, n - 1);
    if (v >= limit)
      return static_cast<std::uint64_t>((std::int64_t(1) << (n - 2)) - 1 + (std::int64_t(1) << (n - 2)));
    if (v < -limit) return static_cast<std::uint64_t>(-(std::int64_t(1) << (n - 2)) * 2);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
  }
  const double limit = std::ldexp(1.0, n);
  if (v >= limit) return n == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << n) - 1;
  return v <= 0 ? 0 : static_cast<std::uint64_t>(v);
}

__int128 integer_of(std::uint64_t bits, Type t) {
  const int n = bits_of(t);
  if (ptx::is_signed(t)) return static_cast<std::int64_t>(bits << (64 - n)) >> (64 - n);
  return n == 64 ? bits : bits & ((std::uint64_t(1) << n) - 1);
}

// Rounds to the 53 bits of a double with integer operations, because a compiler's conversion may give zero a
// sign in other rounding modes. For narrower types it rounds to odd, so that the final rounding is correct.
std::uint64_t integer_to_float(__int128 v, Type to, Rounding r, std::uint8_t flags) {
  const bool minus = v < 0;
  const auto magnitude = static_cast<std::uint64_t>(minus ? -v : v);
  const int excess = std::max(0, static_cast<int>(std::bit_width(magnitude)) - 53);
  std::uint64_t kept = magnitude >> excess;
  const std::uint64_t rest = magnitude - (kept << excess);
  if (rest && to != Type::F64) {
    kept |= 1;
  } else if (rest) {
    const std::uint64_t half = std::uint64_t(1) << (excess - 1);
    const bool nearest_up = rest > half || (rest == half && (kept & 1));
    kept += r == Rounding::Nearest ? nearest_up : r == (minus ? Rounding::Down : Rounding::Up);
  }
  const double result = std::ldexp(static_cast<double>(kept), excess);
  return to_float(minus ? -result : result, to, r, flags);
}

std::uint64_t converted(std::uint64_t bits, Type from, Type to, Rounding r, std::uint8_t flags) {
  if (ptx::is_float(from)) {
    double v = value_of(bits, from, flags & Flush);
    if (!ptx::is_float(to)) return to_integer(v, from, to, r);
    if (flags & ToInteger) {
      v = rounded_to_integer(v, r);
      r = Rounding::Nearest;
    }
    return to_float(v, to, r, flags);
  }
  __int128 v = integer_of(bits, from);
  if (ptx::is_float(to)) return integer_to_float(v, to, r, flags);
  if (flags & Saturate) {
    const int n = bits_of(to);
    const __int128 high = ptx::is_signed(to) ? (__int128(1) << (n - 1)) - 1 : (__int128(1) << n) - 1;
    const __int128 low = ptx::is_signed(to) ? -(__int128(1) << (n - 1)) : 0;
    v = v > high ? high : v < low ? low : v;
  }
  // Extends it to the register, by its sign or by zeros.
  return static_cast<std::uint64_t>(integer_of(static_cast<std::uint64_t>(v), to));
}

// --- Handlers ----------------------------------------------------------------------------------------------

// Converts any types. type: of the destination; count: of the source; extra: the widths of both registers
void convert_any(Warp& w, const Instruction& i, Mask m) {
  const Type from = static_cast<Type>(i.count);
  const int wd = static_cast<int>(i.extra & 0xff), wa = static_cast<int>(i.extra >> 8);
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1)
      write(w, i.d, wd, l,
            converted(read(w, i.a, wa, l), from, i.type, static_cast<Rounding>(i.mode2), i.mode));
}

template <class D, class A> void convert_cast(Warp& w, const Instruction& i, Mask m) {
  D* d = w.reg<D>(i.d);
  const A* a = w.reg<A>(i.a);
  if (m == all_lanes) {
    for (int l = 0; l < warp_size; ++l)
      d[l] = static_cast<D>(a[l]);
    return;
  }
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) d[l] = static_cast<D>(a[l]);
}
template <auto f, class D, class A> void convert_by(Warp& w, const Instruction& i, Mask m) {
  D* d = w.reg<D>(i.d);
  const A* a = w.reg<A>(i.a);
  for (int l = 0; l < warp_size; ++l) {
    const D r = f(a[l]);
    d[l] = m >> l & 1 ? r : d[l];
  }
}
float widen_f16(std::uint16_t h) {
  const float f = from_f16(h);
  return f != f ? std::bit_cast<float>(0x7fffffffu) : f;
}
float widen_bf16(std::uint16_t h) {
  const float f = from_bf16(h);
  return f != f ? std::bit_cast<float>(0x7fffffffu) : f;
}

template <class D> Handler cast_to(Type from) {
  switch (from) {
  case Type::U16: return convert_cast<D, std::uint16_t>;
  case Type::S16: return convert_cast<D, std::int16_t>;
  case Type::U32: return convert_cast<D, std::uint32_t>;
  case Type::S32: return convert_cast<D, std::int32_t>;
  case Type::U64: return convert_cast<D, std::uint64_t>;
  case Type::S64: return convert_cast<D, std::int64_t>;
  default: return nullptr;
  }
}
// Returns a fast handler for a frequent conversion, or null.
Handler quick(Type to, Type from, std::uint8_t flags, Rounding r) {
  if (!ptx::is_float(to) && !ptx::is_float(from) && !(flags & Saturate)) {
    switch (to) {
    case Type::U16:
    case Type::S16: return cast_to<std::uint16_t>(from);
    case Type::U32:
    case Type::S32: return cast_to<std::uint32_t>(from);
    case Type::U64:
    case Type::S64: return cast_to<std::uint64_t>(from);
    default: return nullptr;
    }
  }
  if (flags == ToInteger && to == from && (to == Type::F32 || to == Type::F64))
    return alu_handler(r == Rounding::Zero   ? AluOp::Trunc
                       : r == Rounding::Down ? AluOp::Floor
                       : r == Rounding::Up   ? AluOp::Ceil
                                             : AluOp::Rint,
                       to, false);
  if (!flags && to == Type::S32 && from == Type::F32 && r == Rounding::Zero)
    return alu_handler(AluOp::ToS32, Type::F32, false);
  if (flags || r != Rounding::Nearest) return nullptr;
  if (to == Type::F32 && !ptx::is_float(from)) return cast_to<float>(from);
  if (to == Type::F64 && !ptx::is_float(from)) return cast_to<double>(from);
  if (to == Type::F64 && from == Type::F32) return convert_cast<double, float>;
  if (to == Type::F32 && from == Type::F16) return convert_by<widen_f16, float, std::uint16_t>;
  if (to == Type::F32 && from == Type::BF16) return convert_by<widen_bf16, float, std::uint16_t>;
  if (to == Type::F16 && from == Type::F32) return convert_by<to_f16, std::uint16_t, float>;
  if (to == Type::BF16 && from == Type::F32) return convert_by<to_bf16, std::uint16_t, float>;
  return nullptr;
}

// d = {a, b} converted, with a in the upper half. type: of the halves; count: type of a and b
void convert_pair(Warp& w, const Instruction& i, Mask m) {
  const int n = bits_of(i.type), width = 2 * n;
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const auto from = static_cast<Type>(i.count);
    const std::uint64_t high =
        converted(w.reg<std::uint32_t>(i.a)[l], from, i.type, static_cast<Rounding>(i.mode2), i.mode);
    const std::uint64_t low =
        converted(w.reg<std::uint32_t>(i.b)[l], from, i.type, static_cast<Rounding>(i.mode2), i.mode);
    write(w, i.d, width, l, high << n | low);
  }
}
// Converts packed values half by half.
void convert_packed(Warp& w, const Instruction& i, Mask m) {
  const auto from = static_cast<Type>(i.count);
  const int n = bits_of(i.type), k = bits_of(from);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint64_t a = read(w, i.a, 2 * k, l), mask = (std::uint64_t(1) << k) - 1;
    const auto r = static_cast<Rounding>(i.mode2);
    write(w, i.d, 2 * n, l,
          converted(a >> k & mask, from, i.type, r, i.mode) << n |
              converted(a & mask, from, i.type, r, i.mode));
  }
}

Type half_of(Type packed) {
  switch (packed) {
  case Type::F16x2: return Type::F16;
  case Type::BF16x2: return Type::BF16;
  case Type::E4M3x2: return Type::E4M3;
  case Type::E5M2x2: return Type::E5M2;
  default: return Type::None;
  }
}

// cvt.pack.sat.u8.s32.b32 d, a, b, c
void pack_integers(Warp& w, const Instruction& i, Mask m) {
  const int n = bits_of(i.type);
  const auto from = static_cast<Type>(i.count);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const auto part = [&](std::uint32_t at) {
      return static_cast<std::uint32_t>(
                 converted(w.reg<std::uint32_t>(at)[l], from, i.type, Rounding::Nearest, Saturate)) &
             ((1u << n) - 1);
    };
    std::uint32_t v = part(i.a) << n | part(i.b);
    if (n == 8 && i.c) v |= w.reg<std::uint32_t>(i.c)[l] << 16;
    w.reg<std::uint32_t>(i.d)[l] = v;
  }
}

void cvt(Decoder& d) {
  if (d.take("pack")) {
    d.take("sat");
    const Type to = d.take_type(), from = d.take_type();
    const Type third = d.maybe_type();
    const int n = bits_of(to);
    if ((n != 8 && n != 16) || ptx::is_float(to) || (from != Type::S32 && from != Type::U32) ||
        (n == 8) != (third == Type::B32))
      d.unknown(to);
    d.expect_operands(n == 8 ? 4 : 3);
    Instruction i = d.plain(pack_integers);
    i.type = to;
    i.count = static_cast<std::uint32_t>(from);
    i.a = d.source(1, Type::B32);
    i.b = d.source(2, Type::B32);
    i.c = n == 8 ? d.source(3, Type::B32) : 0;
    i.d = d.destination(0, Type::B32);
    return d.emit(i);
  }
  const std::string_view r = d.take_one_of({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"});
  std::uint8_t flags = 0;
  if (d.take("ftz")) flags |= Flush;
  if (d.take("sat")) flags |= Saturate;
  if (d.take("satfinite")) flags |= SaturateFinite;
  if (d.take("relu")) flags |= Relu;
  const Type to = d.take_type(), from = d.take_type();
  if (to == Type::Pred || from == Type::Pred || ptx::is_untyped(to) || ptx::is_untyped(from))
    d.unknown(ptx::is_untyped(to) ? to : from);
  const bool integral = r.size() == 3 && r != "rna";
  const Rounding rounding = r == "rna"               ? Rounding::NearestAway
                            : r.substr(0, 2) == "rz" ? Rounding::Zero
                            : r.substr(0, 2) == "rm" ? Rounding::Down
                            : r.substr(0, 2) == "rp" ? Rounding::Up
                                                     : Rounding::Nearest;
  if (integral && ptx::is_float(to) && ptx::is_float(from)) flags |= ToInteger;
  if ((ptx::is_float(to) != ptx::is_float(from) ||
       (ptx::is_float(to) && bits_of(to) < bits_of(from) && half_of(from) == Type::None)) &&
      r.empty())
    d.fail(quoted(d.statement().opcode) + " requires a rounding");
  if (to == Type::F32x2 || from == Type::F32x2) d.unknown(Type::F32x2);
  Instruction i = d.plain(convert_any);
  i.mode = flags;
  i.mode2 = static_cast<std::uint8_t>(rounding);
  const Type half_to = half_of(to), half_from = half_of(from);
  if (half_to != Type::None && from == Type::F32) {
    d.expect_operands(3);
    i.run = convert_pair;
    i.type = half_to;
    i.count = static_cast<std::uint32_t>(from);
    i.a = d.source(1, from);
    i.b = d.source(2, from);
    i.d = d.destination(0, to);
    return d.emit(i);
  }
  d.expect_operands(2);
  if (half_to != Type::None || half_from != Type::None) {
    if (half_to == Type::None || half_from == Type::None) d.unknown(from);
    i.run = convert_packed;
    i.type = half_to;
    i.count = static_cast<std::uint32_t>(half_from);
    i.a = d.source(1, from);
    i.d = d.destination(0, to);
    return d.emit(i);
  }
  // Integer registers may be wider than the types.
  i.type = to;
  i.count = static_cast<std::uint32_t>(from);
  const bool loose_to = !ptx::is_float(to), loose_from = !ptx::is_float(from);
  i.a = d.source(d.operand(1), from, !loose_from);
  i.d = d.destination(d.operand(0), bits_of(to), !loose_to);
  const int wa = d.is_register(d.operand(1)) ? d.width(d.operand(1)) : std::max(bits_of(from), 16);
  const int wd = d.is_register(d.operand(0)) ? d.width(d.operand(0)) : std::max(bits_of(to), 16);
  if (wa == 128 || wd == 128) d.unknown(Type::B128);
  i.extra = static_cast<std::uint32_t>(wd | wa << 8);
  if (wa == bits_of(from) && wd == bits_of(to))
    if (Handler h = quick(to, from, flags, rounding)) i.run = h;
  d.emit(i);
}

// --- Addresses ---------------------------------------------------------------------------------------------

void to_window(Warp& w, const Instruction& i, Mask m) {
  const auto window = static_cast<std::uint64_t>(i.offset);
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) w.reg<std::uint64_t>(i.d)[l] = (w.reg<std::uint64_t>(i.a)[l] & ~window_mask) | window;
}
void out_of_window(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) w.reg<std::uint64_t>(i.d)[l] = w.reg<std::uint64_t>(i.a)[l] & ~window_mask;
}

std::string_view take_named_space(Decoder& d) {
  return d.take_one_of(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"});
}

void cvta(Decoder& d) {
  d.set_class(InstructionClass::Move);
  const bool to = d.take("to");
  const std::string_view space = take_named_space(d);
  const Type t = d.take_type();
  if (t != Type::U64 || space.empty()) d.unknown(t);
  const std::uint64_t window = space.substr(0, 6) == "shared"  ? shared_window
                               : space == "local"              ? local_window
                               : space.substr(0, 5) == "param" ? param_window
                                                               : 0;
  d.expect_operands(2);
  Instruction i =
      d.plain(window ? (to ? out_of_window : to_window) : alu_handler(AluOp::Move, Type::U64, false));
  i.offset = static_cast<std::int64_t>(window);
  i.a = d.source(1, t);
  i.d = d.destination(0, t);
  d.emit(i);
}

void is_in_space(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint64_t a = i.mode2 == 64 ? w.reg<std::uint64_t>(i.a)[l] : w.reg<std::uint32_t>(i.a)[l];
    bool r = (a & window_mask) == static_cast<std::uint64_t>(i.offset);
    if (i.mode == 1 && r) { // shared::cta: the address must be of this block
      const std::uint64_t rank = (a & ~window_mask) >> cluster_shift;
      r = rank == 0 || rank == w.block.rank + 1;
    }
    w.pred(i.d) = (w.pred(i.d) & ~(Mask(1) << l)) | Mask(r) << l;
  }
}
void isspacep(Decoder& d) {
  d.set_class(InstructionClass::Comparison);
  const std::string_view space = take_named_space(d);
  if (space.empty()) d.fail("isspacep requires a state space");
  d.expect_operands(2);
  Instruction i = d.plain(is_in_space);
  i.offset = static_cast<std::int64_t>(space.substr(0, 6) == "shared"  ? shared_window
                                       : space == "local"              ? local_window
                                       : space.substr(0, 5) == "param" ? param_window
                                                                       : 0);
  i.mode = space == "shared" || space == "shared::cta";
  i.mode2 = static_cast<std::uint8_t>(d.width(d.operand(1)) == 32 ? 32 : 64);
  i.a = d.source(1, i.mode2 == 32 ? Type::U32 : Type::U64);
  i.d = d.destination(0, Type::Pred);
  d.emit(i);
}

constexpr auto conversion = InstructionClass::Conversion;
constexpr Opcode conversion_table[] = {
    {"cvt", conversion, cvt}, {"cvta", conversion, cvta}, {"isspacep", conversion, isspacep}};

} // namespace

std::span<const Opcode> conversion_opcodes() { return conversion_table; }

} // namespace kiln::emulator
