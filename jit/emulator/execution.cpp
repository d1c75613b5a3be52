// Runs a launch: groups of blocks one after the other or on several threads, and their warps in time slices.
#include <kiln/jit/emulator/core/block.h>

#include <kiln/jit/emulator/checks/probes.h>
#include <kiln/jit/emulator/checks/races.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace kiln::emulator {
namespace {

std::array<std::uint32_t, 3> cluster_of(const Program& p, const Launch& l) {
  std::array<std::uint32_t, 3> sizes{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    sizes[axis] = std::max(1u, l.cluster ? (*l.cluster)[axis] : p.cluster[axis]);
  return sizes;
}

} // namespace

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

// How the grid is divided: into clusters of blocks, and groups of clusters that are resident together.
struct Execution::Groups {
  explicit Groups(const Execution& e) : cluster(e.cluster) {
    ranks = cluster[0] * cluster[1] * cluster[2];
    for (std::size_t axis = 0; axis < 3; ++axis)
      clusters[axis] = e.launch.grid[axis] / cluster[axis];
    total = clusters[0] * clusters[1] * clusters[2];
    resident = e.program.cooperative
                   ? total
                   : std::max<std::uint64_t>(
                         1, static_cast<std::uint64_t>(std::max(e.options.resident_blocks, 1)) / ranks);
  }
  std::array<std::uint32_t, 3> cluster;
  std::uint32_t ranks;
  std::uint64_t clusters[3], total, resident;
};

// Threads that each run some of the groups, each in an Execution of its own. Their reports are merged in the
// order of the groups.
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
    decltype(Execution::known_findings_) known;
    bool stopped;
  };

  void work() {
    Execution own(all_.options, all_.allocations, all_.program, all_.launch, all_.params, nullptr);
    try {
      for (;;) {
        const std::uint64_t first = next_.fetch_add(groups_.resident);
        if (first >= groups_.total || stop_) break;
        own.report = {};
        own.known_findings_.clear();
        own.stopped = false;
        own.budget = all_.budget - std::min<std::uint64_t>(spent_ + starts_, all_.budget);
        own.starts_ = 0;
        own.run_group(groups_, first);
        spent_ += own.report.warp_instructions;
        starts_ += own.starts_;
        if (own.stopped) stop_ = true;
        if (own.report.findings.empty() && own.report.printed.empty() && own.report.finished) continue;
        std::lock_guard lock(mutex_);
        parts_[first] = {std::move(own.report), std::move(own.known_findings_), own.stopped};
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
      auto [known, fresh] = all_.known_findings_.try_emplace(key, all.findings.size());
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
  std::map<std::uint64_t, Part> parts_; // only those with findings or output
  std::exception_ptr error_;
};

Report Execution::run() {
  const Groups groups(*this);
  const std::uint64_t parts = (groups.total + groups.resident - 1) / groups.resident;
  const auto threads =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(options.threads, 1)), parts);
  const bool fits = !too_many_blocks(groups.total * groups.ranks); // sets `stopped` if not
  if (fits && threads > 1 && !probe && program.independent_blocks)
    Workers(*this, groups).run(static_cast<int>(threads));
  else
    for (std::uint64_t first = 0; first < groups.total && !stopped; first += groups.resident)
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

// Runs cluster `first` and those that are resident with it. The order of their warps depends on the seed and
// on `first` only, so that it is the same whichever threads run the other groups.
void Execution::run_group(const Groups& groups, std::uint64_t first) {
  random.seed(options.seed + 0x9e3779b97f4a7c15 * first);
  std::vector<std::unique_ptr<Block>> blocks;
  for (std::uint64_t g = first; g < std::min(groups.total, first + groups.resident); ++g) {
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
  resident_ = groups.resident * groups.ranks;
  not_started_ = groups.total * groups.ranks -
                 std::min(groups.total * groups.ranks, (first + groups.resident) * groups.ranks);
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
  // Odd seeds have short slices only, every other odd seed very short ones.
  const std::uint64_t longest_slice = options.seed % 4 == 1 ? 64 : options.seed % 4 == 3 ? 6 : 0;
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
    if (ready.empty()) return report_deadlock(blocks);
    const std::uint64_t draw = random();
    Warp& w = *ready[draw % ready.size()];
    // Even seeds have a mixture of long slices, which are fast, and short ones, which find more.
    const std::uint64_t slice =
        draw >> 61 && !longest_slice ? 8192 : 1 + (draw >> 32) % (longest_slice ? longest_slice : 64);
    const std::uint64_t before = report.warp_instructions;
    w.run(slice);
    if (all_wait(blocks, ready.size(), report.warp_instructions - before)) return report_deadlock(blocks);
    if (w.done() && w.block.done()) w.block.finish();
    advance_async_operations(blocks, w, ready.size(), draw);
  }
}

// Advances asynchronous operations after a time slice of `ran`: some at random, and one if all warps that
// could run only poll for its effect.
void Execution::advance_async_operations(std::vector<std::unique_ptr<Block>>& blocks, Warp& ran,
                                         std::size_t ready, std::uint64_t draw) {
  yields_in_a_row_ = ran.yielded() ? yields_in_a_row_ + 1 : 0;
  const bool stuck = yields_in_a_row_ > 2 * ready + 2 || ++slices_since_landing_ > 4096;
  if (!stuck && (options.asynchrony != Asynchrony::Random || (draw >> 40) % 4)) return;
  // Prefer operations of the block that ran.
  const std::size_t first = draw >> 16;
  Block* block = ran.block.async_operations.empty() || stuck ? nullptr : &ran.block;
  for (std::size_t n = 0; n < blocks.size() && !block; ++n)
    if (Block& b = *blocks[(first + n) % blocks.size()]; !b.async_operations.empty()) block = &b;
  if (!block) return;
  slices_since_landing_ = 0;
  yields_in_a_row_ = 0;
  if (options.asynchrony == Asynchrony::Random)
    block->async_operations.advance(random());
  else
    block->async_operations.land_oldest();
}

} // namespace kiln::emulator
