// Decodes setp, set, selp, slct and testp.
#include "decoder.h"
#include <kiln/jit/emulator/core/warp.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace kiln::emulator {
namespace {

enum Combine : std::uint8_t { None, And, Or, Xor };
Mask combined(std::uint8_t how, Mask r, Mask with) {
  return how == And ? r & with : how == Or ? r | with : how == Xor ? r ^ with : r;
}

// p|q = a op b, combined with c. extra: the register of q; mode: the combination
void set_predicates(Warp& w, const Instruction& i, Mask m) {
  const Mask r = i.compare(w.reg<char>(i.a), w.reg<char>(i.b));
  const Mask with = i.mode ? w.pred(i.c) : 0;
  const Mask p = combined(i.mode, r, with), q = combined(i.mode, ~r, with);
  Mask& d = w.pred(i.d);
  d = (d & ~m) | (p & m);
  if (i.extra != no_register) {
    Mask& e = w.pred(i.extra);
    e = (e & ~m) | (q & m);
  }
}

std::uint8_t take_combination(Decoder& d) {
  const std::string_view how = d.take_one_of({"and", "or", "xor"});
  return how == "and" ? And : how == "or" ? Or : how == "xor" ? Xor : None;
}

std::pair<Comparison, bool> take_comparison(Decoder& d, bool& unsigned_order) {
  static constexpr std::pair<std::string_view, Comparison> names[] = {
      {"eq", Comparison::Eq},   {"ne", Comparison::Ne},   {"lt", Comparison::Lt},   {"le", Comparison::Le},
      {"gt", Comparison::Gt},   {"ge", Comparison::Ge},   {"equ", Comparison::Equ}, {"neu", Comparison::Neu},
      {"ltu", Comparison::Ltu}, {"leu", Comparison::Leu}, {"gtu", Comparison::Gtu}, {"geu", Comparison::Geu},
      {"num", Comparison::Num}, {"nan", Comparison::Nan}};
  for (auto& [name, c] : names)
    if (d.take(name)) return {c, true};
  static constexpr std::pair<std::string_view, Comparison> of_unsigned[] = {
      {"lo", Comparison::Lt}, {"ls", Comparison::Le}, {"hi", Comparison::Gt}, {"hs", Comparison::Ge}};
  for (auto& [name, c] : of_unsigned)
    if (d.take(name)) {
      unsigned_order = true;
      return {c, true};
    }
  d.fail(quoted(d.statement().opcode) + " lacks a comparison");
}

Type as_unsigned(Type t) {
  switch (bits_of(t)) {
  case 16: return Type::U16;
  case 32: return Type::U32;
  default: return Type::U64;
  }
}

CompareLanes lanes_of(Decoder& d, Comparison c, Type t, bool unsigned_order, bool flush, bool high = false) {
  if (unsigned_order && !ptx::is_float(t)) t = as_unsigned(t);
  CompareLanes f = high ? comparison_high(c, t, flush) : comparison(c, t, flush);
  if (!f) d.unknown(t);
  return f;
}

void setp(Decoder& d) {
  bool unsigned_order = false;
  const Comparison c = take_comparison(d, unsigned_order).first;
  const std::uint8_t how = take_combination(d);
  const bool flush = d.take("ftz");
  const Type t = d.take_type();
  if (t == Type::Pred) d.unknown(t);
  d.expect_operands(how ? 4 : 3);
  const Operand& to = d.operand(0);
  Instruction i = d.plain(set_predicates);
  i.mode = how;
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  if (how) i.c = d.predicate(d.operand(3));
  const bool packed = t == Type::F16x2 || t == Type::BF16x2;
  const bool pair = to.kind == Operand::Kind::Pair;
  if (packed) { // p is for the lower halves, q for the upper ones
    if (!pair) d.fail("setp of a packed type writes p|q");
    i.extra = no_register;
    Instruction high = i;
    i.compare = lanes_of(d, c, t, false, flush);
    i.d = d.destination(to.parts[0], 1);
    high.compare = lanes_of(d, c, t, false, flush, true);
    high.d = d.destination(to.parts[1], 1);
    if (how && i.d == i.c) { // the second must still see c
      Instruction keep = d.plain([](Warp& w, const Instruction& x, Mask m) {
        w.pred(x.d) = (w.pred(x.d) & ~m) | (w.pred(x.a) & m);
      });
      keep.a = i.c;
      keep.d = d.temporary(1);
      high.c = keep.d;
      d.emit(keep);
    }
    d.emit(i);
    d.emit(high);
    return;
  }
  i.compare = lanes_of(d, c, t, unsigned_order, flush);
  i.d = d.destination(pair ? to.parts[0] : to, 1);
  i.extra = pair ? d.destination(to.parts[1], 1) : no_register;
  d.emit(i);
}

// d = all ones, or 1.0, where a op b holds, and 0 elsewhere
void set_values(Warp& w, const Instruction& i, Mask m) {
  const Mask r = combined(i.mode, i.compare(w.reg<char>(i.a), w.reg<char>(i.b)), i.mode ? w.pred(i.c) : 0);
  const auto bits = static_cast<std::uint32_t>(i.offset);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const std::uint32_t v = r >> l & 1 ? bits : 0;
    if (i.mode2 == 16)
      w.reg<std::uint16_t>(i.d)[l] = static_cast<std::uint16_t>(v);
    else
      w.reg<std::uint32_t>(i.d)[l] = v;
  }
}
// The same for each half.
// compare: of the lower half; count: the Comparison of the upper half.
void set_packed(Warp& w, const Instruction& i, Mask m) {
  const CompareLanes high = comparison_high(static_cast<Comparison>(i.count), i.type, i.offset >> 32 & 1);
  const Mask with = i.mode ? w.pred(i.c) : 0;
  const Mask low_r = combined(i.mode, i.compare(w.reg<char>(i.a), w.reg<char>(i.b)), with);
  const Mask high_r = combined(i.mode, high(w.reg<char>(i.a), w.reg<char>(i.b)), with);
  const auto bits = static_cast<std::uint32_t>(i.offset & 0xffff);
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1)
      w.reg<std::uint32_t>(i.d)[l] = (low_r >> l & 1 ? bits : 0) | (high_r >> l & 1 ? bits << 16 : 0);
}

void set(Decoder& d) {
  bool unsigned_order = false;
  const Comparison c = take_comparison(d, unsigned_order).first;
  const std::uint8_t how = take_combination(d);
  const bool flush = d.take("ftz");
  const Type to = d.take_type(), t = d.take_type();
  d.expect_operands(how ? 4 : 3);
  const bool packed = t == Type::F16x2 || t == Type::BF16x2;
  Instruction i = d.plain(packed ? set_packed : set_values);
  i.compare = lanes_of(d, c, t, unsigned_order, flush);
  i.mode = how;
  i.mode2 = static_cast<std::uint8_t>(bits_of(to));
  i.type = t;
  switch (to) {
  case Type::U32:
  case Type::S32: i.offset = packed ? 0xffff : 0xffffffff; break;
  case Type::U16:
  case Type::S16: i.offset = 0xffff; break;
  case Type::F32: i.offset = 0x3f800000; break;
  case Type::F16:
  case Type::F16x2: i.offset = 0x3c00; break;
  case Type::BF16:
  case Type::BF16x2: i.offset = 0x3f80; break;
  default: d.unknown(to);
  }
  if (packed) {
    if (bits_of(to) != 32) d.unknown(to);
    i.count = static_cast<std::uint32_t>(c);
    i.offset |= std::int64_t(flush) << 32;
  }
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  if (how) i.c = d.predicate(d.operand(3));
  i.d = d.destination(0, to);
  d.emit(i);
}

void selp(Decoder& d) {
  const Type t = d.take_type();
  Handler h = alu_handler(AluOp::Selp, t, false);
  if (!h) d.unknown(t);
  d.expect_operands(4);
  Instruction i = d.plain(h);
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.predicate(d.operand(3));
  i.d = d.destination(0, t);
  d.emit(i);
}

// d = c >= 0 ? a : b
template <class T, class C> void select_by_sign(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    C c = w.reg<C>(i.c)[l];
    if (std::is_same_v<C, float> && i.mode && std::fpclassify(c) == FP_SUBNORMAL) c = 0;
    w.reg<T>(i.d)[l] = c >= 0 ? w.reg<T>(i.a)[l] : w.reg<T>(i.b)[l];
  }
}
void slct(Decoder& d) {
  const bool flush = d.take("ftz");
  const Type t = d.take_type(), c = d.take_type();
  if (c != Type::S32 && c != Type::F32) d.unknown(c);
  Handler h = nullptr;
  const bool f = c == Type::F32;
  switch (bits_of(t)) {
  case 16: h = f ? select_by_sign<std::uint16_t, float> : select_by_sign<std::uint16_t, std::int32_t>; break;
  case 32: h = f ? select_by_sign<std::uint32_t, float> : select_by_sign<std::uint32_t, std::int32_t>; break;
  case 64: h = f ? select_by_sign<std::uint64_t, float> : select_by_sign<std::uint64_t, std::int32_t>; break;
  default: d.unknown(t);
  }
  d.expect_operands(4);
  Instruction i = d.plain(h);
  i.mode = flush;
  i.a = d.source(1, t);
  i.b = d.source(2, t);
  i.c = d.source(3, c);
  i.d = d.destination(0, t);
  d.emit(i);
}

enum Test : std::uint8_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };
template <class T> void test(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const T v = w.reg<T>(i.a)[l];
    const int k = std::fpclassify(v);
    bool r = false;
    switch (i.mode) {
    case Finite: r = std::isfinite(v); break;
    case Infinite: r = k == FP_INFINITE; break;
    case Number: r = k != FP_NAN; break;
    case NotANumber: r = k == FP_NAN; break;
    case Normal: r = k == FP_NORMAL; break;
    case Subnormal: r = k == FP_SUBNORMAL; break;
    }
    w.pred(i.d) = (w.pred(i.d) & ~(Mask(1) << l)) | Mask(r) << l;
  }
}
void testp(Decoder& d) {
  static constexpr std::pair<std::string_view, Test> names[] = {
      {"finite", Finite},         {"infinite", Infinite}, {"number", Number},
      {"notanumber", NotANumber}, {"normal", Normal},     {"subnormal", Subnormal}};
  int which = -1;
  for (auto& [name, k] : names)
    if (d.take(name)) which = k;
  const Type t = d.take_type();
  if (which < 0 || (t != Type::F32 && t != Type::F64)) d.unknown(t);
  d.expect_operands(2);
  Instruction i = d.plain(t == Type::F32 ? test<float> : test<double>);
  i.mode = static_cast<std::uint8_t>(which);
  i.a = d.source(1, t);
  i.d = d.destination(0, Type::Pred);
  d.emit(i);
}

constexpr auto compare = InstructionClass::Comparison;
constexpr Opcode comparison_table[] = {
    {"setp", compare, setp}, {"set", compare, set},     {"selp", compare, selp},
    {"slct", compare, slct}, {"testp", compare, testp},
};

} // namespace

std::span<const Opcode> comparison_opcodes() { return comparison_table; }

} // namespace kiln::emulator
