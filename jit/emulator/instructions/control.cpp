// Decodes branches, barriers, fences and other control.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/block.h>

#include <bit>

namespace kiln::emulator {
namespace {

void nothing(Warp&, const Instruction&, Mask) {}

void bra(Decoder& d) {
  d.take("uni");
  d.expect_operands(1);
  const Operand& o = d.operand(0);
  if (o.kind != Operand::Kind::Name) d.fail("a branch takes a label");
  Instruction i = d.start();
  i.step = Step::Branch;
  const std::size_t at = d.next();
  d.emit(i);
  d.branch_to(o.name, at);
}

void brx(Decoder& d) {
  if (!d.take("idx")) d.fail("brx requires .idx");
  d.take("uni");
  d.expect_operands(2);
  const auto* targets = d.operand(1).kind == Operand::Kind::Name
                            ? d.find_in_scopes(&ptx::Scope::branch_targets, d.operand(1).name)
                            : nullptr;
  if (!targets) d.fail("brx.idx takes a register and the name of .branchtargets");
  Instruction i = d.start();
  i.step = Step::IndexedBranch;
  i.a = d.source(0, Type::U32);
  d.jump_table(*targets, i);
  d.emit(i);
}

void leave(Decoder& d) {
  Instruction i = d.start();
  i.step = Step::Exit;
  d.emit(i);
}
void trap(Decoder& d) {
  d.emit(d.plain([](Warp& w, const Instruction& i, Mask m) {
    w.execution.add_finding(Fault::Trap, w, i, std::countr_zero(m), "was reached",
                            static_cast<std::uint64_t>(std::popcount(m)));
    w.execution.report.finished = false;
    w.execution.stopped = true;
    w.yield();
  }));
}
void ignored(Decoder& d) { // pmevent, nanosleep, brkpt
  d.maybe_type();
  d.take("mask");
  const bool rest = d.root() == "nanosleep";
  d.emit(d.plain(rest ? [](Warp& w, const Instruction&, Mask) { w.yield(); } : nothing));
}

// barrier.cluster.arrive and .wait. A fragment waits at barrier number 16 until all threads of the cluster
// have arrived.
void cluster_barrier(Decoder& d) {
  const std::string_view what = d.take_one_of({"arrive", "wait"});
  if (what.empty()) d.fail("barrier.cluster requires .arrive or .wait");
  const bool relaxed = d.take_one_of({"acquire", "release", "relaxed"}) == "relaxed";
  const bool aligned = d.take("aligned");
  d.expect_operands(0);
  Instruction i = d.start();
  i.step = Step::Barrier;
  i.inner = nullptr;
  i.target = aligned ? no_register : 0;
  i.b = no_register;
  i.mode = what == "arrive" ? 5 : 6;
  i.mode2 = relaxed;
  d.emit(i);
}

// bar.sync, bar.arrive, bar.red; barrier{.cta}.… ; bar.warp.sync
void barrier(Decoder& d) {
  if (d.root() == "bar" && d.take("warp")) {
    if (!d.take("sync")) d.fail("bar.warp requires .sync");
    d.expect_operands(1);
    d.set_class(InstructionClass::WarpWide);
    Instruction i = d.start();
    i.step = Step::Collective;
    i.collective = [](Warp& w, const Participant* p, int n) {
      Mask all = 0;
      for (int k = 0; k < n; ++k)
        all |= p[k].lanes;
      if (w.execution.probe) w.execution.probe->warp_synchronised(w, all);
    };
    i.target = d.source(0, Type::B32);
    return d.emit(i);
  }
  if (d.take("cluster")) return cluster_barrier(d);
  d.take("cta");
  const bool aligned = d.take("aligned") || d.root() == "bar";
  const std::string_view what = d.take_one_of({"sync", "arrive", "red"});
  if (what.empty()) d.fail(quoted(d.statement().opcode) + " requires .sync, .arrive or .red");
  Instruction i = d.start();
  i.step = Step::Barrier;
  i.inner = nullptr;
  i.target = aligned ? no_register : 0;
  i.b = no_register;
  if (what != "red") {
    d.expect_operands(1, 2);
    i.mode = what == "arrive";
    i.a = d.source(0, Type::U32);
    if (d.operands() == 2) i.b = d.source(1, Type::U32);
    if (what == "arrive" && d.operands() != 2)
      d.fail(quoted(d.statement().opcode) + " takes a barrier and a number of threads");
    return d.emit(i);
  }
  const std::string_view op = d.take_one_of({"popc", "and", "or"});
  const Type t = d.take_type();
  if (op.empty() || (op == "popc") != (t == Type::U32) || (op != "popc" && t != Type::Pred))
    d.fail("a barrier reduction is .popc.u32, .and.pred or .or.pred");
  d.expect_operands(3, 4);
  i.mode = op == "popc" ? 2 : op == "and" ? 3 : 4;
  i.d = d.destination(0, t);
  i.a = d.source(1, Type::U32);
  if (d.operands() == 4) i.b = d.source(2, Type::U32);
  i.c = d.predicate(d.operand(d.operands() - 1));
  d.emit(i);
}

// mode: Fence::Kind; count: 1 acquires, 2 releases, 4 sequential, Scope << 8; space: that of an async proxy
// fence; a: the address of an acquired tensor map, or no_register
void run_fence(Warp& w, const Instruction& i, Mask m) {
  if (i.a != no_register) {
    std::uint64_t at[warp_size];
    addresses(w, i, m, at);
    for (Mask rest = m; rest; rest &= rest - 1) {
      const std::uint64_t map = at[std::countr_zero(rest)];
      if (auto made = w.execution.made_maps.find(map); made != w.execution.made_maps.end())
        w.block.acquired_maps[map] = made->second;
    }
  }
  if (!w.execution.probe) return;
  Fence f;
  f.kind = static_cast<Fence::Kind>(i.mode);
  f.scope = static_cast<Scope>(i.count >> 8);
  f.acquires = i.count & 1;
  f.releases = i.count & 2;
  f.sequential = i.count & 4;
  f.space = i.space;
  w.execution.probe->fence(w, i, f, m);
}

// membar.{cta,gl,sys}; fence{.sem}.scope; fence.proxy.…; fence.mbarrier_init.release.cluster
void fence(Decoder& d) {
  Instruction i = d.plain(run_fence);
  i.a = no_register;
  auto kind = Fence::Kind::Memory;
  Scope otherwise = Scope::System;
  std::uint32_t order = 3;
  if (d.take("proxy")) {
    if (d.take("alias")) {
      kind = Fence::Kind::ProxyAlias;
    } else if (d.take("async")) {
      kind = Fence::Kind::ProxyAsync;
      const std::string_view s = d.take_one_of({"global", "shared::cta", "shared::cluster"});
      i.space = s == "global"            ? Space::Global
                : s == "shared::cta"     ? Space::Shared
                : s == "shared::cluster" ? Space::SharedCluster
                                         : Space::Generic;
    } else if (d.take("async::generic")) { // .acquire.sync_restrict::shared::cluster.cluster and the like
      kind = Fence::Kind::ProxyAsync;
      const bool acquires = d.take("acquire");
      if (!acquires && !d.take("release")) d.unknown();
      order = acquires ? 1 : 2;
      if (d.take("sync_restrict::shared::cta"))
        i.space = Space::Shared;
      else if (d.take("sync_restrict::shared::cluster"))
        i.space = Space::SharedCluster;
      else
        d.unknown();
    } else if (d.take("tensormap::generic")) {
      kind = Fence::Kind::Tensormap;
      const bool acquires = d.take("acquire");
      if (!acquires && !d.take("release")) d.unknown();
      order = acquires ? 1 : 2;
      if (acquires) { // [address], 128
        d.expect_operands(2);
        const Address a = d.address(d.operand(0));
        a.put_into(i);
        if (auto n = d.immediate(d.operand(1)); !n || *n != 128) d.fail("a tensor map has 128 bytes");
      }
    } else {
      d.unknown();
    }
  } else if (d.take("mbarrier_init")) {
    kind = Fence::Kind::MbarrierInit;
    if (!d.take("release")) d.unknown();
    order = 2;
    otherwise = Scope::Cluster;
  } else {
    const std::string_view sem = d.take_one_of({"sc", "acq_rel", "acquire", "release"});
    order = sem == "acquire" ? 1 : sem == "release" ? 2 : sem == "sc" || d.root() == "membar" ? 7 : 3;
    d.take_prefix("sync_restrict");
    d.take_prefix("op_restrict");
  }
  if (kind != Fence::Kind::Tensormap || order != 1) d.expect_operands(0);
  i.mode = static_cast<std::uint8_t>(kind);
  i.count = order | static_cast<std::uint32_t>(take_scope(d, otherwise)) << 8;
  d.emit(i);
}

void grid_control(Decoder& d) {
  if (!d.take("wait") && !d.take("launch_dependents"))
    d.fail("griddepcontrol requires .wait or .launch_dependents");
  d.emit(d.plain(nothing));
}

void set_registers(Decoder& d) { // setmaxnreg.inc.sync.aligned.u32 n
  if (const std::string& target = d.builder().module.target;
      target.empty() || (target.back() != 'a' && target.back() != 'f'))
    d.fail("setmaxnreg requires an architecture-specific target such as sm_90a, and this module is for " +
           target);
  const std::string_view what = d.take_one_of({"inc", "dec"});
  if (what.empty() || !d.take("sync") || !d.take("aligned") || d.take_type() != Type::U32)
    d.fail("setmaxnreg is .inc or .dec, .sync.aligned.u32");
  d.expect_operands(1);
  auto n = d.immediate(d.operand(0));
  if (!n || *n < 24 || *n > 256 || *n % 8) d.fail("setmaxnreg takes a multiple of 8 from 24 to 256");
  Instruction i = d.start();
  i.step = Step::Barrier;
  i.inner = nullptr;
  i.target = no_register;
  i.b = no_register;
  i.mode = 7;
  i.mode2 = what == "inc";
  i.count = static_cast<std::uint32_t>(*n);
  d.emit(i);
}

constexpr auto control = InstructionClass::Control;
constexpr Opcode control_table[] = {
    {"bra", control, bra},
    {"brx", control, brx},
    {"exit", control, leave},
    {"trap", control, trap},
    {"pmevent", control, ignored},
    {"nanosleep", control, ignored},
    {"brkpt", control, ignored},
    {"bar", InstructionClass::Barrier, barrier},
    {"barrier", InstructionClass::Barrier, barrier},
    {"membar", InstructionClass::Fence, fence},
    {"fence", InstructionClass::Fence, fence},
    {"griddepcontrol", control, grid_control},
    {"setmaxnreg", control, set_registers},
};

} // namespace

std::span<const Opcode> control_opcodes() { return control_table; }

} // namespace kiln::emulator
