// Implements communicators between threads, on the engine that Group is.
#include <kiln/collectives/ranks.h>

#include <kiln/collectives/threads/cpu_slice.h>
#include <kiln/collectives/threads/group.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/options.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

namespace kiln::collectives {
namespace {

class ThreadCommunicator final : public Communicator {
public:
  ThreadCommunicator(Group& group, std::shared_ptr<const Members> members, int rank,
                     std::int64_t workspace_limit)
      : Communicator(rank, static_cast<int>(members->ranks.size()),
                     group.device(members->ranks[static_cast<std::size_t>(rank)]), workspace_limit),
        group_(group), members_(std::move(members)) {}

  EngineInfo engine() const override {
    EngineInfo info{"threads", group_.options().clock == ClockKind::virtual_time, true, group_.options().link,
                    group_.options().machine};
    // The edges between members, by their ranks here.
    const std::vector<int>& ranks = members_->ranks;
    info.link.edges.clear();
    for (LinkModel::Edge e : group_.options().link.edges) {
      const auto from = std::find(ranks.begin(), ranks.end(), e.from),
                 to = std::find(ranks.begin(), ranks.end(), e.to);
      if (from == ranks.end() || to == ranks.end()) continue;
      e.from = static_cast<int>(from - ranks.begin()), e.to = static_cast<int>(to - ranks.begin());
      info.link.edges.push_back(e);
    }
    return info;
  }
  Nanoseconds now() const override { return group_.timeline().now(); }

  Work start(CollectiveCall call) override {
    return Work(std::make_unique<Pending>(group_, group_.begin(members_, rank(), std::move(call)), rank()));
  }
  void abort(const std::string& why) noexcept override {
    group_.abort(in_group(rank()), "rank " + std::to_string(in_group(rank())) + " aborts: " + why);
  }

protected:
  std::unique_ptr<Communicator> subset(const std::vector<int>& ranks, std::uint64_t id) override {
    auto members = std::make_shared<Members>();
    // Splits of different communicators have different numbers, except by a chance of 2^-64 or so.
    members->id = (members_->id ^ id) * 0x9E3779B97F4A7C15u + id;
    int own = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      members->ranks.push_back(in_group(ranks[i]));
      if (ranks[i] == rank()) own = static_cast<int>(i);
    }
    return std::make_unique<ThreadCommunicator>(group_, std::move(members), own, workspace_limit());
  }
  int rank_in_run(int rank) const override { return in_group(rank); }
  void open_window(const void* memory) override { group_.open_window(memory); }
  void close_window(const void* memory) noexcept override { group_.close_window(in_group(rank()), memory); }
  void put(const CallName& name, int to, void* window, std::uint64_t* signal, std::int64_t offset,
           const void* source, std::int64_t bytes) override {
    group_.put(name, in_group(rank()), in_group(to), {window, signal}, offset, source, bytes);
  }
  void wait_signal(const CallName& name, int from, const std::uint64_t* signal, std::uint64_t value,
                   Nanoseconds deadline) override {
    group_.wait_signal(name, in_group(rank()), in_group(from), signal, value, deadline);
  }

private:
  struct Pending final : PendingCall {
    Pending(Group& g, std::shared_ptr<Group::Call> c, int r) : group(g), call(std::move(c)), rank(r) {}
    bool done() override { return group.is_done(*call, rank); }
    void wait(Nanoseconds deadline) override { group.finish(*call, rank, deadline); }
    void abandon() noexcept override { group.abandon(*call, rank); }
    Group& group;
    std::shared_ptr<Group::Call> call;
    int rank;
  };
  int in_group(int rank) const { return members_->ranks[static_cast<std::size_t>(rank)]; }

  Group& group_;
  std::shared_ptr<const Members> members_;
};

// Schedules have steps for each pair of ranks.
constexpr int most_ranks = 64;

// Zero stands for an infinite rate. Times of tiny rates would be too large for a number of nanoseconds.
bool is_rate(double x) { return x == 0 || (x >= 1 && std::isfinite(x)); }

void check(const RanksOptions& o) {
  const auto refuse = [](const std::string& what) { throw UserError("run_ranks: " + what); };
  if (o.ranks < 1 || o.ranks > most_ranks)
    refuse(std::to_string(o.ranks) + " ranks are not possible; pass a number from 1 to " +
           std::to_string(most_ranks));
  if (!is_rate(o.link.bytes_per_second) || o.link.latency < 0 || o.link.jitter < 0)
    refuse("the link has a negative latency or jitter, or a bandwidth that is neither 0 nor at least 1 byte "
           "per second; 0 means unlimited");
  const ComputeModel& m = o.machine;
  if (!is_rate(m.flops_per_second) || !is_rate(m.bytes_per_second) || m.row_tile < 1 || m.launch < 0)
    refuse("the machine has a rate that is neither 0 nor at least 1 per second, a row_tile below 1, or a "
           "negative launch; a rate of 0 means infinitely fast");
  for (const LinkModel::Edge& e : o.link.edges)
    if (e.from < 0 || e.from >= o.ranks || e.to < 0 || e.to >= o.ranks || !is_rate(e.bytes_per_second) ||
        e.latency < 0)
      refuse("the edge from rank " + std::to_string(e.from) + " to rank " + std::to_string(e.to) +
             " has a rank that does not exist, a bandwidth that is neither 0 nor at least 1 byte per second, "
             "or a negative latency");
  if (o.deadline <= 0) refuse("the deadline is not positive; give it in nanoseconds");
  if (o.workspace_bytes < 4096)
    refuse("workspace_bytes is " + std::to_string(o.workspace_bytes) + "; pass at least 4096");
  if (!o.devices.empty() && o.devices.size() != static_cast<std::size_t>(o.ranks))
    refuse(std::to_string(o.devices.size()) + " devices for " + std::to_string(o.ranks) +
           " ranks; give one for each rank, or none");
}

// Polling helps only if each rank has a CPU.
Nanoseconds active_wait(int ranks) { return ranks <= thread_budget().threads ? 50'000 : 0; }

// The trace of KILN_RANKS_TRACE, which is written in the end, even if ranks fail.
class EnvironmentTrace {
public:
  EnvironmentTrace() : path_(read_environment().ranks_trace) {}
  ~EnvironmentTrace() {
    if (path_.empty()) return;
    static std::atomic<int> runs{0};
    if (const int run = ++runs; run > 1) {
      const std::filesystem::path path(path_);
      path_ =
          path.parent_path() / (path.stem().string() + "-" + std::to_string(run) + path.extension().string());
    }
    try {
      trace_.write(path_);
    } catch (const std::exception& e) {
      log_warning(std::string("KILN_RANKS_TRACE: ") + e.what());
    }
  }
  EnvironmentTrace(const EnvironmentTrace&) = delete;
  Trace* trace() { return path_.empty() ? nullptr : &trace_; }

private:
  std::string path_;
  Trace trace_;
};

} // namespace

void run_ranks(const RanksOptions& options, const std::function<void(Communicator& comm)>& body) {
  check(options);
  if (!body) throw UserError("run_ranks: the body is an empty function; pass the function that ranks call");
  std::optional<EnvironmentTrace> of_environment;
  if (!options.trace) of_environment.emplace();
  Group group({.ranks = options.ranks,
               .clock = options.clock,
               .link = options.link,
               .machine = options.machine,
               .deadline = options.deadline,
               .devices = options.devices,
               .active_wait = active_wait(options.ranks),
               .cpus = thread_budget().threads,
               .trace = options.trace ? options.trace : of_environment->trace()});
  CpuSlice::prepare();
  group.run([&](int rank) {
    const CpuSlice slice(rank, options.ranks);
    ThreadCommunicator comm(group, group.everyone(), rank, options.workspace_bytes);
    body(comm);
  });
}

} // namespace kiln::collectives
