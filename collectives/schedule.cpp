// Builds, checks and forecasts schedules.
#include <kiln/collectives/schedule.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace kiln::collectives {
namespace {

// Builds gathers. `arrived` is the step with which a chunk came to a rank; -1 for its owner.
class GatherBuilder {
public:
  GatherBuilder(const char* name, const Shards& shards, int chunks) : shards_(shards) {
    schedule_.name = name;
    schedule_.ranks = static_cast<int>(shards.rows_of.size());
    schedule_.chunks = chunks;
  }

  int ranks() const { return schedule_.ranks; }
  int wrapped(int rank) const { return ((rank % ranks()) + ranks()) % ranks(); }
  template <class F> void each_chunk(int owner, const F& body) const {
    for (int i = 0; i < schedule_.chunks; ++i)
      if (shards_.rows({owner, i}, schedule_.chunks) > 0) body(Chunk{owner, i});
  }
  void put(int from, int to, Chunk chunk) {
    Step step{Step::Kind::put, from, to, chunk};
    step.bytes = shards_.rows(chunk, schedule_.chunks) * shards_.row_bytes;
    if (const int came = arrived(from, chunk); came >= 0) step.after = {came};
    arrived_[{to, chunk.owner, chunk.index}] = add(std::move(step));
  }
  void compute(int rank, Chunk chunk, std::vector<int> after = {}) {
    if (const int came = arrived(rank, chunk); came >= 0) after.push_back(came);
    add({Step::Kind::compute, rank, rank, chunk, 0, std::move(after)});
  }
  int arrived(int rank, Chunk chunk) const {
    const auto at = arrived_.find({rank, chunk.owner, chunk.index});
    return at == arrived_.end() ? -1 : at->second;
  }
  Schedule take() { return std::move(schedule_); }

private:
  int add(Step step) {
    schedule_.steps.push_back(std::move(step));
    return static_cast<int>(schedule_.steps.size()) - 1;
  }

  const Shards& shards_;
  Schedule schedule_;
  std::map<std::tuple<int, int, int>, int> arrived_; // by rank, owner and index
};

// The own shard comes first, then those of the ranks before, which arrive in this order.
void compute_in_order_of_arrival(GatherBuilder& b) {
  for (int back = 0; back < b.ranks(); ++back)
    for (int rank = 0; rank < b.ranks(); ++rank)
      b.each_chunk(b.wrapped(rank - back), [&](Chunk chunk) { b.compute(rank, chunk); });
}

void put_around_the_ring(GatherBuilder& b) {
  for (int hop = 0; hop + 1 < b.ranks(); ++hop)
    for (int rank = 0; rank < b.ranks(); ++rank)
      b.each_chunk(b.wrapped(rank - hop), [&](Chunk chunk) { b.put(rank, b.wrapped(rank + 1), chunk); });
}

} // namespace

std::int64_t Shards::rows(Chunk chunk, int chunks) const {
  const std::int64_t all = rows_of[static_cast<std::size_t>(chunk.owner)];
  return all * (chunk.index + 1) / chunks - all * chunk.index / chunks;
}

Schedule serial_gather(const Shards& shards) {
  GatherBuilder b("serial", shards, 1);
  put_around_the_ring(b);
  for (int rank = 0; rank < b.ranks(); ++rank) {
    std::vector<int> all;
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) {
        if (const int came = b.arrived(rank, chunk); came >= 0) all.push_back(came);
      });
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) { b.compute(rank, chunk, all); });
  }
  return b.take();
}

Schedule ring_gather(const Shards& shards, int chunks) {
  GatherBuilder b("ring", shards, chunks);
  put_around_the_ring(b);
  compute_in_order_of_arrival(b);
  return b.take();
}

Schedule direct_gather(const Shards& shards, int chunks) {
  GatherBuilder b("direct", shards, chunks);
  for (int distance = 1; distance < b.ranks(); ++distance)
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) { b.put(owner, b.wrapped(owner + distance), chunk); });
  compute_in_order_of_arrival(b);
  return b.take();
}

void validate(const Schedule& schedule) {
  const auto require = [&](bool right, std::size_t step, const char* what) {
    internal_check(right, "schedule " + schedule.name + ", step " + std::to_string(step) + ": " + what);
  };
  std::map<std::tuple<int, int, int>, std::size_t> arrival; // by rank, owner and index
  std::set<std::tuple<int, int, int>> computed;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& s = schedule.steps[i];
    const auto exists = [&](int rank) { return rank >= 0 && rank < schedule.ranks; };
    require(exists(s.rank) && exists(s.to) && exists(s.chunk.owner), i, "there is no such rank");
    for (int before : s.after)
      require(before >= 0 && static_cast<std::size_t>(before) < i, i, "it waits for a later step");
    const auto key = [&](int rank) { return std::tuple(rank, s.chunk.owner, s.chunk.index); };
    if (s.rank != s.chunk.owner) {
      const auto came = arrival.find(key(s.rank));
      require(came != arrival.end(), i, "the chunk is not there");
      require(std::find(s.after.begin(), s.after.end(), static_cast<int>(came->second)) != s.after.end(), i,
              "it does not wait for the chunk");
    }
    if (s.kind == Step::Kind::put) {
      require(s.to != s.chunk.owner && arrival.emplace(key(s.to), i).second, i,
              "the rank has the chunk already");
    } else if (s.kind == Step::Kind::compute) {
      require(computed.insert(key(s.rank)).second, i, "the chunk is computed twice");
    }
  }
}

Forecast forecast(const Schedule& schedule, const LinkModel& link, const StepCost& cost) {
  const std::size_t count = schedule.steps.size(), ranks = static_cast<std::size_t>(schedule.ranks);
  LinkModel exact = link;
  exact.jitter = 0;
  Ports ports(exact, schedule.ranks);
  Forecast f;
  f.steps.resize(count);
  std::vector<std::vector<int>> followers(count);
  std::vector<std::size_t> missing(count), next_of(ranks);
  std::vector<std::vector<int>> own(ranks); // what a rank computes, in order
  std::vector<Nanoseconds> free_at(ranks), computes(ranks), receives(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    const Step& s = schedule.steps[i];
    missing[i] = s.after.size();
    for (int before : s.after)
      followers[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
    if (s.kind != Step::Kind::put) own[static_cast<std::size_t>(s.rank)].push_back(static_cast<int>(i));
  }
  // What happens next: the end of a step, or a put that became ready; at one time, the first step comes
  // first.
  enum What { ends, asks };
  using Entry = std::tuple<Nanoseconds, What, int>; // the time, what, the step
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> events;
  const auto begin_computing = [&](std::size_t rank, Nanoseconds now) {
    while (next_of[rank] < own[rank].size()) {
      const int step = own[rank][next_of[rank]];
      if (missing[static_cast<std::size_t>(step)] > 0 || free_at[rank] > now) return;
      const Nanoseconds lasts = cost(schedule.steps[static_cast<std::size_t>(step)]);
      f.steps[static_cast<std::size_t>(step)] = {now, now + lasts};
      free_at[rank] = now + lasts, computes[rank] += lasts;
      ++next_of[rank];
      events.emplace(now + lasts, ends, step);
      if (lasts > 0) return;
    }
  };
  for (std::size_t i = 0; i < count; ++i)
    if (schedule.steps[i].kind == Step::Kind::put && missing[i] == 0)
      events.emplace(0, asks, static_cast<int>(i));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    begin_computing(rank, 0);
  while (!events.empty()) {
    const auto [now, what, step] = events.top();
    events.pop();
    const auto i = static_cast<std::size_t>(step);
    const Step& s = schedule.steps[i];
    if (what == asks) {
      const Passage p = ports.pass(s.rank, s.to, s.bytes, now);
      f.steps[i] = {p.begin, p.arrival};
      receives[static_cast<std::size_t>(s.to)] += p.end - p.begin;
      events.emplace(p.arrival, ends, step);
      continue;
    }
    f.makespan = std::max(f.makespan, now);
    for (int follower : followers[i]) {
      const auto j = static_cast<std::size_t>(follower);
      if (--missing[j] > 0) continue;
      const Step& next = schedule.steps[j];
      if (next.kind == Step::Kind::put)
        events.emplace(now, asks, follower);
      else
        begin_computing(static_cast<std::size_t>(next.rank), now);
    }
    if (s.kind != Step::Kind::put) begin_computing(static_cast<std::size_t>(s.rank), now);
  }
  f.computation = *std::max_element(computes.begin(), computes.end());
  f.communication = *std::max_element(receives.begin(), receives.end());
  return f;
}

} // namespace kiln::collectives
