// Decodes and executes mbarrier instructions, mapa and getctarank.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/mbarrier.h>
#include <kiln/jit/emulator/core/transfer.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

using State = MbarrierState;
constexpr std::uint64_t most_arrivals = State::most_arrivals;

enum Operation : std::uint8_t {
  Init,
  Inval,
  Arrive,
  Drop,
  ArriveExpect,
  DropExpect,
  Expect,
  Complete,
  Test,
  TestParity,
  CopyArrive,
  CopyArriveNoinc
};

// mode: the operation; b: count, bytes, state or parity, or no_register; d: state or predicate, or
// no_register; count: 1 if relaxed, Scope << 1
void operate(Warp& w, const Instruction& i, Mask m) {
  Located at;
  addresses(w, i, m, at.address);
  const auto op = static_cast<Operation>(i.mode);
  const bool tests = op == Test || op == TestParity;
  locate(w, i, m, i.space, 8, 8, op == Init ? AccessKind::Write : AccessKind::Atomic, at, Purpose::Mbarrier);
  Probe* probe = w.execution.probe;
  auto notify = [&](MbarrierUse use, Mask lanes) {
    if (probe && lanes)
      probe->mbarrier(w, i, {use, static_cast<Scope>(i.count >> 1), (i.count & 1) != 0, lanes, at.host});
  };
  // The probe is notified of arrivals before they count, so that a wait that passes acquires all of them.
  switch (op) {
  case Init: notify(MbarrierUse::Initialised, at.lanes); break;
  case Inval: notify(MbarrierUse::Invalidated, at.lanes); break;
  case Expect: notify(MbarrierUse::Expected, at.lanes); break;
  case Complete: notify(MbarrierUse::Completed, at.lanes); break;
  case ArriveExpect:
  case DropExpect: notify(MbarrierUse::Expected, at.lanes); [[fallthrough]];
  case Arrive:
  case Drop: notify(MbarrierUse::Arrived, at.lanes); break;
  default: break;
  }
  auto complete = [&](State& s, std::uint8_t* host) {
    const bool phase = s.phase;
    s.complete();
    if (probe && s.phase != phase) probe->mbarrier_phase_ended(host);
  };
  bool failed = false;
  Warp::FailedTest failing;
  Mask through = 0;
  std::unique_ptr<Arrival> later;
  for (Mask rest = at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    std::uint64_t word;
    std::memcpy(&word, at.host[l], 8);
    State s(word);
    const std::uint64_t b = i.b == no_register ? 1
                            : op == Test       ? w.reg<std::uint64_t>(i.b)[l]
                                               : w.reg<std::uint32_t>(i.b)[l];
    auto fault = [&](const std::string& what) {
      w.execution.add_finding(Fault::IllegalOperand, w, i, l, what);
    };
    if (op != Init && !s.valid) {
      fault("operates on memory that is no mbarrier: it was not initialised");
      if (tests) w.pred(i.d) |= Mask(1) << l; // waiting for ever would hide later mistakes
      continue;
    }
    switch (op) {
    case Init:
      if (b == 0 || b > most_arrivals) {
        fault("expects " + std::to_string(b) + " arrivals; 1 to 1048575 are possible");
        continue;
      }
      if (const auto offset = static_cast<std::uint64_t>(at.host[l] - at.region[l]->data);
          at.region[l]->live_mbarrier(offset, 8))
        w.execution.add_finding(Fault::LiveMbarrier, w, i, l,
                                "initialises what " + w.block.mbarrier_at(*at.region[l], offset, 8) +
                                    " already: invalidate it first (mbarrier.inval)");
      s.pending = s.expected = b;
      s.phase = false;
      s.bytes = 0;
      s.valid = true;
      w.block.make_mbarrier(*at.region[l], at.host[l], w, i);
      break;
    case Inval:
      s.valid = false;
      w.block.drop_mbarrier(*at.region[l], at.host[l]);
      break;
    case Expect: s.bytes += static_cast<std::int64_t>(b); break;
    case Complete:
      s.bytes -= static_cast<std::int64_t>(b);
      complete(s, at.host[l]);
      break;
    case Arrive:
    case Drop:
    case ArriveExpect:
    case DropExpect: {
      const bool expects = op == ArriveExpect || op == DropExpect;
      const std::uint64_t n = expects ? 1 : b;
      if (n == 0 || n > s.pending) {
        fault("arrives " + std::to_string(n) + " times at an mbarrier that waits for " +
              std::to_string(s.pending) + " more");
        continue;
      }
      if (i.d != no_register) w.reg<std::uint64_t>(i.d)[l] = word;
      if (expects) s.bytes += static_cast<std::int64_t>(b);
      if (op == Drop || op == DropExpect) s.expected -= n;
      s.pending -= n;
      complete(s, at.host[l]);
      break;
    }
    case CopyArrive:
    case CopyArriveNoinc:
      if (op == CopyArrive) ++s.pending; // for the arrival when the copies have landed
      if (!later) later = std::make_unique<Arrival>();
      later->lanes |= Mask(1) << l;
      later->mbarrier[l] = at.host[l];
      break;
    case Test:
    case TestParity: {
      const bool old = op == Test ? State(b).phase : b & 1;
      const bool passed = s.phase != old;
      failed |= !passed;
      if (!passed) failing = {&i, at.host[l], l};
      through |= Mask(passed) << l;
      w.pred(i.d) = (w.pred(i.d) & ~(Mask(1) << l)) | Mask(passed) << l;
      continue;
    }
    }
    const bool counts = op == Expect || op == ArriveExpect || op == DropExpect || op == Complete;
    if (counts && (s.bytes > State::most_bytes || s.bytes < -State::most_bytes)) {
      fault("brings the bytes under way to " + std::to_string(s.bytes) + "; at most 1048575 are possible");
      s.bytes = std::clamp(s.bytes, -State::most_bytes - 1, State::most_bytes + 1); // limits it to its bits
    }
    word = s.word();
    std::memcpy(at.host[l], &word, 8);
    ++w.execution.events;
  }
  if (tests) w.set_failed_test(failing);
  notify(MbarrierUse::Passed, through);
  if (later) {
    later->warp = &w;
    later->instruction = &i;
    w.block.async_operations.issue(std::move(later));
  }
  if (failed) w.yield(); // other warps must run to end the phase
}

void mbarrier(Decoder& d) {
  const auto unknown = [&] { d.fail(quoted(d.statement().opcode) + " is not known to the emulator"); };
  const std::string_view what = d.take_one_of({"init", "inval", "arrive", "arrive_drop", "expect_tx",
                                               "complete_tx", "test_wait", "try_wait", "pending_count"});
  if (what.empty()) unknown();
  if (what == "pending_count") {
    if (d.take_type() != Type::B64) unknown();
    d.expect_operands(2);
    Instruction i = d.plain([](Warp& w, const Instruction& x, Mask m) {
      for (Mask rest = m; rest; rest &= rest - 1) {
        const int l = std::countr_zero(rest);
        w.reg<std::uint32_t>(x.d)[l] =
            static_cast<std::uint32_t>(State(w.reg<std::uint64_t>(x.a)[l]).pending);
      }
    });
    i.a = d.source(1, Type::B64);
    i.d = d.destination(0, Type::U32);
    return d.emit(i);
  }
  const bool arrives = what == "arrive" || what == "arrive_drop",
             waits = what == "test_wait" || what == "try_wait";
  const bool expects = arrives && d.take("expect_tx");
  d.take("noComplete");
  const bool parity = waits && d.take("parity");
  const bool relaxed = d.take_one_of({"release", "acquire", "relaxed"}) == "relaxed";
  const Scope scope = d.take_one_of({"cta", "cluster"}) == "cluster" ? Scope::Cluster : Scope::Cta;
  const std::string_view space = d.take_one_of({"shared", "shared::cta", "shared::cluster"});
  if (d.take_type() != Type::B64) unknown();
  Instruction i = d.plain(operate);
  i.count = static_cast<std::uint32_t>(scope) << 1 | relaxed;
  i.b = i.d = no_register;
  std::size_t n = 0;
  // an arrive on a remote mbarrier has no result; others have `_` or a state
  if (arrives && d.operand(0).kind != Operand::Kind::Address) {
    if (d.operand(0).kind != Operand::Kind::Sink) i.d = d.destination(0, Type::B64);
    n = 1;
  }
  if (waits) {
    i.d = d.destination(0, Type::Pred);
    n = 1;
  }
  const Address a = d.address(d.operand(n++));
  const bool optional = arrives && !expects;
  const bool needs = what != "inval";
  if (needs && (n < d.operands() || !optional))
    i.b = d.source(d.operand(n++), waits && !parity ? Type::B64 : Type::B32);
  if (what == "try_wait" && n < d.operands()) d.source(d.operand(n++), Type::U32); // the time limit
  d.expect_operands(n);
  i.mode = what == "init"        ? Init
           : what == "inval"     ? Inval
           : what == "expect_tx" ? Expect
           : waits               ? (parity ? TestParity : Test)
           : what == "arrive"    ? (expects ? ArriveExpect : Arrive)
           : arrives             ? (expects ? DropExpect : Drop)
                                 : Complete;
  i.space = space == "shared::cluster" ? Space::SharedCluster
            : space.empty()            ? (a.space ? *a.space : Space::Generic)
                                       : Space::Shared;
  a.put_into(i);
  d.emit(i);
}

// --- Other blocks of the cluster ---------------------------------------------------------------------------

template <class T> void map_address(Warp& w, const Instruction& i, Mask m) { // mode: 1 for generic addresses
  const std::uint32_t* rank = w.reg<std::uint32_t>(i.b);
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (rank[l] >= w.block.cluster.size()) {
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              "names block " + std::to_string(rank[l]) + " of a cluster of " +
                                  std::to_string(w.block.cluster.size()));
      continue;
    }
    const std::uint64_t a = w.reg<T>(i.a)[l];
    const std::uint64_t offset = a & ((std::uint64_t(1) << cluster_shift) - 1),
                        window = i.mode ? a & window_mask : 0;
    w.reg<T>(i.d)[l] = static_cast<T>(window | (std::uint64_t(rank[l]) + 1) << cluster_shift | offset);
  }
}
void mapa(Decoder& d) {
  const bool shared = d.take("shared::cluster");
  const Type t = d.take_type();
  if (t != Type::U32 && t != Type::U64) d.fail("mapa is .u32 or .u64");
  d.expect_operands(3);
  Instruction i = d.plain(t == Type::U32 ? map_address<std::uint32_t> : map_address<std::uint64_t>);
  i.mode = !shared;
  i.a = d.source(1, t);
  i.b = d.source(2, Type::U32);
  i.d = d.destination(0, t);
  d.emit(i);
}
template <class T> void rank_of(Warp& w, const Instruction& i, Mask m) {
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const std::uint64_t rank = (w.reg<T>(i.a)[l] & ~window_mask) >> cluster_shift;
    w.reg<std::uint32_t>(i.d)[l] = rank ? static_cast<std::uint32_t>(rank - 1) : w.block.rank;
  }
}
void getctarank(Decoder& d) {
  d.take("shared::cluster");
  const Type t = d.take_type();
  if (t != Type::U32 && t != Type::U64) d.fail("getctarank is .u32 or .u64");
  d.expect_operands(2);
  Instruction i = d.plain(t == Type::U32 ? rank_of<std::uint32_t> : rank_of<std::uint64_t>);
  i.a = d.source(1, t);
  i.d = d.destination(0, Type::U32);
  d.emit(i);
}

constexpr Opcode mbarrier_table[] = {{"mbarrier", InstructionClass::Barrier, mbarrier},
                                     {"mapa", InstructionClass::Move, mapa},
                                     {"getctarank", InstructionClass::Move, getctarank}};

} // namespace

std::span<const Opcode> mbarrier_opcodes() { return mbarrier_table; }

void copies_arrive(Decoder& d, bool counted) { // cp.async.mbarrier.arrive
  const std::string_view space = d.take_one_of({"shared", "shared::cta"});
  if (d.take_type() != Type::B64) d.fail("an mbarrier is .b64");
  d.expect_operands(1);
  const Address a = d.address(d.operand(0));
  Instruction i = d.plain(operate);
  i.b = i.d = no_register;
  i.mode = counted ? CopyArrive : CopyArriveNoinc;
  i.space = space.empty() ? (a.space ? *a.space : Space::Generic) : Space::Shared;
  a.put_into(i);
  d.emit(i);
}

} // namespace kiln::emulator
