// Decodes and executes atom and red. Lanes act one after the other, starting at a random lane.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/number.h>

#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

enum class AtomicOp : std::uint8_t { Add, Min, Max, And, Or, Xor, Exch, Cas, Inc, Dec };
using U128 = unsigned __int128;

template <class T> T combine(AtomicOp op, T old, T b, T c) { // integers
  switch (op) {
  case AtomicOp::Add:
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                          static_cast<std::make_unsigned_t<T>>(b));
  case AtomicOp::Min: return old < b ? old : b;
  case AtomicOp::Max: return old > b ? old : b;
  case AtomicOp::And: return old & b;
  case AtomicOp::Or: return old | b;
  case AtomicOp::Xor: return old ^ b;
  case AtomicOp::Exch: return b;
  case AtomicOp::Cas: return old == b ? c : old;
  case AtomicOp::Inc: return old >= b ? 0 : static_cast<T>(old + 1);
  case AtomicOp::Dec: return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  return old;
}
template <class F> F float_extreme(F a, F b, bool maximum) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) == maximum ? b : a;
  return (a < b) == maximum ? b : a;
}
float canonical(float f) { return f != f ? std::bit_cast<float>(0x7fffffffu) : f; }
float flushed(float f) { return std::fpclassify(f) == FP_SUBNORMAL ? std::copysign(0.0f, f) : f; }

template <class H> std::uint16_t half_op(AtomicOp op, std::uint16_t a, std::uint16_t b) {
  const float x = H::from(a), y = H::from(b);
  return H::to(op == AtomicOp::Add ? x + y : float_extreme(x, y, op == AtomicOp::Max));
}
struct OfF16 {
  static float from(std::uint16_t h) { return from_f16(h); }
  static std::uint16_t to(float f) { return to_f16(f); }
};
struct OfBF16 {
  static float from(std::uint16_t h) { return from_bf16(h); }
  static std::uint16_t to(float f) { return to_bf16(f); }
};
template <class H> std::uint32_t packed_op(AtomicOp op, std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(
             half_op<H>(op, static_cast<std::uint16_t>(a >> 16), static_cast<std::uint16_t>(b >> 16)))
             << 16 |
         half_op<H>(op, static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b));
}

// The new value of one element.
template <class T> T updated(AtomicOp op, Type t, T old, T b, T c, bool flush) {
  if constexpr (sizeof(T) == 16) {
    return op == AtomicOp::Cas ? (old == b ? c : old) : b;
  } else {
    if (op == AtomicOp::Exch || op == AtomicOp::Cas) return combine<T>(op, old, b, c);
    if constexpr (sizeof(T) == 2) {
      if (t == Type::F16) return half_op<OfF16>(op, old, b);
      if (t == Type::BF16) return half_op<OfBF16>(op, old, b);
    }
    if constexpr (sizeof(T) == 4) {
      if (t == Type::F16x2) return packed_op<OfF16>(op, old, b);
      if (t == Type::BF16x2) return packed_op<OfBF16>(op, old, b);
      if (t == Type::F32) {
        const float x = std::bit_cast<float>(old), y = std::bit_cast<float>(b);
        return std::bit_cast<T>(op == AtomicOp::Add
                                    ? canonical(flush ? flushed(flushed(x) + flushed(y)) : x + y)
                                    : float_extreme(x, y, op == AtomicOp::Max));
      }
    }
    if constexpr (sizeof(T) == 8) {
      if (t == Type::F64) return std::bit_cast<T>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
    }
    if (ptx::is_signed(t)) {
      using S = std::make_signed_t<T>;
      return static_cast<T>(combine<S>(op, static_cast<S>(old), static_cast<S>(b), static_cast<S>(c)));
    }
    return combine<T>(op, old, b, c);
  }
}

// The bytes that a compare-and-swap would change. If there are none, a wider swap counts as an access of all
// bytes, because programs load in this way, and one of 16 bits as an access of none, because it may belong to
// an 8-bit element.
template <class T> std::uint16_t changed_bytes(T from, T to) {
  std::uint8_t a[sizeof(T)], b[sizeof(T)];
  std::memcpy(a, &from, sizeof(T));
  std::memcpy(b, &to, sizeof(T));
  unsigned changed = 0;
  for (unsigned n = 0; n < sizeof(T); ++n)
    changed |= unsigned{a[n] != b[n]} << n;
  return static_cast<std::uint16_t>(changed || sizeof(T) == 2 ? changed : (1u << sizeof(T)) - 1);
}

// extras: the registers d, b, c of each element. mode: the operation
template <class T> void atomic(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* registers = w.extras(i);
  const auto op = static_cast<AtomicOp>(i.mode);
  std::uint16_t touched[warp_size];
  if (op == AtomicOp::Cas) // always of a single element
    for (int l = 0; l < warp_size; ++l)
      touched[l] = changed_bytes<T>(w.reg<T>(registers[1])[l], w.reg<T>(registers[2])[l]);
  Located at;
  addresses(w, i, m, at.address);
  locate(w, i, m, i.space, static_cast<std::uint32_t>(sizeof(T)) * i.count,
         static_cast<std::uint32_t>(sizeof(T)) * i.count, AccessKind::Atomic, at, Purpose::Data, nullptr,
         op == AtomicOp::Cas ? touched : nullptr);
  const int start = static_cast<int>(w.execution.random() & 31);
  for (int k = 0; k < warp_size; ++k) {
    const int l = (start + k) & 31;
    if (!(at.lanes >> l & 1)) continue;
    for (std::uint32_t e = 0; e < i.count; ++e) {
      T old;
      std::memcpy(&old, at.host[l] + e * sizeof(T), sizeof(T));
      const std::uint32_t* r = registers + 3 * e;
      const T b = w.reg<T>(r[1])[l];
      const T now =
          updated<T>(op, i.type, old, b, op == AtomicOp::Cas ? w.reg<T>(r[2])[l] : T(0),
                     at.region[l]->kind ==
                         Region::Kind::Global); // f32 sums flush in global memory, and not in shared memory
      std::memcpy(at.host[l] + e * sizeof(T), &now, sizeof(T));
      const bool changes = std::memcmp(&now, &old, sizeof(T)) != 0;
      w.execution.events += changes;
      w.execution.lasting_events += changes && at.region[l]->kind < Region::Kind::Shared;
      if (r[0] != no_register) w.reg<T>(r[0])[l] = old;
    }
  }
}

bool exists(AtomicOp op, Type t) {
  const int n = bits_of(t);
  switch (op) {
  case AtomicOp::Add:
    return t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64 || t == Type::F32 ||
           t == Type::F64 || t == Type::F16 || t == Type::BF16 || t == Type::F16x2 || t == Type::BF16x2;
  case AtomicOp::Min:
  case AtomicOp::Max:
    return t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64 || t == Type::F32 ||
           t == Type::F16 || t == Type::BF16 || t == Type::F16x2 || t == Type::BF16x2;
  case AtomicOp::And:
  case AtomicOp::Or:
  case AtomicOp::Xor: return !ptx::is_float(t) && (n == 32 || n == 64);
  case AtomicOp::Inc:
  case AtomicOp::Dec: return t == Type::U32;
  case AtomicOp::Exch: return n == 32 || n == 64 || n == 128;
  case AtomicOp::Cas: return n == 16 || n == 32 || n == 64 || n == 128;
  }
  return false;
}

void atomic_operation(Decoder& d, bool returns) {
  if (!returns && d.take("async")) return remote_store(d, true);
  const std::string_view order = d.take_one_of({"relaxed", "acquire", "release", "acq_rel"});
  const Scope scope = take_scope(d, Scope::Gpu);
  const std::string_view s = d.take_one_of({"global", "shared", "shared::cta", "shared::cluster"});
  d.take_prefix("L2::");
  d.take_prefix("level::");
  d.take("noftz");
  static constexpr std::pair<std::string_view, AtomicOp> names[] = {
      {"add", AtomicOp::Add}, {"min", AtomicOp::Min}, {"max", AtomicOp::Max},   {"and", AtomicOp::And},
      {"or", AtomicOp::Or},   {"xor", AtomicOp::Xor}, {"exch", AtomicOp::Exch}, {"cas", AtomicOp::Cas},
      {"inc", AtomicOp::Inc}, {"dec", AtomicOp::Dec}};
  int found = -1;
  for (auto& [name, op] : names)
    if (d.take(name)) {
      found = static_cast<int>(op);
      break;
    }
  if (found < 0) d.fail(quoted(d.statement().opcode) + " lacks an operation that the emulator knows");
  const auto op = static_cast<AtomicOp>(found);
  const std::string_view v = d.take_one_of({"v2", "v4", "v8"});
  const std::uint32_t n = v.empty() ? 1 : static_cast<std::uint32_t>(v[1] - '0');
  const Type t = d.take_type();
  if (!exists(op, t) || bits_of(t) * static_cast<int>(n) > 128 || (n > 1 && !ptx::is_float(t))) d.unknown(t);
  const std::size_t first = returns ? 1 : 0; // the address
  d.expect_operands(first + (op == AtomicOp::Cas ? 3 : 2), first + (op == AtomicOp::Cas ? 4 : 3));
  const Address a = d.address(d.operand(first));
  std::vector<std::uint32_t> registers;
  std::vector<const Operand*> to, b, c;
  const bool sink = returns && d.operand(0).kind == Operand::Kind::Sink;
  if (returns && !sink) to = d.vector(d.operand(0), n);
  b = d.vector(d.operand(first + 1), n);
  if (op == AtomicOp::Cas) c = d.vector(d.operand(first + 2), n);
  for (std::uint32_t k = 0; k < n; ++k) {
    registers.push_back(to.empty() || to[k]->kind == Operand::Kind::Sink ? no_register
                                                                         : d.destination(*to[k], bits_of(t)));
    registers.push_back(d.source(*b[k], t));
    registers.push_back(c.empty() ? no_register : d.source(*c[k], t));
  }
  Handler h = nullptr;
  switch (bits_of(t)) {
  case 16: h = atomic<std::uint16_t>; break;
  case 32: h = atomic<std::uint32_t>; break;
  case 64: h = atomic<std::uint64_t>; break;
  case 128: h = atomic<U128>; break;
  default: d.unknown(t);
  }
  Instruction i = d.plain(h);
  i.type = t;
  i.mode = static_cast<std::uint8_t>(found);
  i.scope = scope;
  i.order = order == "acquire"   ? Order::Acquire
            : order == "release" ? Order::Release
            : order == "acq_rel" ? Order::AcquireRelease
                                 : Order::Relaxed;
  i.space = s == "global"            ? Space::Global
            : s == "shared::cluster" ? Space::SharedCluster
            : !s.empty()             ? Space::Shared
                                     : Space::Generic;
  if (i.space == Space::Generic && a.space && *a.space == Space::Shared) i.space = Space::Shared;
  a.put_into(i);
  i.count = n;
  i.extra = d.extras(registers);
  d.emit(i);
}
void atom(Decoder& d) { atomic_operation(d, true); }
void red(Decoder& d) { atomic_operation(d, false); }

constexpr Opcode atomic_table[] = {{"atom", InstructionClass::Atomic, atom},
                                   {"red", InstructionClass::Atomic, red}};

} // namespace

std::span<const Opcode> atomic_opcodes() { return atomic_table; }

} // namespace kiln::emulator
