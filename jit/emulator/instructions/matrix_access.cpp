// Decodes and executes ldmatrix, stmatrix and movmatrix, for matrices of 8 x 8 elements of 16 bits.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>

#include <cstring>

namespace kiln::emulator {
namespace {

// Locates the rows, whose addresses the first 8 * count lanes hold.
Located rows_of(Warp& w, const Participant* all, AccessKind kind) {
  const Instruction& i = *all->instruction;
  const Mask lanes = i.count >= 4 ? all_lanes : (Mask(1) << (8 * i.count)) - 1;
  Located at;
  addresses(w, i, lanes, at.address);
  locate(w, i, lanes & all->lanes, i.space, 16, 16, kind, at);
  return at;
}
void load_matrices(Warp& w, const Participant* all, int) { // mode: 1 if transposed
  const Instruction& i = *all->instruction;
  const Located at = rows_of(w, all, AccessKind::Read);
  std::uint16_t m[4][8][8] = {};
  for (std::uint32_t q = 0; q < i.count; ++q)
    for (std::uint32_t row = 0; row < 8; ++row)
      if (at.lanes >> (8 * q + row) & 1) std::memcpy(m[q][row], at.host[8 * q + row], 16);
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  for (std::uint32_t q = 0; q < i.count; ++q)
    for (int l = 0; l < warp_size; ++l) {
      const int g = l / 4, t = l % 4;
      const std::uint32_t low = i.mode ? m[q][2 * t][g] : m[q][g][2 * t],
                          high = i.mode ? m[q][2 * t + 1][g] : m[q][g][2 * t + 1];
      all->reg<std::uint32_t>(r[q])[l] = high << 16 | low;
    }
}
void store_matrices(Warp& w, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  std::uint16_t m[4][8][8];
  for (std::uint32_t q = 0; q < i.count; ++q)
    for (int l = 0; l < warp_size; ++l) {
      const std::uint32_t v = all->reg<std::uint32_t>(r[q])[l];
      for (int e = 0; e < 2; ++e)
        (i.mode ? m[q][2 * (l % 4) + e][l / 4] : m[q][l / 4][2 * (l % 4) + e]) =
            static_cast<std::uint16_t>(v >> (16 * e));
    }
  const Located at = rows_of(w, all, AccessKind::Write);
  for (std::uint32_t q = 0; q < i.count; ++q)
    for (std::uint32_t row = 0; row < 8; ++row)
      if (at.lanes >> (8 * q + row) & 1) std::memcpy(at.host[8 * q + row], m[q][row], 16);
}
void move_matrix(Warp&, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  std::uint16_t m[8][8];
  for (int l = 0; l < warp_size; ++l)
    for (int e = 0; e < 2; ++e)
      m[l / 4][2 * (l % 4) + e] = static_cast<std::uint16_t>(all->reg<std::uint32_t>(i.a)[l] >> (16 * e));
  for (int l = 0; l < warp_size; ++l)
    all->reg<std::uint32_t>(i.d)[l] =
        static_cast<std::uint32_t>(m[2 * (l % 4) + 1][l / 4]) << 16 | m[2 * (l % 4)][l / 4];
}

void matrix_access(Decoder& d, bool loads) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8")) d.unknown();
  const std::string_view n = d.take_one_of({"x1", "x2", "x4"});
  const bool transposed = d.take("trans");
  const std::string_view space = d.take_one_of({"shared", "shared::cta"});
  if (n.empty() || d.take_type() != Type::B16) d.unknown();
  d.expect_operands(2);
  const Address a = d.address(d.operand(loads ? 1 : 0));
  std::vector<std::uint32_t> registers;
  const auto count = static_cast<std::uint32_t>(n[1] - '0');
  for (const Operand* o : d.vector(d.operand(loads ? 0 : 1), count))
    registers.push_back(loads ? d.destination(*o, 32) : d.source(*o, Type::B32));
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = loads ? load_matrices : store_matrices;
  i.target = no_register;
  i.mode = transposed;
  i.space = space.empty() ? Space::Generic : Space::Shared;
  a.put_into(i);
  if (space.empty() && a.space) i.space = *a.space;
  i.count = count;
  i.extra = d.extras(registers);
  d.emit(i);
}
void ldmatrix(Decoder& d) {
  d.set_class(InstructionClass::Load);
  matrix_access(d, true);
}
void stmatrix(Decoder& d) {
  d.set_class(InstructionClass::Store);
  matrix_access(d, false);
}
void movmatrix(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8") || !d.take("trans") ||
      d.take_type() != Type::B16)
    d.unknown();
  d.expect_operands(2);
  d.set_class(InstructionClass::WarpWide);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = move_matrix;
  i.target = no_register;
  i.a = d.source(1, Type::B32);
  i.d = d.destination(0, Type::B32);
  d.emit(i);
}

constexpr Opcode matrix_table[] = {{"ldmatrix", InstructionClass::Tensor, ldmatrix},
                                   {"stmatrix", InstructionClass::Tensor, stmatrix},
                                   {"movmatrix", InstructionClass::Tensor, movmatrix}};

} // namespace

std::span<const Opcode> matrix_opcodes() { return matrix_table; }

} // namespace kiln::emulator
