// Updates vector clocks at barriers, fences, atomics, mbarriers and asynchronous operations.
#include "race_state.h"
#include <kiln/jit/emulator/core/transfer.h>

#include <algorithm>
#include <bit>

namespace kiln::emulator {
namespace {

int level_of(Scope s) { return s == Scope::Cta ? 0 : s == Scope::Cluster ? 1 : 2; }

Knowledge& entry(std::vector<std::pair<std::uint32_t, Knowledge>>& list, std::uint32_t key) {
  for (auto& [k, v] : list)
    if (k == key) return v;
  return list.emplace_back(key, Knowledge()).second;
}
const Knowledge* find(const std::vector<std::pair<std::uint32_t, Knowledge>>& list, std::uint32_t key) {
  for (auto& [k, v] : list)
    if (k == key) return &v;
  return nullptr;
}

} // namespace

// --- Barriers ----------------------------------------------------------------------------------------------

void RaceChecker::warp_synchronised(Warp& w, Mask lanes) { clocks(w).synchronise(lanes, w.alive()); }

Knowledge RaceChecker::release(Warp& w, Mask lanes) {
  BlockState& s = state(w.block);
  Knowledge k;
  Slots slots;
  clocks(w).release_into(lanes, k, slots);
  if (const Slots* known = k.clock ? k.clock->of(s.number) : nullptr) raise(slots, *known);
  k.clock = Clock::with(k.clock, s.number, std::move(slots));
  return k;
}

void RaceChecker::barrier_arrived(Warp& w, const Instruction& i, int barrier, Mask lanes) {
  BarrierArrivals& g = state(w.block).barriers[barrier];
  clocks(w).release_into(lanes, g.knowledge, g.slots);
  if (i.mode != 1) g.waiting.emplace_back(&w, lanes); // bar.arrive does not wait
}

void RaceChecker::barrier_opened(Block& b, int barrier) {
  BlockState& s = state(b);
  BarrierArrivals& g = s.barriers[barrier];
  if (const Slots* known = g.knowledge.clock ? g.knowledge.clock->of(s.number) : nullptr)
    raise(g.slots, *known);
  g.knowledge.clock = Clock::with(g.knowledge.clock, s.number, std::move(g.slots));
  for (std::size_t k = 0; k < g.waiting.size(); ++k) {
    auto [w, lanes] = g.waiting[k];
    if (!w) continue;
    for (std::size_t n = k + 1; n < g.waiting.size(); ++n) // a warp whose lanes arrived in several fragments
      if (g.waiting[n].first == w) {
        lanes |= g.waiting[n].second;
        g.waiting[n].first = nullptr;
      }
    clocks(*w).learn(lanes, w->alive(), g.knowledge);
  }
  g = {};
}

void RaceChecker::cluster_arrived(Warp& w, const Instruction&, Mask lanes, bool relaxed) {
  Knowledge k;
  if (relaxed) { // passes on what earlier fences released
    const WarpClocks& p = clocks(w);
    if (!p.any_fences()) return;
    for (Mask rest = lanes; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      k.clock = Clock::join(k.clock, p.fenced(l, 1));
      k.initialised = Clock::join(k.initialised, p.initialised(l));
    }
  } else {
    k = release(w, lanes);
  }
  state(*w.block.cluster.front()).cluster_arriving.join(k);
}

void RaceChecker::cluster_opened(Block& leader) {
  BlockState& s = state(leader);
  s.cluster_done = std::move(s.cluster_arriving);
  s.cluster_arriving = {};
}

void RaceChecker::cluster_waited(Warp& w, const Instruction&, Mask lanes) {
  const Knowledge& done = state(*w.block.cluster.front()).cluster_done;
  WarpClocks& p = clocks(w);
  for (Mask rest = lanes; rest; rest &= rest - 1)
    p.acquire(std::countr_zero(rest), done);
}

// --- Fences and atomics ------------------------------------------------------------------------------------

void RaceChecker::fence(Warp& w, const Instruction&, const Fence& f, Mask lanes) {
  WarpClocks& p = clocks(w);
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    switch (f.kind) {
    case Fence::Kind::Memory: p.fence(l, level_of(f.scope), f.acquires, f.releases); break;
    case Fence::Kind::ProxyAsync:
      p.proxy_fence(l, f.space != ptx::Space::Global,
                    f.space == ptx::Space::Global || f.space == ptx::Space::Generic);
      break;
    case Fence::Kind::MbarrierInit: p.init_fence(l); break;
    default: break;
    }
  }
  p.tick();
}

// Lets a strong access acquire from and release to its word; a store ends what was released there.
void RaceChecker::synchronise(const Access& a) {
  const Instruction& i = a.instruction;
  WarpClocks& p = clocks(a.warp);
  const std::uint32_t block = state(a.warp.block).number, cluster = cluster_of(block);
  const int level = level_of(i.scope);
  const bool acquires = i.order == Order::Acquire || i.order == Order::AcquireRelease,
             releases = i.order == Order::Release || i.order == Order::AcquireRelease;
  const bool strong = i.order != Order::Weak || a.kind == AccessKind::Atomic;
  bool released = false;
  for (Mask rest = a.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const auto key = reinterpret_cast<std::uint64_t>(a.host[l]);
    auto at = words_.find(key);
    if (strong && a.kind != AccessKind::Write && at != words_.end()) {
      const SyncWord& s = *at->second;
      const Knowledge* found[3] = {find(s.by_block, block),
                                   level >= 1 ? find(s.by_cluster, cluster) : nullptr,
                                   level >= 2 ? &s.all : nullptr};
      for (int k = 0; k < 3; ++k)
        if (found[k] && !found[k]->empty()) {
          if (acquires)
            p.acquire(l, *found[k]);
          else
            p.add_unfenced(l, k, *found[k]);
        }
    }
    if (a.kind == AccessKind::Read) continue;
    if (a.kind == AccessKind::Write && at != words_.end()) {
      words_.erase(at);
      at = words_.end();
    }
    if (!strong) continue;
    Knowledge made[3];
    bool any = false;
    if (releases) {
      made[0] = p.release(l);
      for (int k = 1; k <= level; ++k)
        made[k] = made[0];
      any = released = true;
    } else if (p.any_fences()) {
      for (int k = 0; k <= level; ++k) {
        made[k].clock = p.fenced(l, k);
        any |= made[k].clock != nullptr;
      }
    }
    if (!any) continue;
    if (at == words_.end()) at = words_.emplace(key, std::make_unique<SyncWord>()).first;
    SyncWord& s = *at->second;
    if (s.by_block.size() > 64)
      std::erase_if(s.by_block, [&](const auto& n) {
        return std::none_of(blocks_.begin(), blocks_.end(),
                            [&](const auto& b) { return b.second->number == n.first; });
      });
    entry(s.by_block, block).join(made[0]);
    if (level >= 1) entry(s.by_cluster, cluster).join(made[1]);
    if (level >= 2) s.all.join(made[2]);
  }
  if (released) p.tick();
}

// --- mbarriers ---------------------------------------------------------------------------------------------

void RaceChecker::mbarrier(Warp& w, const Instruction&, const MbarrierEvent& e) {
  WarpClocks& p = clocks(w);
  for (Mask left = e.lanes; left;) {
    std::uint8_t* const host = e.host[std::countr_zero(left)];
    Mask lanes = 0;
    for (Mask rest = left; rest; rest &= rest - 1)
      if (e.host[std::countr_zero(rest)] == host) lanes |= rest & (~rest + 1);
    left &= ~lanes;
    auto& phase = mbarriers_[host];
    if (!phase || e.use == MbarrierUse::Initialised) phase = std::make_unique<Phase>();
    if (e.use == MbarrierUse::Arrived) {
      if (!e.relaxed) {
        Knowledge k = release(w, lanes);
        const Region& own = w.block.shared;
        const bool remote = host < own.data || host >= own.data + own.bytes;
        if (remote && e.scope == Scope::Cta) k.clock = Clock::with_block_scope_only(k.clock);
        (remote ? phase->remote_arriving : phase->arriving).join(k);
      } else if (p.any_fences()) {
        for (Mask rest = lanes; rest; rest &= rest - 1) {
          Knowledge k;
          k.clock = p.fenced(std::countr_zero(rest), level_of(e.scope));
          phase->arriving.join(k);
        }
      }
    } else if (e.use == MbarrierUse::Passed) {
      Knowledge known = phase->remote_done;
      if (e.scope == Scope::Cta) known.clock = Clock::with_block_scope_only(known.clock);
      known.join(phase->done);
      for (Mask rest = lanes; rest; rest &= rest - 1) {
        const int l = std::countr_zero(rest);
        if (!e.relaxed)
          p.acquire(l, known);
        else if (!known.empty())
          p.add_unfenced(l, level_of(e.scope), known);
      }
    }
  }
}

void RaceChecker::mbarrier_phase_ended(std::uint8_t* host) {
  auto& phase = mbarriers_[host];
  if (!phase) phase = std::make_unique<Phase>();
  phase->done.join(phase->arriving);
  phase->arriving = {};
  phase->remote_done.join(phase->remote_arriving);
  phase->remote_arriving = {};
}

// --- Asynchronous operations -------------------------------------------------------------------------------

void RaceChecker::issued(const AsyncOperation& op) {
  BlockState& s = state(op.warp->block);
  WarpClocks& p = clocks(*op.warp);
  const bool copy = op.kind == AsyncOperation::Kind::Copy;
  Operation operation;
  operation.block = s.number;
  if (!copy) { // takes the slots that have been unused for longest
    constexpr std::size_t least = 64;
    if (s.units.size() < least || s.units[s.next_unit].in_use) {
      operation.unit = static_cast<std::uint32_t>(s.units.size());
      s.units.emplace_back();
    } else {
      operation.unit = static_cast<std::uint32_t>(s.next_unit);
      s.next_unit = (s.next_unit + 1) % s.units.size();
    }
    s.units[operation.unit].in_use = true;
    operation.stamp = ++s.units[operation.unit].stamp;
  }
  Actor by{*op.warp, p, *op.instruction, std::countr_zero(op.lanes), op.lanes, {}, nullptr, false};
  by.as.block = s.number;
  by.as.site = site(*op.instruction) | static_cast<std::uint32_t>(op.warp->index) << 24;
  by.as.unit = static_cast<std::uint16_t>(copy ? static_cast<std::uint32_t>(op.warp->index) : operation.unit);
  by.as.stamp = copy ? static_cast<std::uint32_t>(op.id) : operation.stamp;
  for (const Range& r : op.ranges) {
    if (!r.bytes || !r.region) continue;
    by.in_shared = r.region->kind == Region::Kind::Shared;
    if (!by.in_shared && r.region->kind != Region::Kind::Global) continue;
    by.lane = r.lane;
    by.program = op.kind == AsyncOperation::Kind::Wgmma ? op.lanes : lane_bit(r.lane);
    by.as.lanes = lane_bit(r.lane);
    by.as.flags = static_cast<std::uint16_t>((r.kind != AccessKind::Read ? Touch::Writes : 0) |
                                             (op.proxy == Proxy::Async ? Touch::AsyncProxy : 0) |
                                             (r.kind == AccessKind::Atomic ? Touch::Strong : 0) |
                                             static_cast<int>(Scope::Gpu) << Touch::ScopeShift |
                                             (copy ? Touch::Copy : Touch::LentSlot));
    std::uint64_t address = reinterpret_cast<std::uint64_t>(r.host);
    Shadow& shadow = shadow_of(*r.region, address);
    touch(shadow, address, r.bytes, by);
    if (r.block && op.queue == AsyncOperation::Queue::Mbarrier) {
      const auto slot = static_cast<std::uint32_t>(s.warps.size()) * slots_of_warp + 2 * operation.unit +
                        (r.kind != AccessKind::Read);
      auto& uses = state(*r.block).uses;
      const auto known = std::find_if(uses.begin(), uses.end(), [&](const BlockState::Use& u) {
        return u.warp == op.warp && u.instruction == op.instruction && u.lane == r.lane;
      });
      const BlockState::Use use{op.warp, op.instruction, r.lane, s.number, slot, operation.stamp};
      known == uses.end() ? uses.push_back(use) : void(*known = use);
    }
  }
  if (const auto* t = dynamic_cast<const Transfer*>(&op); t && t->mbarrier)
    for (const Block* b :
         op.warp->block.cluster) // the mbarrier that counts its bytes, which may be another block's
      if (t->mbarrier >= b->shared.data && t->mbarrier < b->shared.data + b->shared.bytes) {
        by.in_shared = true;
        by.lane = std::countr_zero(op.lanes);
        by.program = by.as.lanes = lane_bit(by.lane);
        by.as.flags = static_cast<std::uint16_t>(Touch::Writes | Touch::Strong |
                                                 static_cast<int>(Scope::Cluster) << Touch::ScopeShift |
                                                 Touch::LentSlot);
        touch(state(*b).shared, static_cast<std::uint64_t>(t->mbarrier - b->shared.data), 8, by);
      }
  if (!copy || op.ranges.empty()) operation.at_issue = release(*op.warp, op.lanes);
  operations_[op.id] = std::move(operation);
  constexpr std::size_t most = 1 << 14;
  if (operations_.size() > most)
    for (auto at = operations_.begin(); at != operations_.end() && operations_.size() > most / 2;)
      at = at->second.landed ? operations_.erase(at) : std::next(at);
}

void RaceChecker::landed(const AsyncOperation& op) {
  auto at = operations_.find(op.id);
  if (at == operations_.end()) return;
  at->second.landed = true;
  if (op.kind == AsyncOperation::Kind::Copy) {
    if (!op.ranges.empty()) operations_.erase(at);
    return;
  }
  if (auto b = blocks_.find(&op.warp->block); b != blocks_.end())
    b->second->units[at->second.unit].in_use = false;
}

void RaceChecker::counted(const AsyncOperation& op, std::uint8_t* mbarrier, std::uint64_t) {
  auto& phase = mbarriers_[mbarrier];
  if (!phase) phase = std::make_unique<Phase>();
  BlockState& s = state(op.warp->block);
  Knowledge k;
  Slots slots;
  if (auto at = operations_.find(op.id); at != operations_.end()) {
    k = at->second.at_issue;
    if (op.kind != AsyncOperation::Kind::Copy) {
      const std::size_t slot = s.warps.size() * slots_of_warp + 2 * at->second.unit;
      slots.resize(slot + 2);
      slots[slot] = slots[slot + 1] = at->second.stamp;
    }
  }
  if (op.kind == AsyncOperation::Kind::Copy) { // covers all earlier copies of these lanes
    const std::size_t column = static_cast<std::size_t>(op.warp->index) * slots_of_warp + warp_size;
    slots.resize(column + warp_size);
    for (Mask rest = op.lanes; rest; rest &= rest - 1)
      slots[column + static_cast<std::size_t>(std::countr_zero(rest))] = static_cast<std::uint32_t>(op.id);
  }
  if (const Slots* known = k.clock ? k.clock->of(s.number) : nullptr) raise(slots, *known);
  k.clock = Clock::with(k.clock, s.number, std::move(slots));
  phase->arriving.join(k);
}

void RaceChecker::waited(Warp& w, const Instruction&, Mask lanes, const AsyncOperation& op, bool only_read) {
  WarpClocks& p = clocks(w);
  if (op.kind == AsyncOperation::Kind::Copy) {
    for (Mask rest = lanes; rest; rest &= rest - 1)
      p.finish_copy(std::countr_zero(rest), static_cast<std::uint32_t>(op.id));
    return;
  }
  auto at = operations_.find(op.id);
  if (at == operations_.end()) return;
  const auto slot =
      static_cast<std::uint32_t>(state(op.warp->block).warps.size()) * slots_of_warp + 2 * at->second.unit;
  p.finish(lanes, w.alive(), at->second.block, slot, at->second.stamp);
  if (!only_read) p.finish(lanes, w.alive(), at->second.block, slot + 1, at->second.stamp);
}

// --- The end of a block whose shared memory others may still use -------------------------------------------

void RaceChecker::note_remote_access(BlockState& owner, const Actor& by) {
  for (auto& v : owner.remote_accesses)
    if (v.warp == &by.warp && v.touch.lanes == by.as.lanes) {
      v.touch = by.as;
      v.instruction = &by.instruction;
      return;
    }
  owner.remote_accesses.push_back({by.as, &by.warp, &by.instruction});
}

void RaceChecker::lanes_exited(Warp& w, Mask lanes) {
  BlockState& s = state(w.block);
  if (cluster_size_ == 1 && s.uses.empty()) return;
  s.at_exit.join(release(w, lanes));
  if (!w.block.done()) return;
  const auto known = [&](std::uint32_t block, std::uint32_t slot, std::uint32_t stamp) {
    return s.at_exit.clock->knows(block, slot, stamp) ||
           s.at_exit.clock->knows(block | block_scope_only, slot, stamp);
  };
  for (const auto& u : s.uses)
    if (!known(u.block, u.slot, u.stamp))
      execution_.add_finding(
          Fault::Unfinished, *u.warp, *u.instruction, u.lane,
          "uses shared memory, and no thread of the block has waited for its end when the block ends and its "
          "shared memory becomes another block's: wait for the phase of its mbarrier");
  for (const auto& v : s.remote_accesses) {
    const int l = std::countr_zero(v.touch.lanes);
    const std::uint32_t slot = v.touch.unit * slots_of_warp + static_cast<std::uint32_t>(l);
    if (!known(v.touch.block, slot, v.touch.stamp))
      execution_.add_finding(Fault::UseAfterFree, *v.warp, *v.instruction, l,
                             "accesses the shared memory of another block, which may have ended before: "
                             "nothing keeps that block "
                             "alive until then");
  }
}

} // namespace kiln::emulator
