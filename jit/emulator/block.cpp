// How blocks run, and what is said when something is wrong.
#include "block.h"

#include "checks/probes.h"
#include "checks/races.h"
#include "mbarrier.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace kiln::emulator {
namespace {

std::string triple(const std::array<std::uint32_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
}

constexpr const char* budget_options =
    "--budget of kiln emulate, instruction_budget of Options and EmulatorOptions";

std::array<std::uint32_t, 3> cluster_of(const Program& p, const Launch& l) {
  std::array<std::uint32_t, 3> sizes{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    sizes[axis] = std::max(1u, l.cluster ? (*l.cluster)[axis] : p.cluster[axis]);
  return sizes;
}

} // namespace

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
    // What the assembler gives each thread at most, so that the block fits into the 64K registers.
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

// Who waits for registers gets them when there are enough, one warp after the other.
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

// A wgmma is the warpgroup's: its groups are complete when all four warps have come so far, and for all of
// them.
void Block::open_multiplications() {
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
      flights.wait(*w, i, f.lanes, Flight::Queue::Wgmma, i.count, false, false);
      w->release(f);
    }
}

void Block::disagreements() {
  told_by_all(multiplications_);
  told_by_all(register_changes_);
  multiplications_.clear();
  register_changes_.clear();
}

void Block::told_by_all(const std::map<int, Agreement>& agreements) {
  for (const auto& [group, a] : agreements)
    if (const Instruction* i = a.missed())
      execution.found(Fault::BarrierDivergence, *warps[static_cast<std::size_t>(group) * 4], *i, 0,
                      "was executed by " + std::to_string(a.came()) +
                          " of the 4 warps of a warpgroup, and all must");
}

void Block::finish() {
  disagreements();
  flights.finish();
}

void Block::open_barriers() {
  open_cluster_barrier();
  for (int id = 0; id < 16; ++id) {
    BarrierState& b = barriers[id];
    if (!b.arrived && b.coming.empty()) continue;
    for (auto& [index, lanes] : b.coming) // a warp has arrived when all its living lanes have
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

// What a block's start counts in the budget, about as many instructions as it takes the time of.
std::uint64_t Execution::start_of_block() const {
  return 32 * std::uint64_t(launch.block[0]) * launch.block[1] * launch.block[2] / warp_size + 32;
}

std::string Execution::waiting_blocks() const {
  if (not_started_ == 0) return "";
  return "; " + std::to_string(not_started_) + " blocks have not started, as " + std::to_string(together_) +
         " run" + (together_ == 1 ? "s" : "") +
         " at a time: if this waits for one of them, let more be resident (resident_blocks, or kiln emulate "
         "--resident)";
}

void Execution::out_of_budget(const Warp& w, const Instruction& i, int lane) {
  found(Fault::Budget, w, i, lane,
        "is where the launch was after " + std::to_string(options.instruction_budget) +
            " instructions of warps, its budget; if it is no endless loop, raise that (" + budget_options +
            "). A block's start counts as " + std::to_string(start_of_block()) + waiting_blocks());
  report.finished = false;
  stopped = true;
}

// Whether the blocks' starts alone are more than the budget.
bool Execution::too_many_blocks(std::uint64_t blocks) {
  const std::uint64_t each = start_of_block();
  if (blocks <= options.instruction_budget / each) return false;
  Finding f;
  f.fault = Fault::Budget;
  f.kernel = program.kernel;
  f.message = program.module + ": " + name_of(f.fault) + ": a grid of " + std::to_string(blocks) +
              " blocks, each of whose starts counts as " + std::to_string(each) +
              " instructions of warps, is more than the budget of " +
              std::to_string(options.instruction_budget) + "; launch fewer blocks, or raise it (" +
              budget_options + "); kernel " + program.kernel;
  report.findings.push_back(std::move(f));
  report.finished = false;
  stopped = true;
  return true;
}

Execution::Execution(Options& o, Allocations& a, const Program& p, const Launch& l,
                     std::vector<std::uint8_t> bytes, Probe* watcher)
    : options(o), allocations(a), program(p), launch(l), cluster(cluster_of(p, l)),
      clustered(l.cluster || p.cluster[0]), params(std::move(bytes)), probe(watcher), random(o.seed),
      budget(o.instruction_budget) {
  report.kernel = p.kernel;
  tallies.resize(p.instructions);
  if (!options.checks.races) return;
  checker_ = std::make_unique<RaceChecker>(*this);
  if (watcher) both_ = std::make_unique<Probes>(std::vector<Probe*>{checker_.get(), watcher});
  probe = watcher ? both_.get() : checker_.get();
}

Execution::~Execution() = default;

// How the grid is cut: clusters of blocks, and as many of them as run together.
struct Execution::Groups {
  explicit Groups(const Execution& e) : cluster(e.cluster) {
    ranks = cluster[0] * cluster[1] * cluster[2];
    for (std::size_t axis = 0; axis < 3; ++axis)
      clusters[axis] = e.launch.grid[axis] / cluster[axis];
    total = clusters[0] * clusters[1] * clusters[2];
    together = e.program.cooperative
                   ? total
                   : std::max<std::uint64_t>(
                         1, static_cast<std::uint64_t>(std::max(e.options.resident_blocks, 1)) / ranks);
  }
  std::array<std::uint32_t, 3> cluster;
  std::uint32_t ranks;
  std::uint64_t clusters[3], total, together;
};

// Threads that each run some of the groups, in executions of their own. What was found is put together in
// the order of the groups.
class Execution::Workers {
public:
  Workers(Execution& all, const Groups& groups) : all_(all), groups_(groups) {}

  void run(int threads) {
    std::vector<std::thread> others;
    for (int n = 1; n < threads; ++n)
      others.emplace_back([this] { work(); });
    work();
    for (auto& t : others)
      t.join();
    if (error_) std::rethrow_exception(error_);
    all_.report.warp_instructions = spent_;
    for (auto& [first, part] : parts_) {
      if (all_.stopped) break;
      merge(part);
    }
  }

private:
  struct Part {
    Report report;
    decltype(Execution::known_) known;
    bool stopped;
  };

  void work() {
    Execution own(all_.options, all_.allocations, all_.program, all_.launch, all_.params, nullptr);
    try {
      for (;;) {
        const std::uint64_t first = next_.fetch_add(groups_.together);
        if (first >= groups_.total || stop_) break;
        own.report = {};
        own.known_.clear();
        own.stopped = false;
        own.budget = all_.budget - std::min<std::uint64_t>(spent_ + starts_, all_.budget);
        own.starts_ = 0;
        own.run_group(groups_, first);
        spent_ += own.report.warp_instructions;
        starts_ += own.starts_;
        if (own.stopped) stop_ = true;
        if (own.report.findings.empty() && own.report.printed.empty() && own.report.finished) continue;
        std::lock_guard lock(mutex_);
        parts_[first] = {std::move(own.report), std::move(own.known_), own.stopped};
      }
    } catch (...) {
      stop_ = true;
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    for (std::size_t n = 0; n < own.tallies.size(); ++n) {
      all_.tallies[n].warps += own.tallies[n].warps;
      all_.tallies[n].lanes += own.tallies[n].lanes;
    }
  }

  void merge(Part& part) {
    Report& all = all_.report;
    std::map<std::size_t, decltype(part.known)::key_type> in_order;
    for (const auto& [key, index] : part.known)
      in_order.emplace(index, key);
    for (auto& [index, key] : in_order) {
      if (index >= part.report.findings.size()) continue;
      Finding& f = part.report.findings[index];
      auto [known, fresh] = all_.known_.try_emplace(key, all.findings.size());
      if (!fresh && known->second < all.findings.size())
        all.findings[known->second].times += f.times;
      else if (all.findings.size() >= all_.options.most_reports)
        all.left_out += f.times;
      else
        all.findings.push_back(std::move(f));
    }
    all.left_out += part.report.left_out;
    all.printed += part.report.printed;
    all.finished &= part.report.finished;
    all_.stopped |= part.stopped;
  }

  Execution& all_;
  const Groups& groups_;
  std::atomic<std::uint64_t> next_{0}, spent_{0}, starts_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::map<std::uint64_t, Part> parts_; // those with something to tell
  std::exception_ptr error_;
};

Report Execution::run() {
  const Groups groups(*this);
  const std::uint64_t parts = (groups.total + groups.together - 1) / groups.together;
  const auto threads =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(options.threads, 1)), parts);
  const bool fits = !too_many_blocks(groups.total * groups.ranks); // stopped otherwise
  if (fits && threads > 1 && !probe && program.independent_blocks)
    Workers(*this, groups).run(static_cast<int>(threads));
  else
    for (std::uint64_t first = 0; first < groups.total && !stopped; first += groups.together)
      run_group(groups, first);
  count();
  if (probe) probe->launch_finished(*this);
  return std::move(report);
}

void Execution::count() {
  for (const auto& f : program.functions)
    for (std::size_t n = 0; n < f->code.size(); ++n)
      report.lanes_by_class[static_cast<std::size_t>(f->code[n].kind)] += tallies[f->first + n].lanes;
  for (auto n : report.lanes_by_class)
    report.lane_instructions += n;
}

// Clusters `first` and those that run with it. The order of their warps depends on the seed and on which they
// are, so that it is the same whoever runs the others.
void Execution::run_group(const Groups& groups, std::uint64_t first) {
  random.seed(options.seed + 0x9e3779b97f4a7c15 * first);
  std::vector<std::unique_ptr<Block>> blocks;
  for (std::uint64_t g = first; g < std::min(groups.total, first + groups.together); ++g) {
    const std::uint64_t corner[3] = {g % groups.clusters[0] * groups.cluster[0],
                                     g / groups.clusters[0] % groups.clusters[1] * groups.cluster[1],
                                     g / groups.clusters[0] / groups.clusters[1] * groups.cluster[2]};
    std::vector<Block*> members;
    for (std::uint32_t r = 0; r < groups.ranks; ++r) {
      const std::uint32_t in[3] = {r % groups.cluster[0], r / groups.cluster[0] % groups.cluster[1],
                                   r / groups.cluster[0] / groups.cluster[1]};
      std::array<std::uint32_t, 3> index;
      for (std::size_t axis = 0; axis < 3; ++axis)
        index[axis] = static_cast<std::uint32_t>(corner[axis] + in[axis]);
      blocks.push_back(std::make_unique<Block>(*this, index, r));
      members.push_back(blocks.back().get());
    }
    for (Block* b : members)
      b->cluster = members;
  }
  starts_ += start_of_block() * blocks.size();
  together_ = groups.together * groups.ranks;
  not_started_ = groups.total * groups.ranks -
                 std::min(groups.total * groups.ranks, (first + groups.together) * groups.ranks);
  if (probe)
    for (auto& b : blocks)
      probe->block_started(*b);
  run_blocks(blocks);
  if (probe)
    for (auto& b : blocks)
      probe->block_finished(*b);
}

void Execution::run_blocks(std::vector<std::unique_ptr<Block>>& blocks) {
  std::vector<Warp*> alive, ready;
  // Every other seed has short turns only, of which every other one has very short ones.
  const std::uint64_t hasty = options.seed % 4 == 1 ? 64 : options.seed % 4 == 3 ? 6 : 0;
  for (auto& b : blocks)
    for (auto& w : b->warps)
      alive.push_back(w.get());
  while (!stopped) {
    ready.clear();
    std::erase_if(alive, [](Warp* w) { return w->done(); });
    if (alive.empty()) {
      for (auto& b : blocks)
        b->finish(), b->check_mbarriers();
      return;
    }
    for (Warp* w : alive)
      if (w->ready()) ready.push_back(w);
    if (ready.empty()) return deadlock(blocks);
    const std::uint64_t draw = random();
    Warp& w = *ready[draw % ready.size()];
    // Mostly long turns, which are quick; sometimes short ones, which find more.
    const std::uint64_t turn = draw >> 61 && !hasty ? 8192 : 1 + (draw >> 32) % (hasty ? hasty : 64);
    const std::uint64_t before = report.warp_instructions;
    w.run(turn);
    if (spinning(blocks, ready, report.warp_instructions - before)) return deadlock(blocks);
    if (w.done() && w.block.done()) w.block.finish();
    advance_flights(blocks, w, ready.size(), draw);
  }
}

// Asynchronous operations go on after a turn of `ran`: some of them by themselves, and one when all that
// could run only look whether it has happened.
void Execution::advance_flights(std::vector<std::unique_ptr<Block>>& blocks, Warp& ran, std::size_t ready,
                                std::uint64_t draw) {
  fruitless_ = ran.yielded() ? fruitless_ + 1 : 0;
  const bool stuck = fruitless_ > 2 * ready + 2 || ++since_landing_ > 4096;
  if (!stuck && (options.asynchrony != Asynchrony::Random || (draw >> 40) % 4)) return;
  // Mostly of the block that ran.
  const std::size_t first = draw >> 16;
  Block* block = ran.block.flights.empty() || stuck ? nullptr : &ran.block;
  for (std::size_t n = 0; n < blocks.size() && !block; ++n)
    if (Block& b = *blocks[(first + n) % blocks.size()]; !b.flights.empty()) block = &b;
  if (!block) return;
  since_landing_ = 0;
  fruitless_ = 0;
  if (options.asynchrony == Asynchrony::Random)
    block->flights.advance(random());
  else
    block->flights.oldest();
}

// "user.cu:32", or "user.cu:32, by intrinsics.hpp:440" for what was inlined there.
std::string Execution::source(const Instruction& i) const {
  if (i.location < 0 || static_cast<std::size_t>(i.location) >= program.locations.size()) return "";
  auto name = [&](const ptx::Location& l) {
    auto file = program.files.find(l.file);
    return file == program.files.end() || l.line <= 0 ? "" : file->second + ":" + std::to_string(l.line);
  };
  const ptx::Location& here = program.locations[static_cast<std::size_t>(i.location)];
  const std::string inner = name(here);
  const ptx::Location* outermost = &here;
  while (outermost->inlined_at >= 0) // an earlier one each time
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

void Execution::found(Fault fault, const Warp& w, const Instruction& i, int lane, const std::string& what,
                      std::uint64_t times, std::optional<OtherAccess> other) {
  auto [known, fresh] = known_.try_emplace({&i, fault, other ? other->ptx_line : 0}, report.findings.size());
  if (!fresh && known->second < report.findings.size()) {
    report.findings[known->second].times += times;
    return;
  }
  if (report.findings.size() >= options.most_reports) {
    report.left_out += times;
    return;
  }
  Finding f;
  f.fault = fault;
  f.kernel = program.kernel;
  f.ptx_line = i.line;
  f.source = source(i);
  f.block = w.block.index;
  f.thread = {w.tid[0][lane], w.tid[1][lane], w.tid[2][lane]};
  f.times = times;
  // An assertion is the program's own: that it ends in a call says nothing.
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
