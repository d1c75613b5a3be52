// Lets a warp arrive at barriers of the block, the warpgroup or the cluster, wait there, and continue.
#include "warp.h"

#include "block.h"

#include <algorithm>
#include <bit>

namespace kiln::emulator {
void Warp::arrive_at_cluster(Fragment& f, const Instruction& i, Mask m) {
  Block& leader = *block.cluster.front();
  Probe* probe = execution.probe;
  auto report = [&](Mask lanes, const std::string& what) {
    if (lanes)
      execution.add_finding(Fault::BarrierDivergence, *this, i, first_lane(lanes), what,
                            static_cast<std::uint64_t>(std::popcount(lanes)));
  };
  if (i.mode == 5) {
    report(m & before_wait,
           "arrives again at the cluster's barrier, without a barrier.cluster.wait after line " +
               std::to_string(arrived_line) + ", where it arrived before");
    before_wait |= m;
    arrived_line = i.line;
    if (probe) probe->cluster_arrived(*this, i, m, i.mode2);
    for (Mask rest = m; rest; rest &= rest - 1)
      cluster_phase[first_lane(rest)] = leader.cluster_phase;
    ++execution.events;
    leader.cluster_arrived += static_cast<std::uint32_t>(std::popcount(m & ~at_cluster));
    at_cluster |= m;
    ++f.at;
    block.open_barriers();
    return;
  }
  report(m & ~before_wait,
         "waits at the cluster's barrier, where it has not arrived since it last waited there");
  before_wait &= ~m;
  if (cluster_phase[first_lane(m)] != leader.cluster_phase) {
    if (probe) probe->cluster_waited(*this, i, m);
    ++f.at;
    return;
  }
  f.state = Fragment::State::AtBarrier;
  f.barrier = cluster_barrier;
}

// Lets f wait, unless the barrier opens now.
void Warp::wait_at(Fragment& f, int barrier) {
  f.state = Fragment::State::AtBarrier;
  f.barrier = barrier;
  // The block searches fragments_, which do not contain f while it runs.
  fragments_.push_back(f);
  if (barrier == register_barrier)
    block.open_register_barrier();
  else if (barrier == wgmma_barrier)
    block.open_wgmma_waits();
  else
    block.open_barriers();
  f = fragments_.back();
  fragments_.pop_back();
}

// setmaxnreg: returns registers to the block, or waits until the block has enough.
void Warp::change_registers(Fragment& f, const Instruction& i, Mask m) {
  const bool more = i.mode2;
  auto fault = [&](const std::string& what) {
    execution.add_finding(Fault::IllegalOperand, *this, i, first_lane(m), what);
  };
  if (static_cast<std::size_t>(index / 4 * 4 + 4) > block.warps.size())
    fault("requires a warpgroup: 4 warps, the index of the first of which is a multiple of 4");
  else if (const auto* other = block.register_changes(index / 4).differs(index % 4, {&i}))
    fault("is executed where another warp of the warpgroup executes line " +
          std::to_string(other->instruction->line));
  if (more ? i.count < registers_per_thread : i.count > registers_per_thread) {
    fault((more ? "requests " : "keeps ") + std::to_string(i.count) + " registers, where the threads have " +
          std::to_string(registers_per_thread));
    ++f.at;
    return;
  }
  wait_at(f, register_barrier);
}

void Warp::arrive(Fragment& f, const Instruction& i, Mask m) {
  if (i.mode == 7) return change_registers(f, i, m);
  if (i.mode == 8) return wait_at(f, wgmma_barrier); // wgmma.wait_group
  if (i.mode >= 5) return arrive_at_cluster(f, i, m);
  const int lane = first_lane(m);
  const std::uint32_t id = reg<std::uint32_t>(i.a)[lane];
  const std::uint32_t expected = i.b == no_register ? 0 : reg<std::uint32_t>(i.b)[lane];
  const bool only_arrives = i.mode == 1;
  if (id >= 16 ||
      (i.b != no_register && (expected == 0 || expected % warp_size || expected > 1024 + warp_size))) {
    execution.add_finding(Fault::IllegalOperand, *this, i, lane,
                          id >= 16 ? "names barrier " + std::to_string(id) + ", and there are 16"
                                   : "waits for " + std::to_string(expected) +
                                         " threads, which is no multiple of 32 from 32 to 1024");
    ++f.at;
    return;
  }
  BarrierState& barrier = block.barriers[id];
  if ((barrier.arrived || !barrier.coming.empty()) && barrier.expected != expected)
    execution.add_finding(Fault::BarrierDivergence, *this, i, lane,
                          "waits at barrier " + std::to_string(id) + " for " +
                              (expected ? std::to_string(expected) : "all") +
                              " threads, while others (line " + std::to_string(barrier.line) + ") wait for " +
                              (barrier.expected ? std::to_string(barrier.expected) : "all"));
  ++execution.events;
  barrier.line = i.line;
  barrier.expected = expected;
  const auto here = static_cast<std::uint32_t>(std::popcount(m));
  if (!expected)
    barrier.arrived += here;
  else if (i.target == no_register)
    barrier.arrived += static_cast<std::uint32_t>(warp_size);
  else
    barrier.coming[index] |= m;
  if (i.mode >= 2) {
    const Mask p = pred(i.c) ^ (i.mode2 ? all_lanes : 0);
    barrier.red_count += here;
    barrier.red_true += static_cast<std::uint32_t>(std::popcount(p & m));
  }
  if (Probe* probe = execution.probe) probe->barrier_arrived(*this, i, static_cast<int>(id), m);
  if (only_arrives) {
    ++f.at;
    block.open_barriers();
    return;
  }
  wait_at(f, static_cast<int>(id));
}

// bar.red: stores the reduction over the threads at a barrier of the block.
void Warp::store_reduction(const Fragment& f, const Instruction& i) const {
  const BarrierState& b = block.barriers[f.barrier];
  auto* registers = f.frame->registers;
  if (i.mode == 2)
    for (Mask rest = f.lanes; rest; rest &= rest - 1)
      reinterpret_cast<std::uint32_t*>(registers + i.d)[first_lane(rest)] = b.red_true;
  if (i.mode >= 3) {
    Mask& d = *reinterpret_cast<Mask*>(registers + i.d);
    const bool value = i.mode == 3 ? b.red_true == b.red_count : b.red_true > 0;
    d = value ? d | f.lanes : d & ~f.lanes;
  }
}

void Warp::release(Fragment& f) {
  const Instruction& i = f.frame->function->code[f.at];
  if (f.barrier == cluster_barrier && execution.probe) execution.probe->cluster_waited(*this, i, f.lanes);
  if (f.barrier < cluster_barrier) store_reduction(f, i);
  f.state = Fragment::State::Ready;
  f.barrier = -1;
  ++f.at;
  ready_ = true;
}

} // namespace kiln::emulator
