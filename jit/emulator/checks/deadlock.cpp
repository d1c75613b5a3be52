// Reports deadlocks, saying what each warp waits for, and checks mbarriers of ended blocks.
#include <kiln/jit/emulator/core/block.h>
#include <kiln/jit/emulator/core/mbarrier.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

std::string triple(const std::array<std::uint32_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
}

MbarrierState state_of(const std::uint8_t* host) {
  std::uint64_t word;
  std::memcpy(&word, host, 8);
  return MbarrierState(word);
}

std::string describe_poll(const Warp& w) {
  const auto& t = w.failed_test();
  const MbarrierState s = state_of(t.mbarrier);
  std::string text = " on the mbarrier";
  for (const Block* b : w.block.cluster)
    if (t.mbarrier >= b->shared.data && t.mbarrier < b->shared.data + b->shared.bytes) {
      char at[32];
      std::snprintf(at, sizeof at, " at 0x%llx",
                    static_cast<unsigned long long>(t.mbarrier - b->shared.data));
      text += at + (b == &w.block ? std::string() : " of block " + triple(b->index));
    }
  return text + " that line " + std::to_string(t.instruction->line) + " tests, until its phase of parity " +
         std::to_string(s.phase) + " ends; it lacks " + std::to_string(s.pending) + " of " +
         std::to_string(s.expected) + " arrivals and " +
         (s.bytes < 0 ? "has " + std::to_string(-s.bytes) + " bytes too many"
                      : std::to_string(s.bytes) + " bytes");
}

} // namespace

// Reports mbarriers whose bytes have not all arrived, or were too many, when all threads have exited.
void Block::check_mbarriers() {
  for (const auto& [host, by] : mbarriers) {
    const MbarrierState s = state_of(host);
    if (s.valid && s.bytes)
      execution.add_finding(
          Fault::ByteCount, *by.first, *by.second, 0,
          "initialises an mbarrier that, when its block ends, " +
              (s.bytes > 0 ? "still expects " + std::to_string(s.bytes) + " bytes"
                           : "has received " + std::to_string(-s.bytes) + " bytes more than it expects"));
  }
}

// Ends the launch with a finding that says which warp waits where.
void Execution::report_deadlock(std::vector<std::unique_ptr<Block>>& blocks) {
  std::string text;
  int described = 0;
  bool divergent = false;
  bool spinning = false;
  const Warp* first = nullptr;
  const Instruction* where = nullptr;
  int lane = 0;
  for (auto& b : blocks)
    for (auto& w : b->warps) {
      for (Fragment& f : w->fragments()) {
        const Instruction& i = f.frame->function->code[f.at];
        if (!first) {
          first = w.get();
          const auto& test = w->failed_test(); // says more than the branch at which they happen to be
          const bool tests = f.state == Fragment::State::Ready && test.instruction;
          where = tests ? test.instruction : &i;
          lane = tests ? test.lane : std::countr_zero(f.lanes);
        }
        const bool partial =
            f.state == Fragment::State::AtCollective && f.members == 0 && f.lanes != w->alive();
        const bool spins =
            std::any_of(w->fragments().begin(), w->fragments().end(),
                        [](const Fragment& other) { return other.state == Fragment::State::Ready; });
        divergent |= partial && !spins;
        spinning |= f.state == Fragment::State::Ready && !w->failed_test().instruction;
        if (described++ < 8) {
          char mask[16];
          std::snprintf(mask, sizeof mask, "0x%08x", f.lanes);
          text += (text.empty() ? "" : "; ") + std::string("block ") + triple(b->index) + " warp " +
                  std::to_string(w->index) + " lanes " + mask +
                  (f.state == Fragment::State::Ready ? " are at line " : " wait at line ") +
                  std::to_string(i.line) + (source(i).empty() ? "" : " (" + source(i) + ")");
          const std::string& opcode = f.frame->function->opcodes[f.at];
          text += ", " + opcode;
          if (f.state == Fragment::State::Ready) {
            text += ", and spin";
            if (w->failed_test().instruction) text += describe_poll(*w);
          } else if (f.state == Fragment::State::AtBarrier && f.barrier == cluster_barrier) {
            text += ", where " + std::to_string(b->cluster.front()->cluster_arrived) +
                    " threads of the cluster have arrived";
          } else if (f.state == Fragment::State::AtBarrier && f.barrier == register_barrier) {
            text += ", which requests " + std::to_string(f.frame->function->code[f.at].count) +
                    " registers per thread, has " + std::to_string(w->registers_per_thread) +
                    ", and the block has " + std::to_string(b->free_registers) + " left in all";
          } else if (f.state == Fragment::State::AtBarrier && f.barrier == wgmma_barrier) {
            text += ", which waits for all 4 warps of the warpgroup to commit as many groups";
          } else if (f.state == Fragment::State::AtBarrier) {
            const BarrierState& s = b->barriers[f.barrier];
            text += ", where " + std::to_string(s.arrived) + " of " +
                    std::to_string(s.expected ? s.expected : b->alive_threads()) +
                    " threads have arrived at barrier " + std::to_string(f.barrier);
            if (auto c = s.coming.find(w->index); c != s.coming.end() && c->second)
              text += ", and this warp counts when all its lanes have arrived";
          } else if (partial) {
            text += ", which all lanes of a warp must execute together";
          } else {
            std::snprintf(mask, sizeof mask, "0x%08x", f.members & w->alive() & ~f.lanes);
            text += std::string(", for lanes ") + mask;
          }
        }
      }
    }
  if (described > 8) text += "; and " + std::to_string(described - 8) + " more";
  if (spinning) text += waiting_blocks();
  for (auto& b : blocks)
    b->report_disagreements();
  report.finished = false;
  for (auto& b : blocks)
    for (auto& w : b->warps)
      if (const auto& t = w->failed_test(); t.instruction && !w->done())
        if (const MbarrierState s = state_of(t.mbarrier); s.valid && !s.pending && s.bytes)
          add_finding(Fault::ByteCount, *w, *t.instruction, t.lane,
                      "waits for an mbarrier at which all threads have arrived, and " +
                          (s.bytes > 0
                               ? std::to_string(s.bytes) + " of the bytes that it expects never arrive"
                               : std::to_string(-s.bytes) + " bytes arrived that it does not expect"));
  if (first)
    add_finding(divergent ? Fault::BarrierDivergence : Fault::Deadlock, *first, *where, lane,
                "is never passed, no warp can continue: " + text);
  stopped = true;
}

} // namespace kiln::emulator
