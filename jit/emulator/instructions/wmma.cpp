// Decodes and executes wmma.
//
// PTX does not specify which lane has which element of a fragment. Here, element n = row * columns + column
// is element n % (size / 32) of lane n / (size / 32).
#include "matrix.h"
#include <kiln/jit/emulator/core/access.h>

#include <cmath>
#include <cstring>

namespace kiln::emulator {
namespace {

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

// The PTX ISA requires each row or column to start at a multiple of the fragment's bytes in a lane. CUDA's
// functions document that a matrix at a multiple of 32 bytes with a stride that is a multiple of 16 is
// enough. Reports what neither of them allows.
void check_alignment(Warp& w, const Participant* all, bool loads, std::uint64_t base, std::uint64_t stride) {
  const Instruction& i = *all->instruction;
  const std::uint64_t start = std::min(i.c, 32u), step = std::min(i.c, 16u);
  const std::string matrix = loads ? "reads a matrix" : "writes a matrix";
  const auto misaligned = [&](const std::string& what, std::uint64_t multiple) {
    w.execution.add_finding(Fault::Misaligned, w, i, std::countr_zero(all->lanes),
                            matrix + what + ", where a multiple of " + std::to_string(multiple) +
                                " is needed");
  };
  if (base % start)
    misaligned(" at " + hexadecimal(base), start);
  else if (stride % step)
    misaligned(" whose " + std::string(i.mode ? "columns" : "rows") + " are " + std::to_string(stride) +
                   " bytes apart",
               step);
}

// mode: 1 if column-major; count: rows << 16 | columns; b: the stride; c: the fragment's bytes in a lane
void wmma_access(Warp& w, const Participant* all, bool loads) {
  const Instruction& i = *all->instruction;
  const Fragment16 f{static_cast<int>(i.count >> 16), static_cast<int>(i.count & 0xffff),
                     std::max(8, bits_of(i.type))};
  const std::uint32_t* r = all->frame->function->extras.data() + i.extra;
  std::uint64_t base[warp_size];
  addresses(w, i, all->lanes, base);
  const std::uint32_t stride = all->reg<std::uint32_t>(i.b)[0],
                      bytes = static_cast<std::uint32_t>(f.bits) / 8;
  check_alignment(w, all, loads, base[std::countr_zero(all->lanes)], std::uint64_t(stride) * bytes);
  for (int n = 0; n < f.rows * f.columns; n += warp_size) { // one lane for each of 32 elements
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

// extras: the numbers of registers of d, a, b and c, then the registers; count: m << 20 | n << 10 | k
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
    // f16 operands have two types (of d and c), others all four
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
  a.put_into(i);
  i.count = static_cast<std::uint32_t>(rows << 16 | columns);
  i.b = d.operands() == 3 ? d.source(2, Type::B32)
                          : d.constant(static_cast<std::uint64_t>(first_column ? rows : columns), 32);
  i.c = static_cast<std::uint32_t>(registers.size()) * (t == Type::F64 ? 8 : 4);
  i.extra = d.extras(registers);
  d.emit(i);
}

constexpr Opcode wmma_table[] = {{"wmma", InstructionClass::Tensor, wmma}};

} // namespace

std::span<const Opcode> wmma_opcodes() { return wmma_table; }

} // namespace kiln::emulator
