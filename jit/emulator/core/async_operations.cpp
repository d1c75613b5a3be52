// When asynchronous operations take effect.
#include "async_operations.h"

#include "block.h"

#include <algorithm>
#include <bit>

namespace kiln::emulator {

namespace {

bool whole(const Flight& f) { return f.queue == Flight::Queue::Wgmma; } // not one lane after the other

} // namespace

void Flights::issue(std::unique_ptr<Flight> flight) {
  Execution& e = block_.execution;
  Flight& f = *flight;
  f.id = ++e.flights_issued;
  ++e.events;
  f.unread = f.flying = f.lanes;
  f.unwaited = f.queue == Flight::Queue::Mbarrier ? 0 : f.lanes;
  flights_.push_back(std::move(flight));
  ++flying_;
  watch(f);
  if (e.probe) e.probe->issued(f);
  // Of many lanes some land at once, of one mostly none.
  const std::uint64_t draw = e.options.asynchrony == Asynchrony::Random ? e.random() : 0;
  const Mask now = e.options.asynchrony == Asynchrony::Earliest ? f.lanes
                   : e.options.asynchrony == Asynchrony::Latest ? 0
                   : whole(f)                                   ? (draw % 4 ? 0 : f.lanes)
                              : f.lanes & static_cast<Mask>(draw & draw >> 32);
  if (now != f.lanes) f.poison();
  if (now) land(f, now);
  collect();
}

void Flights::watch(const Flight& f) {
  for (const Range& r : f.ranges) {
    if (r.block && r.bytes) {
      const auto offset = static_cast<std::uint64_t>(r.host - r.region->data);
      if (r.region->live_mbarrier(offset, r.bytes))
        block_.execution.found(Fault::LiveMbarrier, *f.warp, *f.instruction, r.lane,
                               std::string(r.kind == AccessKind::Read ? "reads " : "writes ") +
                                   "shared memory that " + r.block->mbarrier_at(*r.region, offset, r.bytes) +
                                   ": invalidate it first (mbarrier.inval)");
    }
    if (f.queue != Flight::Queue::Bulk || r.block != &block_) continue;
    const auto known = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) {
      return s.warp == f.warp && s.instruction == f.instruction && s.lane == r.lane;
    });
    if (known == sources_.end())
      sources_.push_back({f.warp, f.instruction, r.lane, f.group});
    else
      known->group = f.group;
  }
}

void Flights::read(Flight& f, Mask lanes) {
  lanes &= f.unread;
  if (!lanes) return;
  f.unread &= ~lanes;
  ++block_.execution.events;
  f.read(lanes);
  if (block_.execution.probe && !f.unread) block_.execution.probe->read(f);
}

void Flights::land(Flight& f, Mask lanes) {
  lanes &= f.flying;
  if (!lanes) return;
  if (f.queue == Flight::Queue::Wgmma || f.after_copies) {
    const auto before = f.after_copies ? Flight::Queue::Copies : Flight::Queue::Wgmma;
    for (std::size_t n = 0; n < flights_.size() && flights_[n].get() != &f; ++n)
      if (flights_[n]->warp == f.warp && flights_[n]->queue == before) land(*flights_[n], lanes);
  }
  read(f, lanes);
  f.flying &= ~lanes;
  if (!f.flying) --flying_;
  if (!f.flying && block_.execution.probe) block_.execution.probe->landed(f);
  f.land(block_, lanes);
}

void Flights::collect() {
  const bool keep = block_.execution.probe != nullptr;
  std::erase_if(flights_, [&](const auto& f) {
    if (f->flying) return false;
    if (f->queue == Flight::Queue::Wgmma) return !f->unwaited && (!keep || f->waiters == 0xf);
    return !f->unwaited || !keep;
  });
}

void Flights::wait(Warp& w, const Instruction& i, Mask lanes, Flight::Queue queue, std::uint32_t allowed,
                   bool all, bool only_read) {
  const std::uint32_t* open = queue == Flight::Queue::Copies ? w.copy_group
                              : queue == Flight::Queue::Bulk ? w.bulk_group
                                                             : w.wgmma_group;
  if (queue == Flight::Queue::Bulk)
    std::erase_if(sources_, [&](const Source& s) {
      return s.warp == &w && lanes >> s.lane & 1 && open[s.lane] > allowed &&
             s.group < open[s.lane] - allowed;
    });
  for (std::size_t n = 0; n < flights_.size(); ++n) {
    Flight& f = *flights_[n];
    if (f.queue != queue) continue;
    if (queue == Flight::Queue::Wgmma && f.warp != &w && f.warp->index / 4 == w.index / 4) {
      // Another warp's part of what this one waits for.
      const int l = std::countr_zero(lanes);
      if (f.waiters >> w.index % 4 & 1 || !(open[l] > allowed && f.group < open[l] - allowed)) continue;
      f.waiters |= static_cast<std::uint8_t>(1 << w.index % 4);
      land(f, f.flying);
      if (block_.execution.probe) block_.execution.probe->waited(w, i, lanes, f, false);
    }
    if (f.warp != &w) continue;
    Mask due = 0;
    for (Mask rest = lanes & f.unwaited; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (all || (open[l] > allowed && f.group < open[l] - allowed)) due |= Mask(1) << l;
    }
    if (!due) continue;
    if (only_read) {
      read(f, due);
    } else {
      land(f, due);
      f.unwaited &= ~due;
      f.waiters |= static_cast<std::uint8_t>(1 << w.index % 4);
      if (!f.unwaited) f.waited();
    }
    if (block_.execution.probe) block_.execution.probe->waited(w, i, due, f, only_read);
  }
  collect();
}

void Flights::advance(std::uint64_t draw) {
  if (!flying_) return;
  std::size_t n = draw / 8 % flying_;
  for (auto& f : flights_)
    if (f->flying && n-- == 0) {
      if (draw % 8 == 0) return read(*f, f->lanes); // and it lands later
      land(*f, draw % 8 == 1 && !whole(*f) ? f->flying & static_cast<Mask>(draw >> 32) : f->flying);
      break;
    }
  collect();
}

void Flights::oldest() {
  for (auto& f : flights_)
    if (f->flying) {
      land(*f, f->flying);
      break;
    }
  collect();
}

void Flights::finish() {
  for (const Source& s : sources_)
    block_.execution.found(
        Fault::Unfinished, *s.warp, *s.instruction, s.lane,
        "reads shared memory, and its thread has not waited for that when the block's threads are done, and "
        "its "
        "shared memory is another's: commit its group and wait for it (cp.async.bulk.wait_group.read)");
  sources_.clear();
  for (std::size_t n = 0; n < flights_.size(); ++n) {
    Flight& f = *flights_[n];
    const bool unwaited = f.queue == Flight::Queue::Wgmma && f.unwaited;
    if ((!f.flying && !unwaited) || f.queue == Flight::Queue::Copies || f.queue == Flight::Queue::Bulk ||
        f.after_copies)
      continue;
    const bool here = unwaited || std::any_of(f.ranges.begin(), f.ranges.end(), [&](const Range& r) {
                        return r.block == &block_ && (r.kind != AccessKind::Read || f.unread);
                      });
    if (!here) continue;
    block_.execution.found(
        Fault::Unfinished, *f.warp, *f.instruction, std::countr_zero(f.lanes),
        f.queue == Flight::Queue::Mbarrier
            ? "is still under way when the block's threads are done, and its shared memory is another's: "
              "wait for the "
              "phase of its mbarrier"
            : "still uses shared memory when the block's threads are done: wait for its group");
  }
  for (std::size_t n = 0; n < flights_.size(); ++n)
    land(*flights_[n], flights_[n]->flying);
  flights_.clear();
  flying_ = 0;
}

} // namespace kiln::emulator
