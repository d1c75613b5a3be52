// Decodes and executes warp-wide instructions: shfl, vote, match, redux, activemask, elect.
#include "decoder.h"
#include <kiln/jit/emulator/core/block.h>

#include <bit>

namespace kiln::emulator {
namespace {

template <class F> void each_lane(const Participant* p, int n, F f) {
  for (int k = 0; k < n; ++k)
    for (Mask rest = p[k].lanes; rest; rest &= rest - 1)
      f(p[k], std::countr_zero(rest));
}
Mask together(const Participant* p, int n) {
  Mask all = 0;
  for (int k = 0; k < n; ++k)
    all |= p[k].lanes;
  return all;
}
void synchronised(Warp& w, const Participant* p, int n) {
  if (w.execution.probe) w.execution.probe->warp_synchronised(w, together(p, n));
}
void set_bit(Mask& m, int lane, bool v) { m = (m & ~(Mask(1) << lane)) | Mask(v) << lane; }

enum Shuffle : std::uint8_t { Up, Down, Butterfly, Index };

// d|p = a of the lane that b selects, within the segments of c. extra: the register of p
void shuffle(Warp& w, const Participant* p, int n) {
  synchronised(w, p, n);
  std::uint32_t value[warp_size] = {};
  each_lane(p, n, [&](const Participant& x, int l) { value[l] = x.reg<std::uint32_t>(x.instruction->a)[l]; });
  const Mask present = together(p, n);
  int source[warp_size] = {};
  bool unwritten = false;
  each_lane(p, n, [&](const Participant& x, int l) {
    const Instruction& i = *x.instruction;
    unwritten |= x.frame->unwritten != nullptr;
    const std::uint32_t b = x.reg<std::uint32_t>(i.b)[l] & 31, c = x.reg<std::uint32_t>(i.c)[l];
    const int clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
    const int highest = (l & segment) | (clamp & ~segment), lowest = l & segment;
    int from = 0;
    bool inside = false;
    switch (i.mode) {
    case Up:
      from = l - static_cast<int>(b);
      inside = from >= highest;
      break;
    case Down:
      from = l + static_cast<int>(b);
      inside = from <= highest;
      break;
    case Butterfly:
      from = l ^ static_cast<int>(b);
      inside = from <= highest;
      break;
    default:
      from = lowest | (static_cast<int>(b) & ~segment);
      inside = from <= highest;
      break;
    }
    if (!inside) from = l;
    if (!(present >> from & 1))
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              "reads lane " + std::to_string(from) +
                                  ", which does not take part: the result is undefined");
    x.reg<std::uint32_t>(i.d)[l] = value[from];
    source[l] = from;
    if (i.extra != no_register) set_bit(*x.reg<Mask>(i.extra), l, inside);
  });
  if (unwritten) shuffle_unwritten(p, n, source);
}

void shfl(Decoder& d) {
  if (!d.take("sync")) d.fail("shfl requires .sync");
  const std::string_view mode = d.take_one_of({"up", "down", "bfly", "idx"});
  const Type t = d.take_type();
  if (mode.empty() || bits_of(t) != 32) d.unknown(t);
  d.expect_operands(5);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = shuffle;
  i.mode = mode == "up" ? Up : mode == "down" ? Down : mode == "bfly" ? Butterfly : Index;
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::Pair;
  i.a = d.source(1, t);
  i.b = d.source(2, Type::B32);
  i.c = d.source(3, Type::B32);
  i.target = d.source(4, Type::B32);
  i.d = d.destination(pair ? to.parts[0] : to, 32);
  i.extra = pair ? d.destination(to.parts[1], 1) : no_register;
  d.emit(i);
}

enum Vote : std::uint8_t { All, Any, Uniform, Ballot };
void vote(Warp& w, const Participant* p, int n) {
  synchronised(w, p, n);
  Mask yes = 0;
  const Mask present = together(p, n);
  each_lane(p, n,
            [&](const Participant& x, int l) { yes |= *x.reg<Mask>(x.instruction->a) & (Mask(1) << l); });
  each_lane(p, n, [&](const Participant& x, int l) {
    const Instruction& i = *x.instruction;
    if (i.mode == Ballot)
      x.reg<std::uint32_t>(i.d)[l] = yes;
    else
      set_bit(*x.reg<Mask>(i.d), l,
              i.mode == All   ? yes == present
              : i.mode == Any ? yes != 0
                              : yes == 0 || yes == present);
  });
}
void vote_sync(Decoder& d) {
  if (!d.take("sync")) d.fail("vote requires .sync");
  const std::string_view mode = d.take_one_of({"all", "any", "uni", "ballot"});
  const Type t = d.take_type();
  if (mode.empty() || (mode == "ballot") != (t == Type::B32) || (mode != "ballot" && t != Type::Pred))
    d.unknown(t);
  d.expect_operands(3);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = vote;
  i.mode = mode == "all" ? All : mode == "any" ? Any : mode == "uni" ? Uniform : Ballot;
  i.a = d.predicate(d.operand(1));
  i.target = d.source(2, Type::B32);
  i.d = d.destination(0, t);
  d.emit(i);
}

template <class T> void match(Warp& w, const Participant* p, int n) { // mode: 1 for .all
  synchronised(w, p, n);
  T value[warp_size] = {};
  const Mask present = together(p, n);
  each_lane(p, n, [&](const Participant& x, int l) { value[l] = x.reg<T>(x.instruction->a)[l]; });
  each_lane(p, n, [&](const Participant& x, int l) {
    const Instruction& i = *x.instruction;
    Mask same = 0;
    for (Mask rest = present; rest; rest &= rest - 1)
      if (value[std::countr_zero(rest)] == value[l]) same |= rest & (~rest + 1);
    if (i.mode && same != present) same = 0;
    x.reg<std::uint32_t>(i.d)[l] = same;
    if (i.extra != no_register) set_bit(*x.reg<Mask>(i.extra), l, same != 0);
  });
}
void match_sync(Decoder& d) {
  const bool all = d.take("all");
  if ((!all && !d.take("any")) || !d.take("sync")) d.fail("match requires .any or .all, and .sync");
  const Type t = d.take_type();
  if (bits_of(t) != 32 && bits_of(t) != 64) d.unknown(t);
  d.expect_operands(3);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = bits_of(t) == 32 ? match<std::uint32_t> : match<std::uint64_t>;
  i.mode = all;
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::Pair;
  if (pair && !all) d.fail("match.any has no predicate");
  i.a = d.source(1, t);
  i.target = d.source(2, Type::B32);
  i.d = d.destination(pair ? to.parts[0] : to, 32);
  i.extra = pair ? d.destination(to.parts[1], 1) : no_register;
  d.emit(i);
}

enum Reduction : std::uint8_t { Sum, Minimum, Maximum, And, Or, Xor };
void reduce(Warp& w, const Participant* p, int n) {
  synchronised(w, p, n);
  const Instruction& how = *p[0].instruction;
  std::uint32_t r = 0;
  bool first = true;
  each_lane(p, n, [&](const Participant& x, int l) {
    const std::uint32_t v = x.reg<std::uint32_t>(x.instruction->a)[l];
    if (first) {
      r = v;
      first = false;
      return;
    }
    const bool s = how.type == Type::S32;
    const bool less = s ? static_cast<std::int32_t>(v) < static_cast<std::int32_t>(r) : v < r;
    switch (how.mode) {
    case Sum: r += v; break;
    case Minimum: r = less ? v : r; break;
    case Maximum: r = less ? r : v; break;
    case And: r &= v; break;
    case Or: r |= v; break;
    default: r ^= v; break;
    }
  });
  each_lane(p, n, [&](const Participant& x, int l) { x.reg<std::uint32_t>(x.instruction->d)[l] = r; });
}
void redux(Decoder& d) {
  if (!d.take("sync")) d.fail("redux requires .sync");
  const std::string_view op = d.take_one_of({"add", "min", "max", "and", "or", "xor"});
  const Type t = d.take_type();
  const bool logic = op == "and" || op == "or" || op == "xor";
  if (op.empty() || bits_of(t) != 32 || ptx::is_float(t) || logic != (t == Type::B32)) d.unknown(t);
  d.expect_operands(3);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = reduce;
  i.type = t;
  i.mode = op == "add"   ? Sum
           : op == "min" ? Minimum
           : op == "max" ? Maximum
           : op == "and" ? And
           : op == "or"  ? Or
                         : Xor;
  i.a = d.source(1, t);
  i.target = d.source(2, Type::B32);
  i.d = d.destination(0, t);
  d.emit(i);
}

void activemask(Decoder& d) {
  const Type t = d.take_type();
  if (t != Type::B32) d.unknown(t);
  d.expect_operands(1);
  Instruction i = d.plain([](Warp& w, const Instruction& x, Mask m) {
    for (Mask rest = m; rest; rest &= rest - 1)
      w.reg<std::uint32_t>(x.d)[std::countr_zero(rest)] = m;
  });
  i.d = d.destination(0, t);
  d.emit(i);
}

// d|p: p is true for one of the members, whose lane is d
void elect(Warp& w, const Participant* p, int n) {
  synchronised(w, p, n);
  const int leader = std::countr_zero(together(p, n));
  each_lane(p, n, [&](const Participant& x, int l) {
    const Instruction& i = *x.instruction;
    if (i.d != no_register) x.reg<std::uint32_t>(i.d)[l] = static_cast<std::uint32_t>(leader);
    set_bit(*x.reg<Mask>(i.extra), l, l == leader);
  });
}
void elect_sync(Decoder& d) {
  if (!d.take("sync")) d.fail("elect requires .sync");
  d.expect_operands(2);
  const Operand& to = d.operand(0);
  if (to.kind != Operand::Kind::Pair) d.fail("elect.sync writes d|p");
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = elect;
  i.target = d.source(1, Type::B32);
  i.d = to.parts[0].kind == Operand::Kind::Sink ? no_register : d.destination(to.parts[0], 32);
  i.extra = d.destination(to.parts[1], 1);
  d.emit(i);
}

constexpr auto wide = InstructionClass::WarpWide;
constexpr Opcode warp_table[] = {
    {"shfl", wide, shfl},   {"vote", wide, vote_sync},        {"match", wide, match_sync},
    {"redux", wide, redux}, {"activemask", wide, activemask}, {"elect", wide, elect_sync},
};

} // namespace

std::span<const Opcode> warp_opcodes() { return warp_table; }

} // namespace kiln::emulator
