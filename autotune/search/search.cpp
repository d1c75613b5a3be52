// The loop of a search: asks a strategy, measures, decides when to stop, confirms the best.
#include <kiln/autotune/search/search.h>

#include <kiln/autotune/search/compiled_pool.h>
#include <kiln/autotune/search/sharing.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace kiln::tune {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Adds the time for which it lives.
struct Stopwatch {
  double& seconds;
  Clock::time_point start = Clock::now();
  ~Stopwatch() { seconds += since(start); }
};

// Trials that were ok, fastest first; of equal ones the earlier, and those of others last.
std::vector<const Trial*> ranking(const SearchResult& result) {
  std::vector<const Trial*> ok;
  for (const auto* trials : {&result.trials, &result.shared})
    for (const Trial& t : *trials)
      if (t.result.ok()) ok.push_back(&t);
  std::stable_sort(ok.begin(), ok.end(),
                   [](const Trial* a, const Trial* b) { return a->result.seconds < b->result.seconds; });
  return ok;
}

// Trials that the rest of the time is enough for, if they take as long as those so far; at least one.
std::size_t fitting(const SearchResult& so_far, double seconds) {
  if (seconds <= 0 || so_far.trials.empty() || so_far.seconds <= 0) return SIZE_MAX;
  const double each = so_far.seconds / static_cast<double>(so_far.trials.size());
  const double count = std::floor((seconds - so_far.seconds) / each);
  return count < 1 ? 1 : count < 1e6 ? static_cast<std::size_t>(count) : SIZE_MAX;
}

void confirm(SearchResult& result, Measurer& measurer, int finalists) {
  if (!result.best || finalists < 1) return;
  const std::vector<const Trial*> ok = ranking(result);
  // The known-good config is always among them: a winner that is not faster than it beside it is none,
  // whatever both took when the machine did something else.
  const auto first_seed = std::find_if(result.trials.begin(), result.trials.end(), [](const Trial& trial) {
    return trial.source == "seed" && trial.result.ok();
  });
  const Trial* seed = first_seed == result.trials.end() ? ok.front() : &*first_seed;
  // The next ones where all that looked best fail when they are run again.
  const auto step = static_cast<std::size_t>(finalists);
  bool found = false;
  for (std::size_t first = 0; first < ok.size() && !found; first += step) {
    std::vector<Point> points;
    for (std::size_t i = first; i < std::min(ok.size(), first + step); ++i)
      if (first == 0 || ok[i] != seed) points.push_back(ok[i]->point);
    if (points.empty()) break; // the seed alone was left
    if (first == 0 && std::find(points.begin(), points.end(), seed->point) == points.end())
      points.push_back(seed->point);
    const std::vector<Measurement> again = measurer.confirm(points);
    internal_check(again.size() <= points.size(), "a measurer answered for another number of points");
    if (again.size() < points.size()) return; // interrupted: the trials decide
    result.finalists.insert(result.finalists.end(), points.begin(), points.end());
    result.confirmed.insert(result.confirmed.end(), again.begin(), again.end());
    for (std::size_t i = 0; i < points.size(); ++i)
      if (again[i].ok() && (!found || again[i].seconds < result.best_result.seconds)) {
        found = true;
        result.best = points[i];
        result.best_result = again[i];
      }
    if (std::any_of(again.begin(), again.end(),
                    [](const Measurement& m) { return m.status == Status::device_lost; }))
      break;
  }
  if (!found) result.best.reset();
}

} // namespace

SearchResult search(Strategy& strategy, Measurer& measurer, const Budget& budget, const Progress& progress,
                    const Others& others) {
  const Clock::time_point start = Clock::now();
  SearchResult result;
  Sharing sharing(others);
  Sharing::Seen seen;
  CompiledPool pool(strategy, measurer);
  double best = 0, gained_at = 0; // seconds; 0: none yet
  int last_gain = 0;
  auto timed = [](double& seconds, auto&& work) {
    const Stopwatch until_the_end{seconds};
    return work();
  };

  for (int batch = 0; result.stopped_by.empty(); ++batch) {
    const std::size_t left = static_cast<std::size_t>(std::max(0, budget.trials)) - result.trials.size();
    if (left == 0) {
      result.stopped_by = "trials";
      break;
    }
    if (batch > 0) {
      const std::vector<Trial> news = timed(result.model_seconds, [&] {
        std::vector<Trial> heard = sharing.listen(seen);
        if (!heard.empty()) strategy.observe(heard);
        return heard;
      });
      result.shared.insert(result.shared.end(), news.begin(), news.end());
    }
    const std::size_t most =
        std::min({left, std::max<std::size_t>(1, strategy.batch()), fitting(result, budget.seconds)});
    std::vector<Proposal> proposals =
        timed(result.model_seconds, [&] { return sharing.propose(strategy, most, seen); });
    if (proposals.empty()) {
      result.stopped_by = "exhausted";
      break;
    }
    if (sharing.alone()) { // others would propose the spares too
      const CompiledPool::Room room{.runs = proposals.size(), .trials = left};
      timed(result.model_seconds, [&] { pool.add_spares(proposals, seen); });
      if (proposals.size() > room.runs) {
        const auto compiled = timed(result.measure_seconds, [&] { return pool.compile(proposals); });
        timed(result.model_seconds, [&] { pool.choose(proposals, compiled, room, seen); });
      }
    }

    std::vector<Point> points;
    for (const Proposal& p : proposals)
      points.push_back(p.point);
    const std::size_t first = result.trials.size();
    bool refused = false, late = false;
    const auto listen = [&](const Measurement& measured) {
      const Proposal& proposal = proposals.at(result.trials.size() - first);
      result.trials.push_back(
          {proposal.point, measured, proposal.source, proposal.predicted, since(start), batch});
      if (measured.ok() && (best == 0 || measured.seconds < best)) {
        best = measured.seconds;
        result.best = proposal.point;
        result.best_result = measured;
      }
      if (measured.ok() && (gained_at == 0 || best < 0.99 * gained_at)) {
        gained_at = best;
        last_gain = static_cast<int>(result.trials.size());
      }
      result.seconds = since(start);
      refused = progress && !progress(result);
      late = budget.seconds > 0 && result.seconds >= budget.seconds;
      return !refused && !late;
    };
    const std::vector<Measurement> measured =
        timed(result.measure_seconds, [&] { return measurer.measure(points, listen); });
    const std::span<const Trial> fresh(result.trials.data() + first, result.trials.size() - first);
    internal_check(measured.size() == fresh.size(), "a measurer did not tell of all that it measured");
    pool.note(fresh);
    const bool unlikely = timed(result.model_seconds, [&] {
      strategy.observe(fresh);
      return budget.chance > 0 && result.best && strategy.chance_of_better() < budget.chance;
    });
    result.seconds = since(start);

    if (refused || (measured.size() < points.size() && !late))
      result.stopped_by = "interrupted";
    else if (std::all_of(measured.begin(), measured.end(),
                         [](const Measurement& m) { return m.status == Status::device_lost; }))
      result.stopped_by = "device lost";
    else if (budget.seconds > 0 && result.seconds >= budget.seconds)
      result.stopped_by = "seconds";
    else if (budget.patience > 0 && result.best &&
             static_cast<int>(result.trials.size()) - last_gain >= budget.patience)
      result.stopped_by = "patience";
    else if (unlikely)
      result.stopped_by = "chance";
  }

  pool.report(result);
  if (result.stopped_by != "device lost")
    timed(result.measure_seconds, [&] { confirm(result, measurer, budget.confirm); });
  result.seconds = since(start);
  return result;
}

} // namespace kiln::tune
