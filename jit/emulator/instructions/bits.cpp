// Decodes logic, shifts and bit fields.
#include "decoder.h"
#include <kiln/jit/emulator/core/warp.h>

#include <bit>

namespace kiln::emulator {
namespace {

// Emits d = f(a, b, c).
void emit(Decoder& d, AluOp op, Type alu, Type destination, std::initializer_list<Type> sources) {
  Handler h = alu_handler(op, alu, false);
  if (!h) d.unknown(alu);
  d.expect_operands(sources.size() + 1);
  Instruction i = d.plain(h);
  std::size_t n = 1;
  for (Type t : sources) {
    (n == 1 ? i.a : n == 2 ? i.b : i.c) = d.source(n, t);
    ++n;
  }
  i.d = d.destination(0, destination);
  d.emit(i);
}

template <class F> void on_predicates(Warp& w, const Instruction& i, Mask m) {
  Mask& d = w.pred(i.d);
  d = (d & ~m) | (F::f(w.pred(i.a), w.pred(i.b)) & m);
}
struct PredAnd {
  static Mask f(Mask a, Mask b) { return a & b; }
};
struct PredOr {
  static Mask f(Mask a, Mask b) { return a | b; }
};
struct PredXor {
  static Mask f(Mask a, Mask b) { return a ^ b; }
};
struct PredNot {
  static Mask f(Mask a, Mask) { return ~a; }
};

void logic(Decoder& d, AluOp op, Handler on_predicate, bool unary) {
  const Type t = d.take_type();
  if (t == Type::Pred) {
    d.expect_operands(unary ? 2 : 3);
    Instruction i = d.plain(on_predicate);
    i.a = d.predicate(d.operand(1));
    i.b = unary ? i.a : d.predicate(d.operand(2));
    i.d = d.destination(0, t);
    return d.emit(i);
  }
  if (ptx::is_float(t)) d.unknown(t);
  if (unary)
    emit(d, op, t, t, {t});
  else
    emit(d, op, t, t, {t, t});
}
void land(Decoder& d) { logic(d, AluOp::And, on_predicates<PredAnd>, false); }
void lor(Decoder& d) { logic(d, AluOp::Or, on_predicates<PredOr>, false); }
void lxor(Decoder& d) { logic(d, AluOp::Xor, on_predicates<PredXor>, false); }
void lnot(Decoder& d) { logic(d, AluOp::Not, on_predicates<PredNot>, true); }
void cnot(Decoder& d) {
  const Type t = d.take_type();
  emit(d, AluOp::Cnot, t, t, {t});
}

void lop3(Decoder& d) {
  const std::string_view combine = d.take_one_of({"or", "and"});
  const Type t = d.take_type();
  if (bits_of(t) != 32) d.unknown(t);
  d.expect_operands(combine.empty() ? 5 : 6);
  auto table = d.immediate(d.operand(4));
  if (!table || *table < 0 || *table > 255) d.fail("the table of lop3 is a constant from 0 to 255");
  Instruction i = d.plain(alu_handler(AluOp::Lop3, Type::B32, false));
  i.mode = static_cast<std::uint8_t>(*table);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.source(3, t);
  const Operand& to = d.operand(0);
  if (combine.empty()) {
    i.d = d.destination(to, 32);
    return d.emit(i);
  }
  // lop3.or d|p: p = (d != 0) or q
  if (to.kind != Operand::Kind::Pair || to.parts.size() != 2) d.fail("this lop3 writes d|p");
  i.d = d.destination(to.parts[0], 32);
  d.emit(i);
  Instruction p = d.plain(combine == "or" ? [](Warp& w, const Instruction& x, Mask m) {
        for (int l = 0; l < warp_size; ++l)
          if (m >> l & 1) {
            const bool v = w.reg<std::uint32_t>(x.a)[l] != 0 || (w.pred(x.b) >> l & 1);
            w.pred(x.d) = (w.pred(x.d) & ~(Mask(1) << l)) | Mask(v) << l;
          }
      } : [](Warp& w, const Instruction& x, Mask m) {
        for (int l = 0; l < warp_size; ++l)
          if (m >> l & 1) {
            const bool v = w.reg<std::uint32_t>(x.a)[l] != 0 && (w.pred(x.b) >> l & 1);
            w.pred(x.d) = (w.pred(x.d) & ~(Mask(1) << l)) | Mask(v) << l;
          }
      });
  p.a = i.d;
  p.b = d.predicate(d.operand(5));
  p.d = d.destination(to.parts[1], 1);
  d.emit(p);
}

void shl(Decoder& d) {
  const Type t = d.take_type();
  if (ptx::is_float(t)) d.unknown(t);
  emit(d, AluOp::Shl, t, t, {t, Type::U32});
}
void shr(Decoder& d) {
  const Type t = d.take_type();
  if (ptx::is_float(t)) d.unknown(t);
  emit(d, AluOp::Shr, t, t, {t, Type::U32});
}
void shf(Decoder& d) {
  const bool left = d.take("l");
  if (!left && !d.take("r")) d.fail("shf requires .l or .r");
  const bool clamp = d.take("clamp");
  if (!clamp && !d.take("wrap")) d.fail("shf requires .clamp or .wrap");
  const Type t = d.take_type();
  if (bits_of(t) != 32) d.unknown(t);
  emit(d,
       left ? (clamp ? AluOp::ShfLeftClamp : AluOp::ShfLeftWrap)
            : (clamp ? AluOp::ShfRightClamp : AluOp::ShfRightWrap),
       t, t, {t, t, Type::U32});
}
void prmt(Decoder& d) {
  const Type t = d.take_type();
  const std::string_view mode = d.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  const AluOp op = mode == "f4e"   ? AluOp::PrmtF4e
                   : mode == "b4e" ? AluOp::PrmtB4e
                   : mode == "rc8" ? AluOp::PrmtRc8
                   : mode == "ecl" ? AluOp::PrmtEcl
                   : mode == "ecr" ? AluOp::PrmtEcr
                   : mode.empty()  ? AluOp::Prmt
                                   : AluOp::PrmtRc16;
  if (bits_of(t) != 32) d.unknown(t);
  emit(d, op, t, t, {t, t, t});
}
template <AluOp op> void count(Decoder& d) {
  const Type t = d.take_type();
  if (bits_of(t) != 32 && bits_of(t) != 64) d.unknown(t);
  emit(d, op, t, Type::U32, {t});
}
void bfind(Decoder& d) {
  const bool shift = d.take("shiftamt");
  const Type t = d.take_type();
  if (bits_of(t) != 32 && bits_of(t) != 64) d.unknown(t);
  emit(d, shift ? AluOp::BfindShift : AluOp::Bfind, t, Type::U32, {t});
}
void brev(Decoder& d) {
  const Type t = d.take_type();
  emit(d, AluOp::Brev, t, t, {t});
}
void bfe(Decoder& d) {
  const Type t = d.take_type();
  emit(d, AluOp::Bfe, t, t, {t, Type::U32, Type::U32});
}

template <class T> void insert(Warp& w, const Instruction& i, Mask m) { // extra: the length
  const std::uint32_t* position = w.reg<std::uint32_t>(i.c);
  const std::uint32_t* length = w.reg<std::uint32_t>(i.extra);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    constexpr std::uint32_t bits = sizeof(T) * 8;
    const std::uint32_t p = position[l] & 0xff, n = length[l] & 0xff;
    const T a = w.reg<T>(i.a)[l], b = w.reg<T>(i.b)[l];
    T mask = p < bits ? (n >= bits ? ~T(0) : static_cast<T>((T(1) << n) - 1)) << p : T(0);
    w.reg<T>(i.d)[l] = (b & ~mask) | (p < bits ? (a << p) & mask : T(0));
  }
}
void bfi(Decoder& d) {
  const Type t = d.take_type();
  if (bits_of(t) != 32 && bits_of(t) != 64) d.unknown(t);
  d.expect_operands(5);
  Instruction i = d.plain(bits_of(t) == 32 ? insert<std::uint32_t> : insert<std::uint64_t>);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.source(3, Type::U32);
  i.extra = d.source(4, Type::U32);
  i.d = d.destination(0, t);
  d.emit(i);
}

void bmsk(Decoder& d) {
  const bool wrap = d.take("wrap");
  if (!wrap && !d.take("clamp")) d.fail("bmsk requires .clamp or .wrap");
  const Type t = d.take_type();
  if (t != Type::B32) d.unknown(t);
  emit(d, wrap ? AluOp::BmskWrap : AluOp::Bmsk, t, t, {t, t});
}
void szext(Decoder& d) {
  const bool wrap = d.take("wrap");
  if (!wrap && !d.take("clamp")) d.fail("szext requires .clamp or .wrap");
  const Type t = d.take_type();
  if (t != Type::U32 && t != Type::S32) d.unknown(t);
  emit(d, wrap ? AluOp::SzextWrap : AluOp::SzextClamp, t, t, {t, Type::U32});
}

// Finds the n-th set bit from `base` on, upwards, or downwards for a negative n.
void find_nth(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint32_t mask = w.reg<std::uint32_t>(i.a)[l], base = w.reg<std::uint32_t>(i.b)[l];
    const auto offset = w.reg<std::int32_t>(i.c)[l];
    std::uint32_t found = ~0u;
    if (base < 32) {
      if (offset == 0) {
        if (mask >> base & 1) found = base;
      } else {
        const int step = offset > 0 ? 1 : -1;
        std::int64_t left = offset > 0 ? offset : -std::int64_t(offset);
        for (int p = static_cast<int>(base); p >= 0 && p < 32; p += step)
          if ((mask >> p & 1) && --left == 0) {
            found = static_cast<std::uint32_t>(p);
            break;
          }
      }
    }
    w.reg<std::uint32_t>(i.d)[l] = found;
  }
}
void fns(Decoder& d) {
  const Type t = d.take_type();
  if (t != Type::B32) d.unknown(t);
  d.expect_operands(4);
  Instruction i = d.plain(find_nth);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.source(3, t);
  i.d = d.destination(0, t);
  d.emit(i);
}

constexpr Opcode bit_table[] = {
    {"and", InstructionClass::Integer, land},
    {"or", InstructionClass::Integer, lor},
    {"xor", InstructionClass::Integer, lxor},
    {"not", InstructionClass::Integer, lnot},
    {"cnot", InstructionClass::Integer, cnot},
    {"lop3", InstructionClass::Integer, lop3},
    {"shl", InstructionClass::Integer, shl},
    {"shr", InstructionClass::Integer, shr},
    {"shf", InstructionClass::Integer, shf},
    {"prmt", InstructionClass::Integer, prmt},
    {"popc", InstructionClass::Integer, count<AluOp::Popc>},
    {"clz", InstructionClass::Integer, count<AluOp::Clz>},
    {"bfind", InstructionClass::Integer, bfind},
    {"brev", InstructionClass::Integer, brev},
    {"bfe", InstructionClass::Integer, bfe},
    {"bfi", InstructionClass::Integer, bfi},
    {"bmsk", InstructionClass::Integer, bmsk},
    {"szext", InstructionClass::Integer, szext},
    {"fns", InstructionClass::Integer, fns},
};

} // namespace

std::span<const Opcode> bit_opcodes() { return bit_table; }

} // namespace kiln::emulator
