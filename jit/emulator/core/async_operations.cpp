// Lets asynchronous operations land, and reports those that are still in use when the block ends.
#include "async_operations.h"

#include "block.h"

#include <algorithm>
#include <bit>

namespace kiln::emulator {

namespace {

bool lands_whole(const AsyncOperation& op) {
  return op.queue == AsyncOperation::Queue::Wgmma;
} // all lanes at once

} // namespace

void AsyncOperations::issue(std::unique_ptr<AsyncOperation> operation) {
  Execution& e = block_.execution;
  AsyncOperation& op = *operation;
  op.id = ++e.operations_issued;
  ++e.events;
  ++e.lasting_events;
  op.pending_reads = op.in_flight = op.lanes;
  op.unwaited = op.queue == AsyncOperation::Queue::Mbarrier ? 0 : op.lanes;
  operations_.push_back(std::move(operation));
  ++in_flight_;
  check_ranges(op);
  if (e.probe) e.probe->issued(op);
  // Of many lanes, some land at once; a single lane mostly does not.
  const std::uint64_t draw = e.options.asynchrony == Asynchrony::Random ? e.random() : 0;
  const Mask now = e.options.asynchrony == Asynchrony::Earliest ? op.lanes
                   : e.options.asynchrony == Asynchrony::Latest ? 0
                   : lands_whole(op)                            ? (draw % 4 ? 0 : op.lanes)
                                     : op.lanes & static_cast<Mask>(draw & draw >> 32);
  if (now != op.lanes) op.poison();
  if (now) land(op, now);
  remove_finished();
}

void AsyncOperations::check_ranges(const AsyncOperation& op) {
  for (const Range& r : op.ranges) {
    if (r.block && r.bytes) {
      const auto offset = static_cast<std::uint64_t>(r.host - r.region->data);
      if (r.region->live_mbarrier(offset, r.bytes))
        block_.execution.add_finding(
            Fault::LiveMbarrier, *op.warp, *op.instruction, r.lane,
            std::string(r.kind == AccessKind::Read ? "reads " : "writes ") + "shared memory that " +
                r.block->mbarrier_at(*r.region, offset, r.bytes) + ": invalidate it first (mbarrier.inval)");
    }
    if (op.queue != AsyncOperation::Queue::Bulk || r.block != &block_) continue;
    const auto known = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) {
      return s.warp == op.warp && s.instruction == op.instruction && s.lane == r.lane;
    });
    if (known == sources_.end())
      sources_.push_back({op.warp, op.instruction, r.lane, op.group});
    else
      known->group = op.group;
  }
}

void AsyncOperations::read(AsyncOperation& op, Mask lanes) {
  lanes &= op.pending_reads;
  if (!lanes) return;
  op.pending_reads &= ~lanes;
  ++block_.execution.events;
  ++block_.execution.lasting_events;
  op.read(lanes);
  if (block_.execution.probe && !op.pending_reads) block_.execution.probe->read(op);
}

void AsyncOperations::land(AsyncOperation& op, Mask lanes) {
  lanes &= op.in_flight;
  if (!lanes) return;
  if (op.queue == AsyncOperation::Queue::Wgmma || op.after_copies) {
    const auto before = op.after_copies ? AsyncOperation::Queue::Copies : AsyncOperation::Queue::Wgmma;
    for (std::size_t n = 0; n < operations_.size() && operations_[n].get() != &op; ++n)
      if (operations_[n]->warp == op.warp && operations_[n]->queue == before) land(*operations_[n], lanes);
  }
  read(op, lanes);
  op.in_flight &= ~lanes;
  if (!op.in_flight) --in_flight_;
  if (!op.in_flight && block_.execution.probe) block_.execution.probe->landed(op);
  op.land(block_, lanes);
}

void AsyncOperations::remove_finished() {
  const bool keep = block_.execution.probe != nullptr;
  std::erase_if(operations_, [&](const auto& op) {
    if (op->in_flight) return false;
    if (op->queue == AsyncOperation::Queue::Wgmma) return !op->unwaited && (!keep || op->waiters == 0xf);
    return !op->unwaited || !keep;
  });
}

void AsyncOperations::wait(Warp& w, const Instruction& i, Mask lanes, AsyncOperation::Queue queue,
                           std::uint32_t allowed, bool all, bool only_read) {
  const std::uint32_t* open = queue == AsyncOperation::Queue::Copies ? w.copy_group
                              : queue == AsyncOperation::Queue::Bulk ? w.bulk_group
                                                                     : w.wgmma_group;
  if (queue == AsyncOperation::Queue::Bulk)
    std::erase_if(sources_, [&](const Source& s) {
      return s.warp == &w && lanes >> s.lane & 1 && open[s.lane] > allowed &&
             s.group < open[s.lane] - allowed;
    });
  for (std::size_t n = 0; n < operations_.size(); ++n) {
    AsyncOperation& op = *operations_[n];
    if (op.queue != queue) continue;
    if (queue == AsyncOperation::Queue::Wgmma && op.warp != &w && op.warp->index / 4 == w.index / 4) {
      // It is another warp's part of the wgmma that this warp waits for.
      const int l = std::countr_zero(lanes);
      if (op.waiters >> w.index % 4 & 1 || !(open[l] > allowed && op.group < open[l] - allowed)) continue;
      op.waiters |= static_cast<std::uint8_t>(1 << w.index % 4);
      land(op, op.in_flight);
      if (block_.execution.probe) block_.execution.probe->waited(w, i, lanes, op, false);
    }
    if (op.warp != &w) continue;
    Mask due = 0;
    for (Mask rest = lanes & op.unwaited; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (all || (open[l] > allowed && op.group < open[l] - allowed)) due |= Mask(1) << l;
    }
    if (!due) continue;
    if (only_read) {
      read(op, due);
    } else {
      land(op, due);
      op.unwaited &= ~due;
      op.waiters |= static_cast<std::uint8_t>(1 << w.index % 4);
      if (!op.unwaited) op.waited();
    }
    if (block_.execution.probe) block_.execution.probe->waited(w, i, due, op, only_read);
  }
  remove_finished();
}

void AsyncOperations::advance(std::uint64_t draw) {
  if (!in_flight_) return;
  std::size_t n = draw / 8 % in_flight_;
  for (auto& op : operations_)
    if (op->in_flight && n-- == 0) {
      if (draw % 8 == 0) return read(*op, op->lanes); // it lands later
      land(*op, draw % 8 == 1 && !lands_whole(*op) ? op->in_flight & static_cast<Mask>(draw >> 32)
                                                   : op->in_flight);
      break;
    }
  remove_finished();
}

void AsyncOperations::land_oldest() {
  for (auto& op : operations_)
    if (op->in_flight) {
      land(*op, op->in_flight);
      break;
    }
  remove_finished();
}

void AsyncOperations::finish() {
  for (const Source& s : sources_)
    block_.execution.add_finding(
        Fault::Unfinished, *s.warp, *s.instruction, s.lane,
        "reads shared memory, and its thread has not waited for it when the block ends and its shared memory "
        "becomes another block's: commit its group and wait for it (cp.async.bulk.wait_group.read)");
  sources_.clear();
  for (std::size_t n = 0; n < operations_.size(); ++n) {
    AsyncOperation& op = *operations_[n];
    const bool unwaited = op.queue == AsyncOperation::Queue::Wgmma && op.unwaited;
    if ((!op.in_flight && !unwaited) || op.queue == AsyncOperation::Queue::Copies ||
        op.queue == AsyncOperation::Queue::Bulk || op.after_copies)
      continue;
    const bool here = unwaited || std::any_of(op.ranges.begin(), op.ranges.end(), [&](const Range& r) {
                        return r.block == &block_ && (r.kind != AccessKind::Read || op.pending_reads);
                      });
    if (!here) continue;
    block_.execution.add_finding(Fault::Unfinished, *op.warp, *op.instruction, std::countr_zero(op.lanes),
                                 op.queue == AsyncOperation::Queue::Mbarrier
                                     ? "is still under way when the block ends and its shared memory becomes "
                                       "another block's: wait for the "
                                       "phase of its mbarrier"
                                     : "still uses shared memory when the block ends: wait for its group");
  }
  for (std::size_t n = 0; n < operations_.size(); ++n)
    land(*operations_[n], operations_[n]->in_flight);
  operations_.clear();
  in_flight_ = 0;
}

} // namespace kiln::emulator
