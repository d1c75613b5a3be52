// Simulates the ranks and ports of a schedule.
#include <kiln/collectives/schedule/forecast.h>

#include <kiln/collectives/schedule/prepared_schedule.h>

#include <algorithm>
#include <queue>
#include <tuple>

namespace kiln::collectives {

Forecast forecast(const Schedule& schedule, const LinkModel& link, const StepCost& cost) {
  const std::size_t count = schedule.steps.size(), ranks = static_cast<std::size_t>(schedule.ranks());
  LinkModel exact = link;
  exact.jitter = 0;
  Ports ports(exact, schedule.ranks());
  Forecast f;
  f.steps.resize(count);
  const StepGraph graph(schedule);
  std::vector<std::size_t> missing(count), next_of(ranks);
  std::vector<Nanoseconds> free_at(ranks), computes(ranks), sends(ranks), receives(ranks);
  for (std::size_t i = 0; i < count; ++i)
    missing[i] = schedule.steps[i].after.size();
  // What happens next: the end of a step, or a put that became ready; at one time, the first step comes
  // first.
  enum What { ends, asks };
  using Entry = std::tuple<Nanoseconds, What, int>; // the time, what, the step
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> events;
  const auto begin_computing = [&](std::size_t rank, Nanoseconds now) {
    const std::vector<int>& own = graph.of(static_cast<int>(rank)).computes;
    while (next_of[rank] < own.size()) {
      const int step = own[next_of[rank]];
      if (missing[static_cast<std::size_t>(step)] > 0 || free_at[rank] > now) return;
      const Nanoseconds lasts = cost(schedule.steps[static_cast<std::size_t>(step)]);
      f.steps[static_cast<std::size_t>(step)] = {now, later(now, lasts)};
      free_at[rank] = later(now, lasts), computes[rank] = later(computes[rank], lasts);
      ++next_of[rank];
      events.emplace(later(now, lasts), ends, step);
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
      for (Nanoseconds* port :
           {&sends[static_cast<std::size_t>(s.rank)], &receives[static_cast<std::size_t>(s.to)]})
        *port = later(*port, p.end - p.begin);
      events.emplace(p.arrival, ends, step);
      continue;
    }
    f.makespan = std::max(f.makespan, now);
    for (int follower : graph.followers(step)) {
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
  f.communication = std::max(*std::max_element(sends.begin(), sends.end()),
                             *std::max_element(receives.begin(), receives.end()));
  return f;
}

} // namespace kiln::collectives
