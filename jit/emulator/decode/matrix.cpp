// mma.sync, wmma, ldmatrix, stmatrix, movmatrix.
//
// One rule gives the fragments of every mma.sync shape (g = lane / 4, t = lane % 4, p elements in a
// register):
//   A: register 2j+i holds row g+8i, columns p t + 4p j + 0..p-1      (shapes of 8 rows have i = 0 only)
//   B: register j holds rows p t + 4p j + 0..p-1 of column g
//   C and D: element 2i+j is row g+8i, column 2t+j
#include "../access.h"
#include "../number.h"
#include "decoder.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace kiln::emulator {
namespace {

struct Shape {
  int m = 0, n = 0, k = 0;
};

std::optional<Shape> take_shape(Decoder& d, std::initializer_list<std::string_view> names) {
  const std::string_view s = d.take_one_of(names);
  if (s.empty()) return std::nullopt;
  Shape shape;
  int* to = nullptr;
  for (char c : s) {
    if (c == 'm' || c == 'n' || c == 'k')
      to = c == 'm' ? &shape.m : c == 'n' ? &shape.n : &shape.k;
    else
      *to = *to * 10 + (c - '0');
  }
  return shape;
}

float element_value(Type t, std::uint32_t bits) {
  switch (t) {
  case Type::F16: return from_f16(static_cast<std::uint16_t>(bits));
  case Type::BF16: return from_bf16(static_cast<std::uint16_t>(bits));
  case Type::E4M3: return static_cast<float>(decode(bits, format_e4m3));
  case Type::E5M2: return static_cast<float>(decode(bits, format_e5m2));
  default: return std::bit_cast<float>(bits & 0xffffe000); // tf32
  }
}
std::int32_t element_integer(Type t, std::uint32_t bits) {
  return t == Type::S8 ? static_cast<std::int8_t>(bits) : static_cast<std::int32_t>(bits);
}

// Instruction: type: of D; mode, mode2: of A and B; count: M << 16 | K; offset: 1 satfinite, type of C << 8
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

// --- Matrices of 8 x 8 halves
// ---------------------------------------------------------------------------------

// The row addresses that the first 8 * count lanes hold.
Located rows_of(Warp& w, const Participant* all, AccessKind kind) {
  const Instruction& i = *all->instruction;
  const Mask lanes = i.count >= 4 ? all_lanes : (Mask(1) << (8 * i.count)) - 1;
  Located at;
  addresses(w, i, lanes, at.address);
  locate(w, i, lanes & all->lanes, i.space, 16, 16, kind, at);
  return at;
}
void load_matrices(Warp& w, const Participant* all, int) { // mode: 1 transposed
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
  i.a = a.reg;
  i.mode2 = static_cast<std::uint8_t>(a.width);
  i.offset = a.offset;
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

// --- wmma: fragments in an order of our own, as its layout is nobody's business
// ------------------------------- Element n = row * columns + column is element n % (size / 32) of lane n /
// (size / 32).

struct Fragment16 {
  int rows, columns, bits;
  int per_lane() const { return rows * columns / warp_size; }
  int registers() const { return bits == 64 ? per_lane() : std::max(1, per_lane() * bits / 32); }
};
std::uint64_t get(const Participant* all, const std::uint32_t* r, const Fragment16& f, int n) {
  const int lane = n / f.per_lane(), e = n % f.per_lane();
  if (f.bits == 64) return all->reg<std::uint64_t>(r[e])[lane];
  const int p = 32 / f.bits;
  return all->reg<std::uint32_t>(r[e / p])[lane] >> (f.bits * (e % p)) &
         (f.bits == 32 ? ~0u : (1u << f.bits) - 1);
}
void put(const Participant* all, const std::uint32_t* r, const Fragment16& f, int n, std::uint64_t v) {
  const int lane = n / f.per_lane(), e = n % f.per_lane();
  if (f.bits == 64) {
    all->reg<std::uint64_t>(r[e])[lane] = v;
    return;
  }
  const int p = 32 / f.bits, shift = f.bits * (e % p);
  std::uint32_t& word = all->reg<std::uint32_t>(r[e / p])[lane];
  const std::uint32_t mask = (f.bits == 32 ? ~0u : (1u << f.bits) - 1) << shift;
  word = (word & ~mask) | (static_cast<std::uint32_t>(v) << shift & mask);
}

// mode: 1 column-major; count: rows << 16 | columns; b: the stride
void wmma_access(Warp& w, const Participant* all, bool loads) {
  const Instruction& i = *all->instruction;
  const Fragment16 f{static_cast<int>(i.count >> 16), static_cast<int>(i.count & 0xffff),
                     std::max(8, bits_of(i.type))};
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  std::uint64_t base[warp_size];
  addresses(w, i, all->lanes, base);
  const std::uint32_t stride = all->reg<std::uint32_t>(i.b)[0],
                      bytes = static_cast<std::uint32_t>(f.bits) / 8;
  for (int n = 0; n < f.rows * f.columns; n += warp_size) { // a lane for each of 32 elements
    Located at;
    for (int l = 0; l < warp_size; ++l) {
      const auto row = static_cast<std::uint64_t>((n + l) / f.columns),
                 column = static_cast<std::uint64_t>((n + l) % f.columns);
      at.address[l] = base[l] + (i.mode ? column * stride + row : row * stride + column) * bytes;
    }
    locate(w, i, all_lanes, i.space, bytes, bytes, loads ? AccessKind::Read : AccessKind::Write, at);
    for (int l = 0; l < warp_size; ++l) {
      std::uint64_t v = 0;
      if (!(at.lanes >> l & 1)) continue;
      if (loads) {
        std::memcpy(&v, at.host[l], bytes);
        put(all, r, f, n + l, v);
      } else {
        v = get(all, r, f, n + l);
        std::memcpy(at.host[l], &v, bytes);
      }
    }
  }
}
void wmma_load(Warp& w, const Participant* all, int) { wmma_access(w, all, true); }
void wmma_store(Warp& w, const Participant* all, int) { wmma_access(w, all, false); }

// extras: the numbers of registers of d, a, b, c, then they; count: m << 20 | n << 10 | k
void wmma_multiply(Warp& w, const Participant* all, int) {
  const Instruction& i = *all->instruction;
  const int m = static_cast<int>(i.count >> 20), n = static_cast<int>(i.count >> 10 & 1023),
            k = static_cast<int>(i.count & 1023);
  const auto ta = static_cast<Type>(i.mode), tb = static_cast<Type>(i.mode2),
             tc = static_cast<Type>(i.offset >> 8);
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  const std::uint32_t *rd = r + 4, *ra = rd + r[0], *rb = ra + r[1], *rc = rb + r[2];
  auto bits = [](Type t) { return t == Type::TF32 ? 32 : bits_of(t); };
  const Fragment16 fa{m, k, bits(ta)}, fb{k, n, bits(tb)}, fc{m, n, bits(tc)}, fd{m, n, bits(i.type)};
  std::vector<std::uint64_t> out(static_cast<std::size_t>(m * n));
  for (int x = 0; x < m; ++x)
    for (int y = 0; y < n; ++y) {
      const std::uint64_t c = get(all, rc, fc, x * n + y);
      std::uint64_t& to = out[static_cast<std::size_t>(x * n + y)];
      if (ta == Type::F64) {
        double sum = std::bit_cast<double>(c);
        for (int z = 0; z < k; ++z)
          sum = std::fma(std::bit_cast<double>(get(all, ra, fa, x * k + z)),
                         std::bit_cast<double>(get(all, rb, fb, z * n + y)), sum);
        to = std::bit_cast<std::uint64_t>(sum);
      } else if (i.type == Type::S32) {
        std::int64_t sum = static_cast<std::int32_t>(c);
        for (int z = 0; z < k; ++z)
          sum += static_cast<std::int64_t>(
                     element_integer(ta, static_cast<std::uint32_t>(get(all, ra, fa, x * k + z)))) *
                 element_integer(tb, static_cast<std::uint32_t>(get(all, rb, fb, z * n + y)));
        if (i.offset & 1)
          sum = sum > 0x7fffffff                  ? 0x7fffffff
                : sum < -std::int64_t(0x80000000) ? -std::int64_t(0x80000000)
                                                  : sum;
        to = static_cast<std::uint32_t>(sum);
      } else {
        float sum = tc == Type::F16 ? from_f16(static_cast<std::uint16_t>(c))
                                    : std::bit_cast<float>(static_cast<std::uint32_t>(c));
        for (int z = 0; z < k; ++z)
          sum = std::fma(element_value(ta, static_cast<std::uint32_t>(get(all, ra, fa, x * k + z))),
                         element_value(tb, static_cast<std::uint32_t>(get(all, rb, fb, z * n + y))), sum);
        to = i.type == Type::F16 ? to_f16(sum) : std::bit_cast<std::uint32_t>(sum);
      }
    }
  for (int e = 0; e < m * n; ++e)
    put(all, rd, fd, e, out[static_cast<std::size_t>(e)]);
}

void wmma(Decoder& d) {
  const std::string_view what = d.take_one_of({"load", "store", "mma"});
  const std::string_view which = what == "mma" ? std::string_view("d") : d.take_one_of({"a", "b", "c", "d"});
  if (what.empty() || which.empty() || !d.take("sync") || !d.take("aligned")) d.unknown();
  Instruction i = d.start();
  i.step = Step::Collective;
  i.target = no_register;
  const bool first_column = d.statement().opcode.find(".col") != std::string_view::npos;
  d.take("row");
  d.take("row");
  d.take("col");
  d.take("col");
  auto shape = take_shape(d, {"m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4"});
  if (!shape) d.unknown();
  std::vector<std::uint32_t> registers;
  if (what == "mma") {
    i.offset = d.take("satfinite");
    d.take_one_of({"rn", "rz", "rm", "rp"});
    // .f32.f32 for f16 operands, all four types for the others
    std::vector<Type> types;
    for (Type t = d.maybe_type(); t != Type::None; t = d.maybe_type())
      types.push_back(t);
    if (types.size() == 2) types = {types[0], Type::F16, Type::F16, types[1]};
    if (types.size() != 4) d.unknown();
    i.collective = wmma_multiply;
    i.type = types[0];
    i.mode = static_cast<std::uint8_t>(types[1]);
    i.mode2 = static_cast<std::uint8_t>(types[2]);
    i.offset |= static_cast<std::int64_t>(types[3]) << 8;
    i.count = static_cast<std::uint32_t>(shape->m << 20 | shape->n << 10 | shape->k);
    d.expect_operands(4);
    std::vector<std::uint32_t> counts;
    const int rows[] = {shape->m, shape->m, shape->k, shape->m},
              columns[] = {shape->n, shape->k, shape->n, shape->n};
    for (std::size_t n = 0; n < 4; ++n) {
      const Type t = types[n];
      const bool known = t == Type::F16 || t == Type::BF16 || t == Type::TF32 || t == Type::F32 ||
                         t == Type::S32 || t == Type::S8 || t == Type::U8 || t == Type::F64;
      const Fragment16 f{rows[n], columns[n], std::max(8, bits_of(t))};
      const Operand& o = d.operand(n);
      if (!known || o.kind != Operand::Kind::Vector) {
        if (!known || f.registers() != 1) d.unknown();
        registers.push_back(n ? d.source(o, t == Type::F64 ? t : Type::B32)
                              : d.destination(o, t == Type::F64 ? 64 : 32));
        counts.push_back(1);
        continue;
      }
      if (static_cast<int>(o.parts.size()) < f.registers() || o.parts.size() > 32) d.unknown();
      for (const Operand& part : o.parts)
        registers.push_back(n ? d.source(part, t == Type::F64 ? t : Type::B32)
                              : d.destination(part, t == Type::F64 ? 64 : 32));
      counts.push_back(static_cast<std::uint32_t>(o.parts.size()));
    }
    counts.insert(counts.end(), registers.begin(), registers.end());
    i.extra = d.extras(counts);
    return d.emit(i);
  }
  const std::string_view space = d.take_one_of({"global", "shared", "shared::cta"});
  const Type t = d.take_type();
  const bool loads = what == "load";
  if (t != Type::F16 && t != Type::BF16 && t != Type::TF32 && t != Type::F32 && t != Type::S32 &&
      t != Type::S8 && t != Type::U8 && t != Type::F64)
    d.unknown();
  const int rows = which == "b" ? shape->k : shape->m, columns = which == "a" ? shape->k : shape->n;
  const Fragment16 f{rows, columns, bits_of(t)};
  d.expect_operands(2, 3);
  const Operand& data = d.operand(loads ? 0 : 1);
  std::vector<const Operand*> parts;
  if (data.kind == Operand::Kind::Vector)
    for (const Operand& o : data.parts)
      parts.push_back(&o);
  else
    parts.push_back(&data);
  if (static_cast<int>(parts.size()) < f.registers()) d.unknown();
  for (const Operand* o : parts)
    registers.push_back(loads ? d.destination(*o, t == Type::F64 ? 64 : 32)
                              : d.source(*o, t == Type::F64 ? t : Type::B32));
  const Address a = d.address(d.operand(loads ? 1 : 0));
  i.collective = loads ? wmma_load : wmma_store;
  i.type = t;
  i.mode = first_column;
  i.space = space.empty() ? Space::Generic : space == "global" ? Space::Global : Space::Shared;
  i.a = a.reg;
  i.mode2 = static_cast<std::uint8_t>(a.width);
  i.offset = a.offset;
  i.count = static_cast<std::uint32_t>(rows << 16 | columns);
  i.b = d.operands() == 3 ? d.source(2, Type::B32)
                          : d.constant(static_cast<std::uint64_t>(first_column ? rows : columns), 32);
  i.extra = d.extras(registers);
  d.emit(i);
}

constexpr auto tensor = InstructionClass::Tensor;
constexpr Opcode table[] = {{"mma", tensor, mma},
                            {"wmma", tensor, wmma},
                            {"ldmatrix", tensor, ldmatrix},
                            {"stmatrix", tensor, stmatrix},
                            {"movmatrix", tensor, movmatrix}};

} // namespace

std::span<const Opcode> matrix_opcodes() { return table; }

} // namespace kiln::emulator
