// Runs a warp: chooses fragments, executes their instructions, handles divergence and warp-wide instructions.
#include "warp.h"

#include "block.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::uint64_t longest_slice = 4096; // instructions before another ready fragment is chosen

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

void Warp::kill() {
  alive_ = 0;
  fragments_.clear();
  ready_ = false;
}

void Warp::add_ready(const Fragment& f) {
  for (Fragment& other : fragments_)
    if (other.state == Fragment::State::Ready && other.frame == f.frame && other.at == f.at) {
      other.lanes |= f.lanes;
      return;
    }
  fragments_.push_back(f);
}

// Chooses the fragment to run: the deepest in calls, and of several the first in the text. If that one has
// used up its time slice, a random one is chosen.
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
  if (ready == 1) slice_used_ = 0;
  if (slice_used_ > longest_slice) {
    slice_used_ = 0;
    std::uint64_t skip = execution.random() % static_cast<std::uint64_t>(ready);
    for (std::size_t k = 0; k < fragments_.size(); ++k)
      if (fragments_[k].state == Fragment::State::Ready && skip-- == 0) best = k;
  }
  current_ = best;
  return true;
}

void Warp::run(std::uint64_t quantum) {
  yielded_ = interrupted_ = false;
  while (quantum && alive_ && !execution.stopped && !yielded_) {
    if (!select()) {
      ready_ = false;
      return;
    }
    Fragment f = fragments_[current_];
    fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(current_));
    std::uint32_t stop = ~0u; // position of the next fragment of the frame, where they reconverge
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
    const std::uint64_t slice =
        fragments_.empty() ? quantum : std::min<std::uint64_t>(quantum, longest_slice + 1);
    diverged_ = !fragments_.empty();
    events_ = execution.events;
    const Mask here = f.lanes, living = alive_;
    const std::uint64_t used = execute(f, slice, stop);
    if (diverged_ && execution.events - events_ > (living != alive_))
      divergence_.note_activity(here); // exits count as events too
    if (f.lanes) {
      if (f.state == Fragment::State::Ready)
        add_ready(f);
      else
        fragments_.push_back(f);
    }
    slice_used_ += used;
    quantum -= std::min(used, quantum);
    execution.report.warp_instructions += used;
    if (execution.beyond_budget() && !execution.stopped) {
      const auto& code = f.frame->function->code;
      execution.out_of_budget(*this, code[std::min<std::size_t>(f.at, code.size() - 1)],
                              first_lane(f.lanes ? f.lanes : 1));
    }
    // Waiting fragments may be able to continue now: other lanes arrived, or exited.
    for (std::size_t k = 0; k < fragments_.size(); ++k)
      if (fragments_[k].state == Fragment::State::AtCollective && complete_collective(fragments_[k]))
        k = ~std::size_t(0);
    if (frames_.size() > 64) collect_frames();
  }
  if (!alive_) ready_ = false;
}

// Runs f, which is not in fragments_, until it waits, diverges, branches while there are others, or reaches
// `stop`.
std::uint64_t Warp::execute(Fragment& f, std::uint64_t budget, std::uint32_t stop) {
  const Instruction* code = f.frame->function->code.data();
  Tally* tallies = execution.tallies.data() + f.frame->function->first;
  std::uint64_t n = 0;
  const bool alone = fragments_.empty();
  bool marked = f.frame->unwritten != nullptr;
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
    if (marked && m) [[unlikely]] {
      follow_unwritten(*this, *f.frame, i, m);
      marked = f.frame->unwritten != nullptr;
    }
    if (i.step == Step::Plain) {
      if (m) i.run(*this, i, m);
      ++f.at;
      if (interrupted_) [[unlikely]] {
        if (yielded_) return n;
        interrupted_ = false;
        marked = f.frame->unwritten != nullptr;
      }
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
        diverge(m, other.lanes, i);
        f.at = i.target;
        f.lanes = m;
        add_ready(other);
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
        const int l = first_lane(left);
        if (which[l] >= i.count) {
          execution.add_finding(Fault::IllegalOperand, *this, i, l,
                                "has index " + std::to_string(which[l]) + " into a list of " +
                                    std::to_string(i.count) + " labels");
          exit_lanes(Mask(1) << l);
          continue;
        }
        add_ready({f.frame, targets[which[l]], Mask(1) << l});
        diverge(Mask(1) << l, f.lanes & ~(Mask(1) << l), i);
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
      call(f, i, *execution.program.functions[i.target], m);
      return n;
    }
    case Step::IndirectCall:
      if (m == 0) {
        ++f.at;
        continue;
      }
      call_indirectly(f, i, m);
      return n;
    case Step::Return:
      if (m == 0) {
        ++f.at;
        continue;
      }
      return_lanes(f, m);
      return n;
    case Step::Exit:
      if (m == 0) {
        ++f.at;
        continue;
      }
      f.lanes &= ~m;
      ++f.at;
      diverge(m, f.lanes, i);
      if (m != alive_) divergence_.note_exit(m, i);
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
        execution.add_finding(Fault::BarrierDivergence, *this, i, first_lane(m),
                              "is .aligned, and its guard holds only for some lanes of the warp",
                              static_cast<std::uint64_t>(std::popcount(m)));
      if (aligned && i.step == Step::Collective && alive_ != all_)
        execution.add_finding(Fault::BarrierDivergence, *this, i, first_lane(m),
                              "requires a whole warp, of which " +
                                  std::to_string(std::popcount(all_ & ~alive_)) + " lanes have exited");
      if (m == f.lanes && (aligned ? m == alive_ : i.step == Step::Barrier)) {
        if (i.step == Step::Barrier) {
          if (aligned) check_all_here(i, m);
          arrive(f, i, m);
          if (f.state != Fragment::State::Ready) return n;
          continue;
        }
        const Participant all{&i, f.frame, m};
        i.collective(*this, &all, 1);
        ++f.at;
        if (yielded_) return n;
        marked = f.frame->unwritten != nullptr;
        continue;
      }
      if (m != f.lanes) { // lanes whose guard does not hold continue
        Fragment other = f;
        other.lanes = f.lanes & ~m;
        ++other.at;
        diverge(m, other.lanes, i);
        f.lanes = m;
        add_ready(other);
        if (!aligned && i.step == Step::Barrier) {
          arrive(f, i, m);
          return n;
        }
      }
      if (!aligned) { // grouped by the member masks of the lanes
        const std::uint32_t* masks = reg<std::uint32_t>(i.target);
        Mask through = 0;
        for (Mask left = m; left;) {
          const Mask members = masks[first_lane(left)];
          Mask group = 0;
          for (Mask rest = left; rest; rest &= rest - 1)
            if (masks[first_lane(rest)] == members) group |= Mask(1) << first_lane(rest);
          left &= ~group;
          if (group & ~members) {
            execution.add_finding(Fault::IllegalOperand, *this, i, first_lane(group & ~members),
                                  "is executed by a lane that its member mask does not contain");
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
        marked = f.frame->unwritten != nullptr;
        if (through == m && !yielded_ && alone && fragments_.empty()) continue;
        return n;
      }
      f.state = Fragment::State::AtCollective;
      f.members = 0; // all live lanes
      return n;
    }
    }
  }
  return n;
}

// Executes a collective if all lanes that `waiting` waits for have arrived. Returns whether they have; then
// they continue, and fragments_ has changed.
bool Warp::complete_collective(Fragment& waiting) {
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
  if (aligned) { // all at one position: it is executed as if they had never diverged
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
    add_ready(f);
  }
  return true;
}

void Warp::exit_lanes(Mask lanes) {
  alive_ &= ~lanes;
  ++execution.events;
  ++execution.lasting_events;
  block.cluster.front()->cluster_arrived -= static_cast<std::uint32_t>(std::popcount(lanes & at_cluster));
  at_cluster &= ~lanes; // the other lanes do not wait for them, and they are not counted
  for (auto& frame : frames_)
    frame->lanes &= ~lanes;
  if (execution.probe) execution.probe->lanes_exited(*this, lanes);
  block.open_barriers();
}

// Lanes that were together take different paths from now on.
void Warp::diverge(Mask some, Mask others, const Instruction& at) {
  if (diverged_ && execution.events != events_) divergence_.note_activity(some | others);
  events_ = execution.events;
  divergence_.split(some, others, at);
}

// Reports lanes that have skipped this barrier. Lanes that are not here have exited, which may be legal.
void Warp::check_all_here(const Instruction& barrier, Mask here) {
  if (here != all_)
    if (const Mask skipped = divergence_.skipped(barrier, here, all_ & ~here))
      execution.add_finding(Fault::BarrierDivergence, *this, barrier, first_lane(here),
                            "requires all lanes of a warp, and only " + hexadecimal(here) +
                                " have arrived: " + divergence_.describe(skipped, here),
                            static_cast<std::uint64_t>(std::popcount(here)));
  divergence_.note_barrier(barrier, here);
}

// Records that an instruction other than wgmma uses registers that wgmma use too, and reports it if one is
// under way.
void Warp::touch_registers(const Fragment& f, const Instruction& i, Mask m) {
  const Function& function = *f.frame->function;
  auto at = std::lower_bound(function.touches.begin(), function.touches.end(), f.at,
                             [](const RegisterTouch& t, std::uint32_t n) { return t.instruction < n; });
  bool reported = false;
  for (; at != function.touches.end() && at->instruction == f.at; ++at) {
    RegisterWatch& w = f.frame->watch(at->reg);
    if ((w.accumulating || w.feeding) && !reported) {
      reported = true;
      execution.add_finding(Fault::InFlight, *this, i, first_lane(m),
                            std::string(at->writes ? "writes " : "reads ") + at->name +
                                ", which a wgmma under way " + (w.accumulating ? "adds to" : "reads A from") +
                                ": wait for its group (wgmma.wait_group)",
                            static_cast<std::uint64_t>(std::popcount(m)));
    }
    w.touched = wgmma_fences;
    w.line = i.line;
  }
}

} // namespace kiln::emulator
