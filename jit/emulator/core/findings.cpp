// Adds findings to a report, with their PTX and source lines, and ends launches that exceed their budget.
#include "block.h"

namespace kiln::emulator {
namespace {

std::string triple(const std::array<std::uint32_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
}

constexpr std::uint64_t most_repeats = 1 << 21;

constexpr const char* budget_options =
    "--budget of kiln emulate, instruction_budget of Options and EmulatorOptions";

} // namespace

const char* name_of(Fault fault) {
  switch (fault) {
  case Fault::OutOfBounds: return "out of bounds";
  case Fault::UseAfterFree: return "use after free";
  case Fault::Misaligned: return "misaligned";
  case Fault::ReadOnly: return "write to read-only memory";
  case Fault::Uninitialised: return "uninitialised read";
  case Fault::BarrierDivergence: return "barrier divergence";
  case Fault::Deadlock: return "deadlock";
  case Fault::Budget: return "out of budget";
  case Fault::StackOverflow: return "stack overflow";
  case Fault::Assertion: return "assertion";
  case Fault::Trap: return "trap";
  case Fault::IllegalOperand: return "illegal operand";
  case Fault::RaceShared: return "race in shared memory";
  case Fault::RaceGlobal: return "race in global memory";
  case Fault::MissingProxyFence: return "missing proxy fence";
  case Fault::ByteCount: return "wrong mbarrier byte count";
  case Fault::Unfinished: return "unfinished asynchronous operation";
  case Fault::LiveMbarrier: return "live mbarrier";
  case Fault::NonCoherent: return "non-coherent read";
  case Fault::InFlight: return "touched in flight";
  }
  return "?";
}

// The cost of a block's start in the budget: about the number of instructions that take the same time.
std::uint64_t Execution::start_of_block() const {
  return 32 * std::uint64_t(launch.block[0]) * launch.block[1] * launch.block[2] / warp_size + 32;
}

// Counts a finding that adds nothing to the report. Such a finding takes far longer than an instruction
// without one, so an endless loop of them ends here, before it exceeds the budget. A large grid may have many
// findings for each thread.
void Execution::count_repeated(const Warp& w, const Instruction& i, int lane) {
  const auto &g = launch.grid, &b = launch.block;
  const std::uint64_t threads = std::uint64_t(g[0]) * g[1] * g[2] * b[0] * b[1] * b[2];
  if (++repeated_findings_ < most_repeats || repeated_findings_ - most_repeats < 64 * threads || stopped)
    return;
  report.finished = false;
  stopped = true;
  add_finding(Fault::Budget, w, i, lane,
              "is reached after " + std::to_string(repeated_findings_) +
                  " more findings at places that were already reported: the launch looks endless");
}

std::string Execution::waiting_blocks() const {
  if (not_started_ == 0) return "";
  return "; " + std::to_string(not_started_) + " blocks have not started, because " +
         std::to_string(resident_) + " run" + (resident_ == 1 ? "s" : "") +
         " at a time: if the kernel waits for one of them, let more blocks be resident (resident_blocks, or "
         "kiln "
         "emulate --resident)";
}

void Execution::out_of_budget(const Warp& w, const Instruction& i, int lane) {
  add_finding(
      Fault::Budget, w, i, lane,
      "is reached after " + std::to_string(options.instruction_budget) +
          " instructions of warps, the budget of the launch; if this is no endless loop, raise the budget (" +
          budget_options + "). A block's start counts as " + std::to_string(start_of_block()) +
          waiting_blocks());
  report.finished = false;
  stopped = true;
}

// Whether the starts of the blocks alone exceed the budget.
bool Execution::too_many_blocks(std::uint64_t blocks) {
  const std::uint64_t each = start_of_block();
  if (blocks <= options.instruction_budget / each) return false;
  Finding f;
  f.fault = Fault::Budget;
  f.kernel = program.kernel;
  f.message = program.module + ": " + name_of(f.fault) + ": a grid of " + std::to_string(blocks) +
              " blocks, the start of each of which counts as " + std::to_string(each) +
              " instructions of warps, exceeds the budget of " + std::to_string(options.instruction_budget) +
              "; launch fewer blocks, or raise the budget (" + budget_options + "); kernel " + program.kernel;
  report.findings.push_back(std::move(f));
  report.finished = false;
  stopped = true;
  return true;
}

// "user.cu:32", or "user.cu:32, by intrinsics.hpp:440" for code that was inlined there.
std::string Execution::source(const Instruction& i) const {
  if (i.location < 0 || static_cast<std::size_t>(i.location) >= program.locations.size()) return "";
  auto name = [&](const ptx::Location& l) {
    auto file = program.files.find(l.file);
    return file == program.files.end() || l.line <= 0 ? "" : file->second + ":" + std::to_string(l.line);
  };
  const ptx::Location& here = program.locations[static_cast<std::size_t>(i.location)];
  const std::string inner = name(here);
  const ptx::Location* outermost = &here;
  while (outermost->inlined_at >= 0) // each refers to an earlier one
    outermost = &program.locations[static_cast<std::size_t>(outermost->inlined_at)];
  const std::string outer = name(*outermost);
  if (outermost == &here || outer.empty() || inner.empty()) return outer.empty() ? inner : outer;
  return outer + ", by " + inner.substr(inner.rfind('/') + 1);
}

std::string Execution::opcode(const Instruction& i) const {
  for (const auto& f : program.functions)
    if (&i >= f->code.data() && &i < f->code.data() + f->code.size())
      return f->opcodes[static_cast<std::size_t>(&i - f->code.data())];
  return "";
}

std::string Execution::place(const Instruction& i) const {
  std::string text = program.module + ":" + std::to_string(i.line);
  if (std::string s = source(i); !s.empty()) text += " (" + s + ")";
  return text;
}

void Execution::add_finding(Fault fault, const Warp& w, const Instruction& i, int lane,
                            const std::string& what, std::uint64_t times, std::optional<OtherAccess> other) {
  auto [known, fresh] =
      known_findings_.try_emplace({&i, fault, other ? other->ptx_line : 0}, report.findings.size());
  if (!fresh && known->second < report.findings.size()) {
    report.findings[known->second].times += times;
    return count_repeated(w, i, lane);
  }
  if (report.findings.size() >= options.most_reports) {
    report.left_out += times;
    return count_repeated(w, i, lane);
  }
  Finding f;
  f.fault = fault;
  f.kernel = program.kernel;
  f.ptx_line = i.line;
  f.source = source(i);
  f.block = w.block.index;
  f.thread = {w.tid[0][lane], w.tid[1][lane], w.tid[2][lane]};
  f.times = times;
  // An assertion is the program's own; the opcode, a call, would not help.
  f.message = place(i) + ": " + name_of(fault) + ": " + (fault == Fault::Assertion ? "" : opcode(i) + " ") +
              what + "; kernel " + program.kernel + ", block " + triple(f.block) + ", thread " +
              triple(f.thread);
  f.other = std::move(other);
  report.findings.push_back(std::move(f));
  if (options.stop_at_first) {
    report.finished = false;
    stopped = true;
  }
}

} // namespace kiln::emulator
