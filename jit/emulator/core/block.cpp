// Makes a block, and opens its barriers when all threads that they wait for have arrived.
#include "block.h"

#include "mbarrier.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {

Block::Block(Execution& e, std::array<std::uint32_t, 3> where, std::uint32_t r)
    : execution(e), index(where), rank(r) {
  shared.kind = Region::Kind::Shared;
  shared.name = "shared memory";
  shared.bytes = e.program.dynamic_offset + e.launch.shared_bytes;
  if (e.program.uses_reserved) {
    reserved_at = (shared.bytes + 127) / 128 * 128;
    shared.bytes = reserved_at + reserved_shared_bytes;
  }
  shared.storage.reset(new std::uint8_t[shared.bytes + 1]);
  shared.data = shared.storage.get();
  std::memset(shared.data, 0, shared.bytes);
  if (e.options.checks.uninitialised) shared.shadow.assign(shared.bytes + 1, 0);
  if (!shared.shadow.empty() && e.program.uses_reserved)
    std::fill(shared.shadow.begin() + static_cast<std::ptrdiff_t>(reserved_at), shared.shadow.end(),
              std::uint8_t(1));
  const auto& size = e.launch.block;
  const std::uint32_t threads = size[0] * size[1] * size[2];
  for (std::uint32_t first = 0; first < threads; first += warp_size) {
    const std::uint32_t here = std::min<std::uint32_t>(warp_size, threads - first);
    warps.push_back(std::make_unique<Warp>(e, *this, static_cast<int>(first / warp_size),
                                           here == warp_size ? all_lanes : (Mask(1) << here) - 1));
    // The most that an assembler gives each thread, so that the block fits into the 64K registers.
    const std::uint32_t most = std::min(256u, 65536 / ((threads + 127) / 128 * 128)) / 8 * 8;
    warps.back()->registers_per_thread =
        e.program.registers ? std::min((e.program.registers + 7) / 8 * 8, most) : most;
  }
}

std::uint32_t Block::threads() const {
  const auto& size = execution.launch.block;
  return size[0] * size[1] * size[2];
}

std::uint32_t Block::alive_threads() const {
  std::uint32_t n = 0;
  for (const auto& w : warps)
    n += static_cast<std::uint32_t>(std::popcount(w->alive()));
  return n;
}

bool Block::done() const {
  return std::all_of(warps.begin(), warps.end(), [](const auto& w) { return w->done(); });
}

void Block::open_cluster_barrier() {
  Block& leader = *cluster.front();
  if (!leader.cluster_arrived) return;
  std::uint32_t all = 0;
  for (const Block* b : cluster)
    all += b->alive_threads();
  if (leader.cluster_arrived < all) return;
  leader.cluster_arrived = 0;
  for (Block* b : cluster)
    for (auto& w : b->warps)
      w->at_cluster = 0;
  ++leader.cluster_phase;
  if (execution.probe) execution.probe->cluster_opened(leader);
  for (Block* b : cluster)
    for (auto& w : b->warps)
      for (Fragment& f : w->fragments())
        if (f.state == Fragment::State::AtBarrier && f.barrier == cluster_barrier) w->release(f);
}

// Warps that wait for registers (setmaxnreg.inc) get them when there are enough, one warp after the other.
void Block::open_register_barrier() {
  for (bool again = true; again;) {
    again = false;
    for (auto& w : warps)
      for (Fragment& f : w->fragments()) {
        if (f.state != Fragment::State::AtBarrier || f.barrier != register_barrier) continue;
        const Instruction& i = f.frame->function->code[f.at];
        const std::uint64_t have = std::uint64_t(w->registers_per_thread) * warp_size,
                            wanted = std::uint64_t(i.count) * warp_size;
        if (wanted > have && wanted - have > free_registers) continue;
        free_registers += have;
        free_registers -= wanted;
        w->registers_per_thread = i.count;
        w->release(f);
        again = true;
      }
  }
}

// A wgmma belongs to the warpgroup: a warp's wait for a group ends when all four warps have committed that
// group.
void Block::open_wgmma_waits() {
  for (auto& w : warps)
    for (Fragment& f : w->fragments()) {
      if (f.state != Fragment::State::AtBarrier || f.barrier != wgmma_barrier) continue;
      const Instruction& i = f.frame->function->code[f.at];
      const std::uint32_t open = w->wgmma_group[std::countr_zero(f.lanes)],
                          needed = open > i.count ? open - i.count : 0;
      const auto first = static_cast<std::size_t>(w->index / 4 * 4);
      bool all = true;
      for (std::size_t n = first; n < std::min(first + 4, warps.size()); ++n)
        all &= warps[n]->wgmma_group[0] >= needed;
      if (!all) continue;
      async_operations.wait(*w, i, f.lanes, AsyncOperation::Queue::Wgmma, i.count, false, false);
      w->release(f);
    }
}

void Block::report_disagreements() {
  report_missed(multiplications_);
  report_missed(register_changes_);
  multiplications_.clear();
  register_changes_.clear();
}

void Block::report_missed(const std::map<int, Agreement>& agreements) {
  for (const auto& [group, a] : agreements)
    if (const Instruction* i = a.missed())
      execution.add_finding(Fault::BarrierDivergence, *warps[static_cast<std::size_t>(group) * 4], *i, 0,
                            "was executed by " + std::to_string(a.arrived()) +
                                " of the 4 warps of a warpgroup; all must execute it");
}

void Block::finish() {
  report_disagreements();
  async_operations.finish();
}

void Block::open_barriers() {
  open_cluster_barrier();
  for (int id = 0; id < 16; ++id) {
    BarrierState& b = barriers[id];
    if (!b.arrived && b.coming.empty()) continue;
    for (auto& [index, lanes] : b.coming) // a warp has arrived when all its live lanes have
      if (const Warp& w = *warps[static_cast<std::size_t>(index)]; lanes && !(w.alive() & ~lanes)) {
        b.arrived += static_cast<std::uint32_t>(warp_size);
        lanes = 0;
      }
    if (!b.arrived || b.arrived < (b.expected ? b.expected : alive_threads())) continue;
    for (auto& w : warps)
      for (Fragment& f : w->fragments())
        if (f.state == Fragment::State::AtBarrier && f.barrier == id) w->release(f);
    if (execution.probe) execution.probe->barrier_opened(*this, id);
    b = {};
  }
}

void Block::make_mbarrier(Region& r, std::uint8_t* host, Warp& by, const Instruction& i) {
  mbarriers[host] = {&by, &i};
  if (r.mbarriers.empty()) r.mbarriers.resize(r.bytes / Region::mbarrier_bytes + 1);
  r.mbarriers[static_cast<std::uint64_t>(host - r.data) / Region::mbarrier_bytes] = true;
}

void Block::drop_mbarrier(Region& r, std::uint8_t* host) {
  mbarriers.erase(host);
  const auto n = static_cast<std::uint64_t>(host - r.data) / Region::mbarrier_bytes;
  if (n < r.mbarriers.size()) r.mbarriers[n] = false;
}

std::string Block::mbarrier_at(const Region& r, std::uint64_t offset, std::uint64_t bytes) const {
  for (auto n = offset / Region::mbarrier_bytes; n <= (offset + bytes - 1) / Region::mbarrier_bytes; ++n)
    if (auto at = mbarriers.find(r.data + n * Region::mbarrier_bytes); at != mbarriers.end())
      return "is the mbarrier that line " + std::to_string(at->second.second->line) + " made";
  return "is an mbarrier";
}

} // namespace kiln::emulator
