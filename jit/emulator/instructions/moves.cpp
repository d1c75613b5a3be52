// Decodes and executes mov, also from vectors to one register and back.
#include "decoder.h"
#include <kiln/jit/emulator/core/warp.h>

namespace kiln::emulator {
namespace {

void move_pred(Warp& w, const Instruction& i, Mask m) {
  w.pred(i.d) = (w.pred(i.d) & ~m) | (w.pred(i.a) & m);
}
void move128(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) w.reg<unsigned __int128>(i.d)[l] = w.reg<unsigned __int128>(i.a)[l];
}

// Whole: the type of the one register; Part: the type of the elements, of which the first is least
// significant.
template <class Whole, class Part> void pack(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* parts = w.extras(i);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    Whole v = 0;
    for (std::uint32_t k = 0; k < i.count; ++k)
      v |= static_cast<Whole>(static_cast<Whole>(w.reg<Part>(parts[k])[l]) << (k * sizeof(Part) * 8));
    w.reg<Whole>(i.d)[l] = v;
  }
}
template <class Whole, class Part> void unpack(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* parts = w.extras(i);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const Whole v = w.reg<Whole>(i.a)[l];
    for (std::uint32_t k = 0; k < i.count; ++k)
      w.reg<Part>(parts[k])[l] = static_cast<Part>(v >> (k * sizeof(Part) * 8));
  }
}
// Elements of 8 bits live in registers of 16.
template <class Whole> void pack8(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* parts = w.extras(i);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    Whole v = 0;
    for (std::uint32_t k = 0; k < i.count; ++k)
      v |= static_cast<Whole>(static_cast<Whole>(w.reg<std::uint16_t>(parts[k])[l] & 0xff) << (k * 8));
    w.reg<Whole>(i.d)[l] = v;
  }
}
template <class Whole> void unpack8(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* parts = w.extras(i);
  for (int l = 0; l < warp_size; ++l) {
    if (!(m >> l & 1)) continue;
    const Whole v = w.reg<Whole>(i.a)[l];
    for (std::uint32_t k = 0; k < i.count; ++k)
      w.reg<std::uint16_t>(parts[k])[l] = static_cast<std::uint16_t>(v >> (k * 8) & 0xff);
  }
}

template <class Whole> Handler packer(int part, bool packs) {
  switch (part) {
  case 8: return packs ? pack8<Whole> : unpack8<Whole>;
  case 16: return packs ? pack<Whole, std::uint16_t> : unpack<Whole, std::uint16_t>;
  case 32: return packs ? pack<Whole, std::uint32_t> : unpack<Whole, std::uint32_t>;
  case 64: return packs ? pack<Whole, std::uint64_t> : unpack<Whole, std::uint64_t>;
  default: return nullptr;
  }
}

void mov(Decoder& d) {
  const Type t = d.take_type();
  d.expect_operands(2);
  const Operand &to = d.operand(0), &from = d.operand(1);
  const bool packs = from.kind == Operand::Kind::Vector, unpacks = to.kind == Operand::Kind::Vector;
  if (packs && unpacks) d.fail("a mov from vector to vector does not exist");
  if (packs || unpacks) {
    const auto& parts = packs ? from.parts : to.parts;
    const int whole = bits_of(t), n = static_cast<int>(parts.size());
    if ((n != 2 && n != 4) || whole % n || whole / n < 8)
      d.fail("mov of " + std::to_string(n) + " elements to or from ." + std::string(name_of(t)) +
             " does not exist");
    const int part = whole / n;
    Handler h = whole == 16   ? packer<std::uint16_t>(part, packs)
                : whole == 32 ? packer<std::uint32_t>(part, packs)
                : whole == 64 ? packer<std::uint64_t>(part, packs)
                              : packer<unsigned __int128>(part, packs);
    Instruction i = d.plain(h);
    const Type element = part == 8 ? Type::B8 : part == 16 ? Type::B16 : part == 32 ? Type::B32 : Type::B64;
    std::vector<std::uint32_t> registers;
    for (const Operand& o : parts)
      registers.push_back(packs ? d.source(o, element) : d.destination(o, part));
    if (packs)
      i.d = d.destination(0, t);
    else
      i.a = d.source(1, t);
    i.count = static_cast<std::uint32_t>(n);
    i.extra = d.extras(registers);
    return d.emit(i);
  }
  Instruction i = d.start();
  if (t == Type::Pred) {
    i.run = move_pred;
    i.a = d.predicate(from);
  } else {
    // every other mov copies bits
    i.run = t == Type::B128 ? move128
                            : alu_handler(AluOp::Move,
                                          bits_of(t) == 16   ? Type::B16
                                          : bits_of(t) == 32 ? Type::B32
                                                             : Type::B64,
                                          false);
    if (bits_of(t) == 8) d.fail("mov of 8 bits does not exist");
    i.a = d.source(from, t);
  }
  i.d = d.destination(0, t);
  d.emit(i);
}

constexpr Opcode move_table[] = {{"mov", InstructionClass::Move, mov}};

} // namespace

std::span<const Opcode> move_opcodes() { return move_table; }

} // namespace kiln::emulator
