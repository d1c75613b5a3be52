// Decodes and executes mma.sync.
//
// This rule gives the fragments of every shape (g = lane / 4, t = lane % 4, p elements in a register):
//   A: register 2j+i holds row g+8i, columns p t + 4p j + 0..p-1      (shapes of 8 rows have i = 0 only)
//   B: register j holds rows p t + 4p j + 0..p-1 of column g
//   C and D: element 2i+j is row g+8i, column 2t+j
#include "matrix.h"
#include <kiln/jit/emulator/core/warp.h>

#include <cmath>
#include <cstring>

namespace kiln::emulator {
namespace {

// type: of D; mode, mode2: types of A and B; count: M << 16 | K; offset: 1 if satfinite, type of C << 8
struct Product {
  int m, k;
  Type d, a, b, c;
  bool saturate;
  explicit Product(const Instruction& i)
      : m(static_cast<int>(i.count >> 16)), k(static_cast<int>(i.count & 0xffff)), d(i.type),
        a(static_cast<Type>(i.mode)), b(static_cast<Type>(i.mode2)), c(static_cast<Type>(i.offset >> 8)),
        saturate(i.offset & 1) {}
};

void multiply_f32(Warp& w, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  const Product s(i);
  const int bits = s.a == Type::TF32 ? 32 : bits_of(s.a), p = 32 / bits, rows = s.m / 8,
            steps = s.k / (4 * p);
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  const int results = s.d == Type::F16 ? rows : 2 * rows;
  const std::uint32_t *rd = r, *ra = rd + results, *rb = ra + rows * steps, *rc = rb + steps;
  float a[64 * 16], b[64 * 8], d[16 * 8];
  const std::uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  for (int l = 0; l < warp_size; ++l) {
    const int g = l / 4, t = l % 4;
    for (int j = 0; j < steps; ++j) {
      for (int x = 0; x < rows; ++x) {
        const std::uint32_t v = all->reg<std::uint32_t>(ra[rows * j + x])[l];
        for (int e = 0; e < p; ++e)
          a[(p * t + 4 * p * j + e) * s.m + g + 8 * x] = element_value(s.a, v >> (bits * e) & mask);
      }
      const std::uint32_t v = all->reg<std::uint32_t>(rb[j])[l];
      for (int e = 0; e < p; ++e)
        b[(p * t + 4 * p * j + e) * 8 + g] = element_value(s.b, v >> (bits * e) & mask);
    }
    for (int x = 0; x < rows; ++x)
      for (int j = 0; j < 2; ++j)
        d[(g + 8 * x) * 8 + 2 * t + j] =
            s.c == Type::F16
                ? from_f16(static_cast<std::uint16_t>(all->reg<std::uint32_t>(rc[x])[l] >> (16 * j)))
                : all->reg<float>(rc[2 * x + j])[l];
  }
  multiply_add_f32(d, a, b, s.m, 8, s.k);
  for (int l = 0; l < warp_size; ++l) {
    const int g = l / 4, t = l % 4;
    for (int x = 0; x < rows; ++x) {
      const float low = d[(g + 8 * x) * 8 + 2 * t], high = d[(g + 8 * x) * 8 + 2 * t + 1];
      if (s.d == Type::F16) {
        all->reg<std::uint32_t>(rd[x])[l] = static_cast<std::uint32_t>(to_f16(high)) << 16 | to_f16(low);
      } else {
        all->reg<float>(rd[2 * x])[l] = low;
        all->reg<float>(rd[2 * x + 1])[l] = high;
      }
    }
  }
}

void multiply_integers(Warp& w, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  const Product s(i);
  const int rows = s.m / 8, steps = s.k / 16;
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  const std::uint32_t *rd = r, *ra = rd + 2 * rows, *rb = ra + rows * steps, *rc = rb + steps;
  std::int32_t a[16 * 32], b[8 * 32];
  for (int l = 0; l < warp_size; ++l) {
    const int g = l / 4, t = l % 4;
    for (int j = 0; j < steps; ++j)
      for (int e = 0; e < 4; ++e) {
        for (int x = 0; x < rows; ++x)
          a[(g + 8 * x) * s.k + 4 * t + 16 * j + e] =
              element_integer(s.a, all->reg<std::uint32_t>(ra[rows * j + x])[l] >> (8 * e) & 0xff);
        b[g * s.k + 4 * t + 16 * j + e] =
            element_integer(s.b, all->reg<std::uint32_t>(rb[j])[l] >> (8 * e) & 0xff);
      }
  }
  std::int64_t result[2 * 2][warp_size];
  for (int l = 0; l < warp_size; ++l)
    for (int x = 0; x < rows; ++x)
      for (int j = 0; j < 2; ++j) {
        const int row = l / 4 + 8 * x, column = 2 * (l % 4) + j;
        std::int64_t sum = all->reg<std::int32_t>(rc[2 * x + j])[l];
        for (int k = 0; k < s.k; ++k)
          sum += static_cast<std::int64_t>(a[row * s.k + k]) * b[column * s.k + k];
        if (s.saturate)
          sum = sum > 0x7fffffff                  ? 0x7fffffff
                : sum < -std::int64_t(0x80000000) ? -std::int64_t(0x80000000)
                                                  : sum;
        result[2 * x + j][l] = sum;
      }
  for (int k = 0; k < 2 * rows; ++k)
    for (int l = 0; l < warp_size; ++l)
      all->reg<std::int32_t>(rd[k])[l] = static_cast<std::int32_t>(result[k][l]);
}

void multiply_f64(Warp& w, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  const Product s(i);
  const int rows = s.m / 8, steps = s.k / 4;
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  const std::uint32_t *rd = r, *ra = rd + 2 * rows, *rb = ra + rows * steps, *rc = rb + steps;
  double result[4][warp_size];
  for (int l = 0; l < warp_size; ++l)
    for (int x = 0; x < rows; ++x)
      for (int j = 0; j < 2; ++j) {
        double sum = all->reg<double>(rc[2 * x + j])[l];
        for (int k = 0; k < s.k; ++k)
          sum = std::fma(all->reg<double>(ra[rows * (k / 4) + x])[l / 4 * 4 + k % 4],
                         all->reg<double>(rb[k / 4])[(2 * (l % 4) + j) * 4 + k % 4], sum);
        result[2 * x + j][l] = sum;
      }
  for (int k = 0; k < 2 * rows; ++k)
    std::memcpy(all->reg<double>(rd[k]), result[k], sizeof result[k]);
}

bool fits(const Shape& s, Type t) {
  auto is = [&](int m, int k) { return s.m == m && s.k == k; };
  switch (t) {
  case Type::F16:
  case Type::BF16: return is(16, 8) || is(16, 16);
  case Type::TF32: return is(16, 4) || is(16, 8);
  case Type::S8:
  case Type::U8: return is(8, 16) || is(16, 16) || is(16, 32);
  case Type::E4M3:
  case Type::E5M2: return is(16, 16) || is(16, 32);
  case Type::F64: return is(8, 4) || is(16, 4) || is(16, 8) || is(16, 16);
  default: return false;
  }
}

void mma(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned")) d.unknown();
  auto shape = take_shape(d, {"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4", "m8n8k16"});
  if (!shape || !d.take("row") || !d.take("col")) d.unknown();
  const bool saturate = d.take("satfinite");
  const Type td = d.take_type(), ta = d.take_type(), tb = d.take_type(), tc = d.take_type();
  if (!fits(*shape, ta)) d.unknown();
  const bool integer = ta == Type::S8 || ta == Type::U8, f8 = ta == Type::E4M3 || ta == Type::E5M2;
  const bool same_kind = integer ? tb == Type::S8 || tb == Type::U8
                         : f8    ? tb == Type::E4M3 || tb == Type::E5M2
                                 : ta == tb;
  const bool results = integer                 ? td == Type::S32 && tc == Type::S32
                       : ta == Type::F64       ? td == Type::F64 && tc == Type::F64
                       : ta == Type::F16 || f8 ? (td == Type::F32 || td == Type::F16) && td == tc
                                               : td == Type::F32 && tc == Type::F32;
  if (!same_kind || !results) d.unknown();
  d.expect_operands(4);
  const bool f64 = ta == Type::F64;
  const int p = f64 || ta == Type::TF32 ? 1 : 32 / bits_of(ta), rows = shape->m / 8,
            steps = shape->k / (4 * p);
  const Type element = f64 ? Type::F64 : Type::B32;
  const int sum = td == Type::F16 ? rows : 2 * rows;
  std::vector<std::uint32_t> registers;
  for (const Operand* o : d.vector(d.operand(0), static_cast<std::size_t>(sum)))
    registers.push_back(d.destination(*o, bits_of(element)));
  for (const Operand* o : d.vector(d.operand(1), static_cast<std::size_t>(rows * steps)))
    registers.push_back(d.source(*o, element));
  for (const Operand* o : d.vector(d.operand(2), static_cast<std::size_t>(steps)))
    registers.push_back(d.source(*o, element));
  for (const Operand* o : d.vector(d.operand(3), static_cast<std::size_t>(sum)))
    registers.push_back(d.source(*o, element));
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = integer ? multiply_integers : f64 ? multiply_f64 : multiply_f32;
  i.target = no_register;
  i.type = td;
  i.mode = static_cast<std::uint8_t>(ta);
  i.mode2 = static_cast<std::uint8_t>(tb);
  i.offset = static_cast<std::int64_t>(tc) << 8 | saturate;
  i.count = static_cast<std::uint32_t>(shape->m << 16 | shape->k);
  i.extra = d.extras(registers);
  d.emit(i);
}

constexpr Opcode mma_table[] = {{"mma", InstructionClass::Tensor, mma}};

} // namespace

std::span<const Opcode> mma_opcodes() { return mma_table; }

} // namespace kiln::emulator
