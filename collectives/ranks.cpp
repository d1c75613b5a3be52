// Implements communicators between threads, on the engine that Group is.
#include <kiln/collectives/ranks.h>

#include <kiln/collectives/cpu_slice.h>
#include <kiln/collectives/group.h>
#include <kiln/dsl/error.h>

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
    return {"threads", group_.options().clock == ClockKind::virtual_time, true, group_.options().link,
            group_.options().machine};
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
  void put(const CallName& name, int to, void* target, const void* source, std::int64_t bytes,
           std::uint64_t* signal) override {
    group_.put(name, in_group(rank()), in_group(to), target, source, bytes, signal);
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
    Group& group;
    std::shared_ptr<Group::Call> call;
    int rank;
  };
  int in_group(int rank) const { return members_->ranks[static_cast<std::size_t>(rank)]; }

  Group& group_;
  std::shared_ptr<const Members> members_;
};

void check(const RanksOptions& o) {
  const auto refuse = [](const std::string& what) { throw UserError("run_ranks: " + what); };
  if (o.ranks < 1 || o.ranks > 1024)
    refuse(std::to_string(o.ranks) + " ranks are not possible; pass a number from 1 to 1024");
  if (o.link.bytes_per_second < 0 || o.link.latency < 0 || o.link.jitter < 0)
    refuse("the link has a negative bandwidth, latency or jitter");
  for (const LinkModel::Edge& e : o.link.edges)
    if (e.from < 0 || e.from >= o.ranks || e.to < 0 || e.to >= o.ranks || e.bytes_per_second < 0 ||
        e.latency < 0)
      refuse("the edge from rank " + std::to_string(e.from) + " to rank " + std::to_string(e.to) +
             " has a rank that does not exist, or a negative bandwidth or latency");
  if (o.deadline <= 0) refuse("the deadline is not positive; give it in nanoseconds");
  if (o.workspace_bytes < 4096) refuse("workspace_bytes is below 4096");
  if (!o.devices.empty() && o.devices.size() != static_cast<std::size_t>(o.ranks))
    refuse(std::to_string(o.devices.size()) + " devices for " + std::to_string(o.ranks) +
           " ranks; give one for each rank, or none");
}

} // namespace

void run_ranks(const RanksOptions& options, const std::function<void(Communicator& comm)>& body) {
  check(options);
  Group group({.ranks = options.ranks,
               .clock = options.clock,
               .link = options.link,
               .machine = options.machine,
               .deadline = options.deadline,
               .devices = options.devices,
               .trace = options.trace});
  CpuSlice::prepare();
  group.run([&](int rank) {
    const CpuSlice slice(rank, options.ranks);
    ThreadCommunicator comm(group, group.everyone(), rank, options.workspace_bytes);
    body(comm);
  });
}

} // namespace kiln::collectives
