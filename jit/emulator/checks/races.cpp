// Compares each access with the earlier ones of its bytes, and reports those that nothing orders with it.
#include "races.h"

#include "race_state.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::size_t most_touches = 64; // per word

} // namespace

RaceChecker::RaceChecker(Execution& execution) : execution_(execution) {
  for (std::uint32_t n : execution.cluster)
    cluster_size_ *= std::max(n, 1u);
}
RaceChecker::~RaceChecker() = default;

RaceChecker::BlockState& RaceChecker::state(const Block& b) {
  if (&b != last_block_) {
    last_state_ = blocks_.at(&b).get();
    last_block_ = &b;
  }
  return *last_state_;
}

WarpClocks& RaceChecker::clocks(const Warp& w) {
  return state(w.block).warps[static_cast<std::size_t>(w.index)];
}

void RaceChecker::block_started(Block& b) {
  auto s = std::make_unique<BlockState>();
  started_.push_back(b.index);
  s->number = static_cast<std::uint32_t>(started_.size());
  for (std::uint32_t w = 0; w < b.warps.size(); ++w)
    s->warps.emplace_back(s->number, w);
  by_region_[&b.shared] = s.get();
  blocks_[&b] = std::move(s);
  last_block_ = nullptr;
}

void RaceChecker::block_finished(Block& b) {
  by_region_.erase(&b.shared);
  blocks_.erase(&b);
  last_block_ = nullptr;
  const std::uint8_t *begin = b.shared.data, *end = begin + b.shared.bytes;
  std::erase_if(mbarriers_, [&](const auto& m) { return m.first >= begin && m.first < end; });
  std::erase_if(words_, [&](const auto& w) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(w.first);
    return at >= begin && at < end;
  });
}

std::uint32_t RaceChecker::site(const Instruction& i) {
  if (&i != last_instruction_) {
    auto [at, fresh] = site_of_.try_emplace(&i, static_cast<std::uint32_t>(sites_.size()));
    if (fresh) sites_.push_back(&i);
    last_instruction_ = &i;
    last_site_ = at->second;
  }
  return last_site_;
}

Shadow& RaceChecker::shadow_of(const Region& region, std::uint64_t& address) {
  if (region.kind != Region::Kind::Shared) return global_;
  address -= reinterpret_cast<std::uint64_t>(region.data);
  return by_region_.at(&region)->shared;
}

void RaceChecker::access(const Access& a) {
  if (a.asynchronous) return;
  const Instruction& i = a.instruction;
  const bool of_mbarrier = i.kind == InstructionClass::Barrier;
  const bool strong = a.kind == AccessKind::Atomic || i.order != Order::Weak || i.speculative ||
                      (of_mbarrier && a.kind == AccessKind::Read);
  BlockState& s = state(a.warp.block);
  WarpClocks& clocks = s.warps[static_cast<std::size_t>(a.warp.index)];
  Actor by{a.warp, clocks, i, 0, 0, {}, &a, false};
  by.as.block = s.number;
  by.as.stamp = clocks.stamp();
  by.as.unit = static_cast<std::uint16_t>(a.warp.index);
  by.as.site = site(i) | static_cast<std::uint32_t>(a.warp.index) << 24;
  const Scope scope = of_mbarrier ? Scope::Cluster : i.scope;
  by.as.flags =
      static_cast<std::uint16_t>((a.kind != AccessKind::Read ? Touch::Writes : 0) |
                                 (strong ? Touch::Strong : 0) | static_cast<int>(scope) << Touch::ScopeShift |
                                 (of_mbarrier && a.kind == AccessKind::Write ? Touch::Init : 0));
  const bool others_read =
      i.step == Step::Collective && a.kind == AccessKind::Read && (a.lanes & (a.lanes - 1)) != 0;
  for (Mask rest = a.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const Region& region = *a.region[l];
    if (region.kind != Region::Kind::Global && region.kind != Region::Kind::Shared) continue;
    std::uint64_t address = reinterpret_cast<std::uint64_t>(a.host[l]);
    Shadow& shadow = shadow_of(region, address);
    by.lane = l;
    by.as.lanes = by.program = lane_bit(l);
    if (others_read) { // ldmatrix: one lane has the address, and other lanes get the data
      by.lane = std::countr_zero(a.lanes & ~lane_bit(l));
      by.program = 0;
    }
    by.in_shared = region.kind == Region::Kind::Shared;
    if (a.touched)
      for (std::uint32_t n = 0; n < a.bytes; ++n) {
        if (a.touched[l] >> n & 1) touch(shadow, address + n, 1, by);
      }
    else if (i.used_bytes == ptx::all_bytes || a.kind != AccessKind::Read)
      touch(shadow, address, a.bytes, by);
    else
      for (std::uint32_t n = 0; n < a.bytes; ++n)
        if (i.used_bytes >> n & 1) touch(shadow, address + n, 1, by);
    if (by.in_shared && &region != &a.warp.block.shared) note_remote_access(*by_region_.at(&region), by);
  }
  if (!of_mbarrier && (strong || (a.kind == AccessKind::Write && !words_.empty()))) synchronise(a);
}

void RaceChecker::touch(Shadow& shadow, std::uint64_t address, std::uint64_t bytes, const Actor& by) {
  while (bytes) {
    const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, 4 - address % 4));
    Cell& cell = shadow.at(address);
    CellMore* more = cell.more ? &shadow.more(cell) : nullptr;
    if (here == 4 && !(more && more->bytes)) {
      touch_cell(shadow, cell, address, 4, by);
    } else {
      if (!more) more = &shadow.more(cell);
      if (!more->bytes) {
        more->bytes = std::make_unique<std::array<Cell, 4>>();
        for (Cell& part : *more->bytes) {
          part = cell;
          part.more = 0;
          if (cell.count > Cell::here) shadow.more(part).touches = more->touches;
        }
      }
      for (std::uint32_t b = 0; b < here; ++b)
        touch_cell(shadow, (*more->bytes)[(address + b) % 4], address + b, 1, by);
    }
    address += here;
    bytes -= here;
  }
}

// Whether this is a plain read of a plain write of another block, which only the cluster's scope orders.
bool RaceChecker::needs_cluster_scope(const Touch& before, const Actor& by) {
  constexpr int others = Touch::Copy | Touch::LentSlot | Touch::AsyncProxy;
  return before.block != by.as.block && before.writes() && !by.as.writes() && !before.strong() &&
         !by.as.strong() && !((before.flags | by.as.flags) & others);
}

bool RaceChecker::ordered(const Touch& before, const Actor& by, bool block_scope_counts) const {
  auto lane_knows = [&](int lane, std::uint32_t slot) {
    return by.clocks.knows(lane, before.block, slot, before.stamp) ||
           (block_scope_counts && by.clocks.knows(lane, before.block | block_scope_only, slot, before.stamp));
  };
  auto knows = [&](std::uint32_t slot) {
    if (lane_knows(by.lane, slot)) return true;
    if (before.flags & Touch::Init)
      if (const ClockPtr& made = by.clocks.initialised(by.lane);
          made && made->knows(before.block, slot, before.stamp))
        return true;
    if (by.program == lane_bit(by.lane) || by.clocks.uniform()) return false;
    for (Mask rest = by.program; rest; rest &= rest - 1)
      if (lane_knows(std::countr_zero(rest), slot)) return true;
    return false;
  };
  if (before.flags & Touch::LentSlot)
    return knows(static_cast<std::uint32_t>(by.warp.block.warps.size()) * slots_of_warp + 2u * before.unit +
                 before.writes());
  Mask others = before.lanes;
  const bool copy = before.flags & Touch::Copy;
  if (!copy && before.block == by.as.block && before.unit == static_cast<std::uint32_t>(by.warp.index))
    others &= ~by.program;
  for (; others; others &= others - 1)
    if (!knows(before.unit * slots_of_warp + (copy ? warp_size : 0) +
               static_cast<std::uint32_t>(std::countr_zero(others))))
      return false;
  return true;
}

// Whether there is a fence.proxy.async between a generic write and an operation of the async proxy.
bool RaceChecker::proxied(const Touch& before, const Actor& by, bool global) const {
  for (Mask left = before.lanes; left; left &= left - 1) {
    const std::uint32_t slot = before.unit * slots_of_warp + (before.flags & Touch::Copy ? warp_size : 0) +
                               static_cast<std::uint32_t>(std::countr_zero(left));
    bool known = false;
    for (Mask rest = by.program; rest && !known; rest &= rest - 1) {
      const ClockPtr& c = by.clocks.proxied(std::countr_zero(rest), global);
      known = c && c->knows(before.block, slot, before.stamp);
    }
    if (!known) return false;
  }
  return true;
}

// Whether `by` stores the same value as the earlier store.
bool RaceChecker::same_value(const Touch& before, std::uint64_t address, std::uint32_t bytes,
                             const Actor& by) const {
  if (!by.access || !by.access->data || before.flags & (Touch::Copy | Touch::LentSlot)) return false;
  const Access& a = *by.access;
  const std::uint8_t* host = a.host[by.lane];
  const bool shared = a.region[by.lane]->kind == Region::Kind::Shared;
  const std::uint64_t base = shared ? reinterpret_cast<std::uint64_t>(a.region[by.lane]->data) : 0;
  const std::uint8_t* at = reinterpret_cast<const std::uint8_t*>(base + address); // address of the word
  const std::uint8_t* mine = a.data + static_cast<std::size_t>(by.lane) * a.bytes + (at - host);
  // Earlier lanes of the same instruction have not stored yet.
  const bool same_warp = before.block == by.as.block && before.unit == by.as.unit;
  Mask together = same_warp ? lane_bit(by.lane) : 0;
  if (same_warp && before.stamp == by.as.stamp)
    for (Mask rest = a.lanes & before.lanes & (lane_bit(by.lane) - 1); rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (at < a.host[l] || at + bytes > a.host[l] + a.bytes) continue;
      if (std::memcmp(a.data + static_cast<std::size_t>(l) * a.bytes + (at - a.host[l]), mine, bytes) != 0)
        return false;
      together |= lane_bit(l);
    }
  return !(before.lanes & ~together) || std::memcmp(at, mine, bytes) == 0;
}

void RaceChecker::touch_cell(Shadow& shadow, Cell& cell, std::uint64_t address, std::uint32_t bytes,
                             const Actor& by) {
  const Touch& now = by.as;
  const std::uint32_t inline_count = std::min(cell.count, Cell::here);
  for (std::uint32_t k = 0; k < inline_count; ++k)
    if (cell.first[k].same_actor(now) && !(now.lanes & ~cell.first[k].lanes)) return; // already recorded
  bool merged = false;
  const bool non_coherent = by.access && by.instruction.non_coherent && !by.in_shared;
  auto inclusive = [&](const Touch& a, const Touch& b) {
    return a.strong() && b.strong() &&
           (a.block == b.block || (a.scope() >= Scope::Gpu && b.scope() >= Scope::Gpu) ||
            (a.scope() >= Scope::Cluster && b.scope() >= Scope::Cluster && same_cluster(a.block, b.block)));
  };
  // Whether a touch, which is followed by those up to `end`, happened before. Strong accesses of one word
  // have an order: a thread that knows of one of them knows of the earlier ones.
  auto happened_before = [&](const Touch* t, const Touch* end) {
    if (ordered(*t, by)) return true;
    if (!t->strong() || now.strong()) return false;
    return std::any_of(t + 1, end,
                       [&](const Touch& later) { return inclusive(*t, later) && ordered(later, by); });
  };
  // Checks one touch; false if it need not be kept.
  auto keep = [&](Touch& t, bool before) {
    const bool conflict = (t.writes() || now.writes()) && !inclusive(t, now);
    bool reported = false;
    if (non_coherent && before && t.writes()) race(t, address, by, Fault::NonCoherent);
    if (conflict && !before) {
      const bool one_operation = (now.flags & (Touch::Copy | Touch::LentSlot)) && t.same_actor(now);
      if (!one_operation && !(t.writes() && now.writes() && same_value(t, address, bytes, by))) {
        race(t, address, by, by.in_shared ? Fault::RaceShared : Fault::RaceGlobal);
        reported = true;
      }
    } else if (conflict && (now.flags & Touch::AsyncProxy) && t.writes() && !(t.flags & Touch::AsyncProxy) &&
               !proxied(t, by, &shadow == &global_)) {
      race(t, address, by, Fault::MissingProxyFence);
      reported = true;
    }
    if ((before || reported) && (!t.writes() || now.writes()) && (!now.strong() || t.strong())) return false;
    if (!merged && t.same_actor(now)) {
      t.lanes |= now.lanes;
      merged = true;
    }
    return true;
  };
  // In two steps, because later touches decide about earlier ones.
  auto look = [&](Touch* all, std::uint32_t count) {
    std::uint64_t before = 0;
    for (std::uint32_t k = 0; k < count; ++k)
      before |= std::uint64_t(happened_before(all + k, all + count)) << k;
    std::uint32_t kept = 0;
    for (std::uint32_t k = 0; k < count; ++k)
      if (keep(all[k], before >> k & 1)) all[kept++] = all[k];
    return kept;
  };
  if (cell.count <= Cell::here) {
    cell.count = look(cell.first, cell.count);
    if (merged) return;
    if (cell.count < Cell::here) {
      cell.first[cell.count++] = now;
      return;
    }
  } else {
    auto& touches = shadow.more(cell).touches;
    Touch all[most_touches];
    std::copy_n(cell.first, Cell::here, all);
    std::copy(touches.begin(), touches.end(), all + Cell::here);
    std::uint32_t kept = look(all, cell.count);
    if (!merged) {
      if (kept == most_touches) { // forget one
        random_ = random_ * 1664525 + 1013904223;
        std::copy(all + (random_ >> 26) + 1, all + kept, all + (random_ >> 26));
        --kept;
      }
      all[kept++] = now;
    }
    cell.count = kept;
    const std::uint32_t in_cell = std::min(kept, Cell::here);
    std::copy_n(all, in_cell, cell.first);
    touches.assign(all + in_cell, all + kept);
    return;
  }
  shadow.more(cell).touches.assign(1, now);
  cell.count = Cell::here + 1;
}

std::uint32_t RaceChecker::cluster_of(std::uint32_t number) const { return (number - 1) / cluster_size_; }

OtherAccess RaceChecker::describe(const Touch& t) const {
  const Instruction& i = *sites_[t.site & 0xffffff];
  OtherAccess o;
  o.what = std::string(t.flags & (Touch::Copy | Touch::LentSlot) ? "asynchronous "
                       : t.strong()                              ? "strong "
                                                                 : "") +
           (t.writes() ? "write" : "read") + " by " + execution_.opcode(i);
  o.ptx_line = i.line;
  o.source = execution_.source(i);
  o.block = started_[t.block - 1];
  const auto& size = execution_.launch.block;
  const std::uint32_t thread =
      (t.site >> 24) * warp_size + static_cast<std::uint32_t>(std::countr_zero(t.lanes));
  o.thread = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
  return o;
}

void RaceChecker::race(const Touch& before, std::uint64_t address, const Actor& by, Fault fault) {
  const bool asynchronous = by.as.flags & (Touch::Copy | Touch::LentSlot);
  Touch shown = before;
  if (!(before.flags & (Touch::Copy | Touch::LentSlot)) && before.block == by.as.block &&
      before.unit == by.as.unit)
    if (const Mask others = before.lanes & ~by.program) shown.lanes = others;
  OtherAccess other = describe(shown);
  const bool shared = by.in_shared;
  const std::string where = hexadecimal(shared ? address : execution_.allocations.shown(address));
  std::string what = std::string(asynchronous ? "asynchronously " : "") +
                     (by.as.writes() ? "writes " : "reads ") + (shared ? "shared memory at " : "") + where;
  if (!shared) what += ", " + execution_.allocations.describe(address, 1) + ",";
  const auto triple = [](const std::array<std::uint32_t, 3>& v) {
    return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
  };
  const std::string them = "the " + other.what + " at line " + std::to_string(other.ptx_line) +
                           (other.source.empty() ? "" : " (" + other.source + ")") + " by block " +
                           triple(other.block) + ", thread " + triple(other.thread);
  if (fault == Fault::NonCoherent)
    what += " as memory that does not change while the kernel runs (.nc), after " + them;
  else if (fault == Fault::MissingProxyFence)
    what += " by the async proxy, without a fence.proxy.async after " + them;
  else
    what += " and nothing orders it with " + them;
  if (needs_cluster_scope(before, by) && ordered(before, by, true))
    what += " (the mbarrier between the two blocks does not: its arrival needs .release.cluster and its wait "
            ".acquire.cluster, and by default both have the scope of a block)";
  const auto guesses = [](const Touch& read, const Touch& update) {
    return !read.writes() && !read.strong() && update.writes() && update.strong() &&
           !((read.flags | update.flags) & (Touch::Copy | Touch::LentSlot));
  };
  if (fault != Fault::NonCoherent && (guesses(by.as, before) || guesses(before, by.as)))
    what +=
        " (a plain read that conflicts with a strong write; if it only guesses a value, make it relaxed or "
        "volatile)";
  execution_.add_finding(fault, by.warp, by.instruction, by.lane, what, 1, std::move(other));
}

} // namespace kiln::emulator
