// Decodes and executes ld, st and cache hints.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>

#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

// M: the type in memory, signed if the PTX type is; R: the type of the registers.
template <class M, class R> void load(Warp& w, const Instruction& i, Mask m) {
  Located at;
  addresses(w, i, m, at.address);
  locate(w, i, m, i.space, static_cast<std::uint32_t>(sizeof(M)) * i.count,
         static_cast<std::uint32_t>(sizeof(M)) * i.count, AccessKind::Read, at);
  if (at.unwritten) [[unlikely]]
    load_unwritten(w, i, at, sizeof(M), std::is_signed_v<M>);
  const std::uint32_t* registers = w.extras(i);
  for (std::uint32_t k = 0; k < i.count; ++k) {
    R* d = w.reg<R>(registers[k]);
    if (at.lanes == all_lanes) {
      for (int l = 0; l < warp_size; ++l) {
        M v;
        std::memcpy(&v, at.host[l] + k * sizeof(M), sizeof(M));
        d[l] = static_cast<R>(v);
      }
    } else {
      for (Mask rest = at.lanes; rest; rest &= rest - 1) {
        const int l = std::countr_zero(rest);
        M v;
        std::memcpy(&v, at.host[l] + k * sizeof(M), sizeof(M));
        d[l] = static_cast<R>(v);
      }
      for (Mask failed = m & ~at.lanes; failed; failed &= failed - 1)
        d[std::countr_zero(failed)] = 0;
    }
  }
}

template <class M, class R> void store(Warp& w, const Instruction& i, Mask m) {
  Located at;
  addresses(w, i, m, at.address);
  const std::uint32_t* registers = w.extras(i);
  alignas(16) std::uint8_t data[warp_size * 32];
  if (w.execution.probe)
    for (Mask rest = m; rest; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      for (std::uint32_t k = 0; k < i.count; ++k) {
        const M v = static_cast<M>(w.reg<R>(registers[k])[l]);
        std::memcpy(data + (l * i.count + k) * sizeof(M), &v, sizeof(M));
      }
    }
  const std::uint64_t lasting_events = w.execution.lasting_events;
  locate(w, i, m, i.space, static_cast<std::uint32_t>(sizeof(M)) * i.count,
         static_cast<std::uint32_t>(sizeof(M)) * i.count, AccessKind::Write, at, Purpose::Data,
         w.execution.probe ? data : nullptr);
  bool changes = false;
  for (Mask rest = at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    for (std::uint32_t k = 0; k < i.count; ++k) {
      const M v = static_cast<M>(w.reg<R>(registers[k])[l]);
      changes |= std::memcmp(at.host[l] + k * sizeof(M), &v, sizeof(M)) != 0;
      std::memcpy(at.host[l] + k * sizeof(M), &v, sizeof(M));
    }
  }
  if (!changes) w.execution.lasting_events = lasting_events; // it stored what was there
  if (w.frame()->unwritten) [[unlikely]]
    store_unwritten(w, i, at, sizeof(M));
}

using U128 = unsigned __int128;
template <class R> Handler loads(Type t) {
  switch (t) {
  case Type::S8: return load<std::int8_t, R>;
  case Type::S16: return load<std::int16_t, R>;
  case Type::S32: return load<std::int32_t, R>;
  case Type::S64: return load<std::int64_t, R>;
  default: break;
  }
  switch (bits_of(t)) {
  case 8: return load<std::uint8_t, R>;
  case 16: return load<std::uint16_t, R>;
  case 32: return load<std::uint32_t, R>;
  case 64: return load<std::uint64_t, R>;
  case 128: return load<U128, R>;
  default: return nullptr;
  }
}
template <class R> Handler stores(Type t) {
  switch (bits_of(t)) {
  case 8: return store<std::uint8_t, R>;
  case 16: return store<std::uint16_t, R>;
  case 32: return store<std::uint32_t, R>;
  case 64: return store<std::uint64_t, R>;
  case 128: return store<U128, R>;
  default: return nullptr;
  }
}

Space take_space(Decoder& d) {
  const std::string_view s = d.take_one_of({"global", "shared", "shared::cta", "shared::cluster", "local",
                                            "const", "param", "param::entry", "param::func"});
  if (s == "global") return Space::Global;
  if (s == "shared" || s == "shared::cta") return Space::Shared;
  if (s == "shared::cluster") return Space::SharedCluster;
  if (s == "local") return Space::Local;
  if (s == "const") return Space::Const;
  if (!s.empty()) return Space::Param;
  return Space::Generic;
}

void take_hints(Decoder& d, Instruction& i) {
  const std::string_view order = d.take_one_of({"weak", "relaxed", "acquire", "release", "volatile", "mmio"});
  i.order = order.empty() || order == "weak" ? Order::Weak
            : order == "acquire"             ? Order::Acquire
            : order == "release"             ? Order::Release
                                             : Order::Relaxed;
  i.scope = take_scope(d, Scope::System);
  d.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  i.non_coherent = d.take("nc");
  d.take_prefix("L1::");
  d.take_prefix("L2::");
}

void access(Decoder& d, bool loads_data) {
  const Space space = take_space(d);
  Instruction i = d.start();
  take_hints(d, i);
  const std::string_view v = d.take_one_of({"v2", "v4", "v8"});
  const std::uint32_t n = v.empty() ? 1 : static_cast<std::uint32_t>(v[1] - '0');
  const Type t = d.take_type();
  if (t == Type::Pred || bits_of(t) == 0 || t == Type::TF32) d.unknown(t);
  if (bits_of(t) * static_cast<int>(n) > 256)
    d.fail("an access of " + std::to_string(bits_of(t) * static_cast<int>(n)) + " bits does not exist");
  d.expect_operands(2, 3); // the third is a cache policy
  const Operand& data = d.operand(loads_data ? 0 : 1);
  const Address a = d.address(d.operand(loads_data ? 1 : 0));
  const auto parts = d.vector(data, n);
  int width = 0;
  std::vector<std::uint32_t> registers;
  for (const Operand* o : parts) {
    int have = d.width(*o);
    if (!have) have = std::max(bits_of(t), 16); // a constant, or _
    if (have == 1) d.fail("predicates are not in memory");
    if (width && have != width) d.fail("the registers of a vector have different widths");
    width = have;
    registers.push_back(loads_data ? d.destination(*o, bits_of(t), false) : d.source(*o, t, false));
  }
  Handler h = nullptr;
  switch (width) {
  case 16: h = loads_data ? loads<std::uint16_t>(t) : stores<std::uint16_t>(t); break;
  case 32: h = loads_data ? loads<std::uint32_t>(t) : stores<std::uint32_t>(t); break;
  case 64: h = loads_data ? loads<std::uint64_t>(t) : stores<std::uint64_t>(t); break;
  case 128: h = loads_data ? loads<U128>(t) : stores<U128>(t); break;
  default: break;
  }
  if (!h) d.unknown(t);
  i.run = h;
  if (loads_data) i.used_bytes = d.statement().used_bytes;
  i.type = t;
  i.space = space == Space::Generic && a.space && *a.space != Space::Global && *a.space != Space::Const
                ? *a.space
                : space;
  a.put_into(i);
  i.count = n;
  i.extra = d.extras(registers);
  d.emit(i);
}
void ld(Decoder& d) { access(d, true); }
void st(Decoder& d) {
  if (d.take("async")) return remote_store(d, false);
  access(d, false);
}

// Hints must have their operands, and have no effect.
void hint(Decoder& d) {
  take_space(d);
  Instruction unused;
  take_hints(d, unused);
  d.take_one_of({"L1", "L2", "tensormap"});
  d.expect_operands(1, 2);
  d.address(d.operand(0));
  if (d.root() != "applypriority") return;
  if (auto n = d.immediate(d.operand(d.operands() - 1)); !n || *n != 128)
    d.fail("applypriority takes 128 bytes");
}

// discard.global.L2 [a], 128: its bytes become unwritten.
void run_discard(Warp& w, const Instruction& i, Mask m) {
  Located at;
  addresses(w, i, m, at.address);
  locate(w, i, m, i.space, 128, 128, AccessKind::Write, at);
  for (Mask rest = at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    Region& r = *at.region[l];
    if (!r.shadow.empty()) std::memset(r.shadow.data() + (at.host[l] - r.data), 0, 128);
    std::memset(at.host[l], 0xff, 128);
  }
}
void discard(Decoder& d) {
  Instruction i = d.plain(run_discard);
  i.space = take_space(d) == Space::Generic ? Space::Generic : Space::Global;
  if (!d.take("L2")) d.unknown();
  d.expect_operands(2);
  if (auto n = d.immediate(d.operand(1)); !n || *n != 128) d.fail("discard takes 128 bytes");
  const Address a = d.address(d.operand(0));
  a.put_into(i);
  d.emit(i);
}

void create_policy(Decoder& d) { // a number that hints use
  d.take_prefix("fractional");
  d.take_prefix("range");
  d.take_prefix("cvt");
  d.take_prefix("L2");
  d.take("global");
  const Type t = d.take_type();
  if (t != Type::B64) d.unknown(t);
  Instruction i = d.plain(alu_handler(AluOp::Move, Type::B64, false));
  i.a = d.constant(0x12f0000000000000, 64);
  i.d = d.destination(0, t);
  d.emit(i);
}

constexpr Opcode memory_table[] = {
    {"ld", InstructionClass::Load, ld},
    {"ldu", InstructionClass::Load, ld},
    {"st", InstructionClass::Store, st},
    {"prefetch", InstructionClass::Other, hint},
    {"prefetchu", InstructionClass::Other, hint},
    {"applypriority", InstructionClass::Other, hint},
    {"discard", InstructionClass::Store, discard},
    {"createpolicy", InstructionClass::Other, create_policy},
};

} // namespace

std::span<const Opcode> memory_opcodes() { return memory_table; }

} // namespace kiln::emulator
