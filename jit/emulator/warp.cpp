// How a warp runs: fragments, divergence, calls and waits.
#include "warp.h"

#include "block.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::uint64_t patience = 4096; // instructions before another ready fragment has its turn
constexpr std::uint64_t most_frame_bytes = std::uint64_t(256) << 20; // of a warp
constexpr std::uint64_t most_local_bytes = std::uint64_t(512) << 10; // of a thread
constexpr int deepest = 4096;

int first(Mask m) { return std::countr_zero(m); }

} // namespace

Warp::Warp(Execution& e, Block& b, int n, Mask lanes)
    : execution(e), block(b), index(n), all_(lanes), alive_(lanes) {
  const auto& size = e.launch.block;
  for (int l = 0; l < warp_size; ++l) {
    const std::uint32_t t = static_cast<std::uint32_t>(n * warp_size + l);
    tid[0][l] = t % size[0];
    tid[1][l] = t / size[0] % size[1];
    tid[2][l] = t / size[0] / size[1];
  }
  Frame* frame = push(*e.program.functions.front(), nullptr, 0, lanes);
  fragments_.push_back({frame, 0, lanes});
}

Frame* Warp::push(const Function& function, Frame* caller, std::uint32_t return_to, Mask lanes) {
  auto frame = std::make_unique<Frame>();
  frame->function = &function;
  frame->caller = caller;
  frame->return_to = return_to;
  frame->depth = caller ? caller->depth + 1 : 0;
  frame->lanes = lanes;
  frame->local_base = caller ? caller->local_base + (caller->function->local_bytes + 31) / 32 * 32 : 0;
  frame->storage.reset(new std::uint8_t[function.register_bytes + 64]);
  frame->registers = reinterpret_cast<std::uint8_t*>(
      (reinterpret_cast<std::uintptr_t>(frame->storage.get()) + 63) / 64 * 64);
  std::memset(frame->registers, 0, function.register_bytes);
  for (const Constant& c : function.constants) {
    const std::uint64_t value = c.value + (c.local ? frame->local_base : 0);
    std::uint8_t* at = frame->registers + c.at;
    if (c.bits == 1)
      *reinterpret_cast<Mask*>(at) = value ? all_lanes : 0;
    else if (c.bits == 16)
      std::fill_n(reinterpret_cast<std::uint16_t*>(at), warp_size, static_cast<std::uint16_t>(value));
    else if (c.bits == 32)
      std::fill_n(reinterpret_cast<std::uint32_t*>(at), warp_size, static_cast<std::uint32_t>(value));
    else
      std::fill_n(reinterpret_cast<std::uint64_t*>(at), warp_size, value);
  }
  frame->params.resize(function.param_bytes * warp_size);
  if (function.multiplies) frame->watches.resize(function.register_bytes / 64 + 1);
  const std::uint64_t local = frame->local_base + (function.local_bytes + 31) / 32 * 32;
  if (local > local_bytes()) {
    local_.resize(local * warp_size);
    if (execution.options.checks.uninitialised) local_shadow_.resize(local_.size());
  }
  if (execution.options.checks.uninitialised && function.local_bytes) {
    const auto begin = static_cast<std::ptrdiff_t>(frame->local_base * warp_size);
    std::fill(local_shadow_.begin() + begin,
              local_shadow_.begin() + static_cast<std::ptrdiff_t>(local * warp_size), std::uint8_t(0));
  }
  frames_.push_back(std::move(frame));
  return frames_.back().get();
}

void Warp::collect_frames() {
  std::erase_if(frames_, [](const auto& f) { return f->lanes == 0 && f->caller && !f->in_flight; });
}

void Warp::kill() {
  alive_ = 0;
  fragments_.clear();
  ready_ = false;
}

void Warp::place(const Fragment& f) {
  for (Fragment& other : fragments_)
    if (other.state == Fragment::State::Ready && other.frame == f.frame && other.at == f.at) {
      other.lanes |= f.lanes;
      return;
    }
  fragments_.push_back(f);
}

// The fragment to run: deepest in calls, then first in the text; another one if that had its time.
bool Warp::select() {
  std::size_t best = fragments_.size();
  int ready = 0;
  for (std::size_t k = 0; k < fragments_.size(); ++k) {
    const Fragment& f = fragments_[k];
    if (f.state != Fragment::State::Ready) continue;
    ++ready;
    if (best == fragments_.size()) {
      best = k;
      continue;
    }
    const Fragment& b = fragments_[best];
    if (f.frame->depth != b.frame->depth ? f.frame->depth > b.frame->depth : f.at < b.at) best = k;
  }
  if (!ready) return false;
  if (ready == 1) turn_ = 0;
  if (turn_ > patience) {
    turn_ = 0;
    std::uint64_t skip = execution.random() % static_cast<std::uint64_t>(ready);
    for (std::size_t k = 0; k < fragments_.size(); ++k)
      if (fragments_[k].state == Fragment::State::Ready && skip-- == 0) best = k;
  }
  current_ = best;
  return true;
}

void Warp::run(std::uint64_t quantum) {
  yielded_ = false;
  while (quantum && alive_ && !execution.stopped && !yielded_) {
    if (!select()) {
      ready_ = false;
      return;
    }
    Fragment f = fragments_[current_];
    fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(current_));
    std::uint32_t stop = ~0u; // where the next fragment of the frame waits to be met
    for (std::size_t k = 0; k < fragments_.size();) {
      Fragment& other = fragments_[k];
      if (other.state == Fragment::State::Ready && other.frame == f.frame) {
        if (other.at == f.at) {
          f.lanes |= other.lanes;
          fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(k));
          continue;
        }
        if (other.at > f.at) stop = std::min(stop, other.at);
      }
      ++k;
    }
    frame_ = f.frame;
    registers_ = frame_->registers;
    const std::uint64_t slice = fragments_.empty() ? quantum : std::min<std::uint64_t>(quantum, patience + 1);
    const std::uint64_t used = execute(f, slice, stop);
    if (f.lanes) {
      if (f.state == Fragment::State::Ready)
        place(f);
      else
        fragments_.push_back(f);
    }
    turn_ += used;
    quantum -= std::min(used, quantum);
    execution.report.warp_instructions += used;
    if (execution.report.warp_instructions > execution.budget && !execution.stopped) {
      const auto& code = f.frame->function->code;
      execution.found(Fault::Budget, *this, code[std::min<std::size_t>(f.at, code.size() - 1)],
                      first(f.lanes ? f.lanes : 1),
                      "is where the launch was after " + std::to_string(execution.budget) +
                          " instructions of warps, its budget; if it is no endless loop, raise that "
                          "(--budget of kiln emulate, instruction_budget "
                          "of Options and EmulatorOptions)");
      execution.report.finished = false;
      execution.stopped = true;
    }
    // Waiting fragments may be able to go on now: others came, or will never come.
    for (std::size_t k = 0; k < fragments_.size(); ++k)
      if (fragments_[k].state == Fragment::State::AtCollective && meet(fragments_[k])) k = ~std::size_t(0);
    if (frames_.size() > 64) collect_frames();
  }
  if (!alive_) ready_ = false;
}

// Runs f, which is not among fragments_, until it waits, diverges, jumps among others, or meets `stop`.
std::uint64_t Warp::execute(Fragment& f, std::uint64_t budget, std::uint32_t stop) {
  const Instruction* code = f.frame->function->code.data();
  Tally* tallies = execution.tallies.data() + f.frame->function->first;
  std::uint64_t n = 0;
  const bool alone = fragments_.empty();
  while (n < budget) {
    if (f.at == stop) return n;
    const Instruction& i = code[f.at];
    Mask m = f.lanes;
    if (i.guard != no_register) {
      const Mask p = pred(i.guard);
      m &= i.guard_negated ? ~p : p;
    }
    ++n;
    const std::uint64_t lanes = m == all_lanes ? warp_size : static_cast<std::uint64_t>(std::popcount(m));
    Tally& tally = tallies[f.at];
    ++tally.warps;
    tally.lanes += lanes;
    if (i.watched && m) touch_registers(f, i, m);
    if (i.step == Step::Plain) {
      if (m) i.run(*this, i, m);
      ++f.at;
      if (yielded_) return n;
      continue;
    }
    switch (i.step) {
    case Step::Plain: break;
    case Step::Branch:
      if (m == 0) {
        ++f.at;
        continue;
      }
      if (m != f.lanes) {
        Fragment other = f;
        other.lanes = f.lanes & ~m;
        ++other.at;
        f.at = i.target;
        f.lanes = m;
        place(other);
        return n;
      }
      f.at = i.target;
      if (!alone) return n;
      continue;
    case Step::IndexedBranch: {
      const std::uint32_t* which = reg<std::uint32_t>(i.a);
      const std::uint32_t* targets = extras(i);
      const Mask rest = f.lanes & ~m;
      for (Mask left = m; left; left &= left - 1) {
        const int l = first(left);
        if (which[l] >= i.count) {
          execution.found(Fault::IllegalOperand, *this, i, l,
                          "has index " + std::to_string(which[l]) + " into a list of " +
                              std::to_string(i.count) + " labels");
          exit_lanes(Mask(1) << l);
          continue;
        }
        place({f.frame, targets[which[l]], Mask(1) << l});
      }
      f.lanes = rest;
      ++f.at;
      return n;
    }
    case Step::Call: {
      if (m == 0) {
        ++f.at;
        continue;
      }
      call(f, i, m);
      return n;
    }
    case Step::Return:
      if (m == 0) {
        ++f.at;
        continue;
      }
      leave(f, m);
      return n;
    case Step::Exit:
      if (m == 0) {
        ++f.at;
        continue;
      }
      f.lanes &= ~m;
      ++f.at;
      exit_lanes(m);
      return n;
    case Step::Collective:
    case Step::Barrier: {
      if (m == 0) {
        ++f.at;
        continue;
      }
      const bool aligned = i.target == no_register;
      if (aligned && m != f.lanes)
        execution.found(Fault::BarrierDivergence, *this, i, first(m),
                        "is .aligned, and the guard holds for some lanes of a warp only",
                        static_cast<std::uint64_t>(std::popcount(m)));
      if (aligned && i.step == Step::Collective && alive_ != all_)
        execution.found(Fault::BarrierDivergence, *this, i, first(m),
                        "takes a whole warp, of which " + std::to_string(std::popcount(all_ & ~alive_)) +
                            " lanes have exited");
      if (m == f.lanes && (aligned ? m == alive_ : i.step == Step::Barrier)) {
        if (i.step == Step::Barrier) {
          arrive(f, i, m);
          if (f.state != Fragment::State::Ready) return n;
          continue;
        }
        const Participant all{&i, f.frame, m};
        i.collective(*this, &all, 1);
        ++f.at;
        if (yielded_) return n;
        continue;
      }
      if (m != f.lanes) { // lanes whose guard does not hold pass
        Fragment other = f;
        other.lanes = f.lanes & ~m;
        ++other.at;
        f.lanes = m;
        place(other);
        if (!aligned && i.step == Step::Barrier) {
          arrive(f, i, m);
          return n;
        }
      }
      if (!aligned) { // by the masks that the lanes name
        const std::uint32_t* masks = reg<std::uint32_t>(i.target);
        Mask through = 0;
        for (Mask left = m; left;) {
          const Mask members = masks[first(left)];
          Mask group = 0;
          for (Mask rest = left; rest; rest &= rest - 1)
            if (masks[first(rest)] == members) group |= Mask(1) << first(rest);
          left &= ~group;
          if (group & ~members) {
            execution.found(Fault::IllegalOperand, *this, i, first(group & ~members),
                            "is executed by a lane that its member mask does not name");
          }
          if (members & alive_ & ~group) {
            Fragment waiting = f;
            waiting.state = Fragment::State::AtCollective;
            waiting.lanes = group;
            waiting.members = members;
            fragments_.push_back(waiting);
          } else {
            const Participant one{&i, f.frame, group};
            i.collective(*this, &one, 1);
            through |= group;
          }
        }
        f.lanes = through;
        ++f.at;
        if (through == m && !yielded_ && alone && fragments_.empty()) continue;
        return n;
      }
      f.state = Fragment::State::AtCollective;
      f.members = 0; // all that live
      return n;
    }
    }
  }
  return n;
}

// Whether all that `f` waits for have come; then they go on, and fragments_ has changed.
bool Warp::meet(Fragment& waiting) {
  const Instruction& i = waiting.frame->function->code[waiting.at];
  const bool aligned = i.target == no_register;
  Mask come = 0;
  Participant participants[warp_size];
  int count = 0;
  for (const Fragment& f : fragments_) {
    if (f.state != Fragment::State::AtCollective) continue;
    const Instruction& other = f.frame->function->code[f.at];
    if (aligned ? (f.frame != waiting.frame || f.at != waiting.at)
                : (other.target == no_register || other.collective != i.collective || other.mode != i.mode ||
                   other.type != i.type || f.members != waiting.members))
      continue;
    come |= f.lanes;
    participants[count++] = {&other, f.frame, f.lanes};
  }
  const Mask needed = aligned ? alive_ : waiting.members & alive_;
  if (needed & ~come) return false;
  const Fragment sample = waiting;
  std::vector<Fragment> gone;
  for (std::size_t k = 0; k < fragments_.size();) {
    const Fragment& f = fragments_[k];
    const Instruction& other = f.frame->function->code[f.at];
    const bool mine =
        f.state == Fragment::State::AtCollective &&
        (aligned ? f.frame == sample.frame && f.at == sample.at
                 : other.target != no_register && other.collective == i.collective && other.mode == i.mode &&
                       other.type == i.type && f.members == sample.members);
    if (!mine) {
      ++k;
      continue;
    }
    gone.push_back(f);
    fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  if (aligned) { // together at one place: it is executed as if they had never parted
    Fragment all = sample;
    all.state = Fragment::State::Ready;
    all.lanes = come;
    fragments_.push_back(all);
    return true;
  }
  Frame* const frame = frame_;
  i.collective(*this, participants, count);
  frame_ = frame;
  registers_ = frame_->registers;
  for (Fragment& f : gone) {
    f.state = Fragment::State::Ready;
    ++f.at;
    place(f);
  }
  return true;
}

void Warp::call(Fragment& f, const Instruction& i, Mask m) {
  const Function& callee = *execution.program.functions[i.target];
  std::uint64_t bytes = callee.register_bytes;
  for (const auto& frame : frames_)
    bytes += frame->function->register_bytes;
  const std::uint64_t local = f.frame->local_base + f.frame->function->local_bytes + callee.local_bytes;
  if (f.frame->depth >= deepest || bytes > most_frame_bytes || local > most_local_bytes) {
    execution.found(Fault::StackOverflow, *this, i, first(m),
                    "calls " + callee.name + " at a depth of " + std::to_string(f.frame->depth) +
                        ", with no stack left: an endless recursion");
    execution.report.finished = false;
    execution.stopped = true;
    return;
  }
  Frame* caller = f.frame;
  Frame* frame = push(callee, caller, f.at + 1, m);
  const std::uint32_t* arguments =
      caller->function->extras.data() + i.extra; // caller's offsets: returns, then parameters
  const std::uint64_t from = caller->function->param_bytes, to = callee.param_bytes;
  for (std::size_t k = 0; k < callee.params.size(); ++k)
    for (Mask rest = m; rest; rest &= rest - 1) {
      const auto l = static_cast<std::uint64_t>(first(rest));
      std::memcpy(frame->params.data() + l * to + callee.params[k].offset,
                  caller->params.data() + l * from + arguments[callee.returns.size() + k],
                  callee.params[k].bytes);
    }
  if (f.lanes & ~m) place({caller, f.at + 1, f.lanes & ~m});
  f.frame = frame;
  f.lanes = m;
  f.at = 0;
}

void Warp::leave(Fragment& f, Mask m) {
  Frame& frame = *f.frame;
  Frame* caller = frame.caller;
  f.lanes &= ~m;
  ++f.at;
  if (!caller) {
    exit_lanes(m);
    return;
  }
  const Instruction& i = caller->function->code[frame.return_to - 1];
  const std::uint32_t* arguments = caller->function->extras.data() + i.extra;
  const std::uint64_t to = caller->function->param_bytes, from = frame.function->param_bytes;
  for (std::size_t k = 0; k < frame.function->returns.size(); ++k)
    for (Mask rest = m; rest; rest &= rest - 1) {
      const auto l = static_cast<std::uint64_t>(first(rest));
      std::memcpy(caller->params.data() + l * to + arguments[k],
                  frame.params.data() + l * from + frame.function->returns[k].offset,
                  frame.function->returns[k].bytes);
    }
  frame.lanes &= ~m;
  place({caller, frame.return_to, m});
}

void Warp::exit_lanes(Mask lanes) {
  alive_ &= ~lanes;
  ++execution.events;
  for (auto& frame : frames_)
    frame->lanes &= ~lanes;
  if (execution.probe) execution.probe->lanes_exited(*this, lanes);
  block.open_barriers();
}

void Warp::arrive_at_cluster(Fragment& f, const Instruction& i, Mask m) {
  Block& leader = *block.cluster.front();
  Probe* probe = execution.probe;
  if (i.mode == 5) {
    if (probe) probe->cluster_arrived(*this, i, m, i.mode2);
    for (Mask rest = m; rest; rest &= rest - 1)
      cluster_phase[first(rest)] = leader.cluster_phase;
    ++execution.events;
    leader.cluster_arrived += static_cast<std::uint32_t>(std::popcount(m));
    ++f.at;
    block.open_barriers();
    return;
  }
  if (cluster_phase[first(m)] != leader.cluster_phase) {
    if (probe) probe->cluster_waited(*this, i, m);
    ++f.at;
    return;
  }
  f.state = Fragment::State::AtBarrier;
  f.barrier = cluster_barrier;
}

// setmaxnreg: gives registers back to the block, or waits until it has enough.
void Warp::change_registers(Fragment& f, const Instruction& i, Mask m) {
  const bool more = i.mode2;
  auto fault = [&](const std::string& what) {
    execution.found(Fault::IllegalOperand, *this, i, first(m), what);
  };
  if (static_cast<std::size_t>(index / 4 * 4 + 4) > block.warps.size())
    fault("takes a warpgroup: 4 warps, the first of which is a multiple of 4");
  else if (const auto* other = block.register_changes(index / 4).differs(index % 4, {&i}))
    fault("is executed where another warp of the warpgroup executes line " +
          std::to_string(other->instruction->line));
  if (more ? i.count < registers_per_thread : i.count > registers_per_thread) {
    fault((more ? "asks for " : "keeps ") + std::to_string(i.count) + " registers, where the threads have " +
          std::to_string(registers_per_thread));
    ++f.at;
    return;
  }
  f.state = Fragment::State::AtBarrier;
  f.barrier = register_barrier;
  fragments_.push_back(f);
  block.open_register_barrier();
  f = fragments_.back();
  fragments_.pop_back();
}

// An instruction other than wgmma uses registers that wgmma use too.
void Warp::touch_registers(const Fragment& f, const Instruction& i, Mask m) {
  const Function& function = *f.frame->function;
  auto at = std::lower_bound(function.touches.begin(), function.touches.end(), f.at,
                             [](const RegisterTouch& t, std::uint32_t n) { return t.instruction < n; });
  bool told = false;
  for (; at != function.touches.end() && at->instruction == f.at; ++at) {
    RegisterWatch& w = f.frame->watch(at->reg);
    if ((w.accumulating || w.feeding) && !told) {
      told = true;
      execution.found(Fault::InFlight, *this, i, first(m),
                      std::string(at->writes ? "writes " : "reads ") + at->name +
                          ", which a wgmma under way " + (w.accumulating ? "adds to" : "reads A from") +
                          ": wait for its group (wgmma.wait_group)",
                      static_cast<std::uint64_t>(std::popcount(m)));
    }
    w.touched = wgmma_fences;
    w.line = i.line;
  }
}

void Warp::arrive(Fragment& f, const Instruction& i, Mask m) {
  if (i.mode == 7) return change_registers(f, i, m);
  if (i.mode == 8) { // wgmma.wait_group
    f.state = Fragment::State::AtBarrier;
    f.barrier = wgmma_barrier;
    fragments_.push_back(f);
    block.open_multiplications();
    f = fragments_.back();
    fragments_.pop_back();
    return;
  }
  if (i.mode >= 5) return arrive_at_cluster(f, i, m);
  const int lane = first(m);
  const std::uint32_t id = reg<std::uint32_t>(i.a)[lane];
  const std::uint32_t expected = i.b == no_register ? 0 : reg<std::uint32_t>(i.b)[lane];
  const bool only_arrives = i.mode == 1;
  if (id >= 16 ||
      (i.b != no_register && (expected == 0 || expected % warp_size || expected > 1024 + warp_size))) {
    execution.found(Fault::IllegalOperand, *this, i, lane,
                    id >= 16 ? "names barrier " + std::to_string(id) + ", and there are 16"
                             : "waits for " + std::to_string(expected) +
                                   " threads, which is no multiple of 32 from 32 to 1024");
    ++f.at;
    return;
  }
  BarrierState& barrier = block.barriers[id];
  if (barrier.arrived && barrier.expected != expected)
    execution.found(Fault::BarrierDivergence, *this, i, lane,
                    "waits at barrier " + std::to_string(id) + " for " +
                        (expected ? std::to_string(expected) : "all") + " threads, while others (line " +
                        std::to_string(barrier.line) + ") wait for " +
                        (barrier.expected ? std::to_string(barrier.expected) : "all"));
  ++execution.events;
  barrier.line = i.line;
  barrier.expected = expected;
  const auto here = static_cast<std::uint32_t>(std::popcount(m));
  barrier.arrived += expected && i.target == no_register ? static_cast<std::uint32_t>(warp_size) : here;
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
  f.state = Fragment::State::AtBarrier;
  f.barrier = static_cast<int>(id);
  // The block looks at fragments_, where f is not while it runs.
  fragments_.push_back(f);
  block.open_barriers();
  f = fragments_.back();
  fragments_.pop_back();
}

void Warp::release(Fragment& f) {
  const Instruction& i = f.frame->function->code[f.at];
  if (f.barrier == cluster_barrier) {
    if (execution.probe) execution.probe->cluster_waited(*this, i, f.lanes);
    f.state = Fragment::State::Ready;
    f.barrier = -1;
    ++f.at;
    ready_ = true;
    return;
  }
  if (f.barrier == register_barrier || f.barrier == wgmma_barrier) {
    f.state = Fragment::State::Ready;
    f.barrier = -1;
    ++f.at;
    ready_ = true;
    return;
  }
  const BarrierState& b = block.barriers[f.barrier];
  auto* registers = f.frame->registers;
  if (i.mode == 2)
    for (Mask rest = f.lanes; rest; rest &= rest - 1)
      reinterpret_cast<std::uint32_t*>(registers + i.d)[first(rest)] = b.red_true;
  if (i.mode >= 3) {
    Mask& d = *reinterpret_cast<Mask*>(registers + i.d);
    const bool value = i.mode == 3 ? b.red_true == b.red_count : b.red_true > 0;
    d = value ? d | f.lanes : d & ~f.lanes;
  }
  f.state = Fragment::State::Ready;
  f.barrier = -1;
  ++f.at;
  ready_ = true;
}

void Warp::refresh() {
  for (const Fragment& f : fragments_)
    if (f.state == Fragment::State::Ready) ready_ = true;
}

} // namespace kiln::emulator
