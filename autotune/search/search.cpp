// Implements the search loop: propose, measure, stop, and confirm the best.
#include <kiln/autotune/search/search.h>

#include <kiln/autotune/search/compiled_pool.h>
#include <kiln/autotune/search/finalists.h>
#include <kiln/autotune/search/sharing.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace kiln::tune {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Adds its lifetime to `seconds`.
struct Stopwatch {
  double& seconds;
  Clock::time_point start = Clock::now();
  ~Stopwatch() { seconds += since(start); }
};

// Returns how many trials fit into the remaining time if they take as long as those so far.
std::size_t fitting(const SearchResult& so_far, const Budget& budget, double reserved) {
  const double spent = so_far.seconds - budget.spent;
  if (budget.seconds <= 0 || so_far.trials.empty() || spent <= 0) return SIZE_MAX;
  const double each = spent / static_cast<double>(so_far.trials.size());
  const double count = std::floor((budget.seconds - reserved - so_far.seconds) / each);
  return count < 1 ? 0 : count < 1e6 ? static_cast<std::size_t>(count) : SIZE_MAX;
}

} // namespace

SearchResult search(Strategy& strategy, Measurer& measurer, const Budget& budget, const Progress& progress,
                    const Others& others) {
  const Clock::time_point start = Clock::now();
  SearchResult result;
  Sharing sharing(others);
  Sharing::Seen seen;
  CompiledPool pool(strategy, measurer);
  const auto elapsed = [&] { return budget.spent + since(start); };
  double reserved = 0; // seconds for confirming
  const auto time_is_up = [&] { return budget.seconds > 0 && elapsed() >= budget.seconds - reserved; };
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
        std::min({left, std::max<std::size_t>(1, strategy.batch()), fitting(result, budget, reserved)});
    if (most == 0) {
      result.stopped_by = "seconds";
      break;
    }
    if (budget.seconds > 0) measurer.allow(with_overtime(budget.seconds) - reserved - elapsed());
    std::vector<Proposal> proposals =
        timed(result.model_seconds, [&] { return sharing.propose(strategy, most, seen); });
    if (proposals.empty()) {
      result.stopped_by = "exhausted";
      break;
    }
    if (sharing.alone()) { // other searches might propose the same spares
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
          {proposal.point, measured, proposal.source, proposal.predicted, elapsed(), batch});
      if (measured.ok() && (best == 0 || measured.seconds < best)) {
        best = measured.seconds;
        result.best = proposal.point;
        result.best_result = measured;
      }
      if (measured.ok() && (gained_at == 0 || best < 0.99 * gained_at)) {
        gained_at = best;
        last_gain = static_cast<int>(result.trials.size());
      }
      result.seconds = elapsed();
      refused = progress && !progress(result);
      reserved = reserved_seconds(result, measurer, budget);
      late = time_is_up();
      return !refused && !late;
    };
    const std::vector<Measurement> measured =
        timed(result.measure_seconds, [&] { return measurer.measure(points, listen); });
    const std::span<const Trial> fresh(result.trials.data() + first, result.trials.size() - first);
    internal_check(measured.size() == fresh.size(), "a measurer did not report all its measurements");
    pool.note(fresh);
    const bool unlikely = timed(result.model_seconds, [&] {
      strategy.observe(fresh);
      return budget.chance > 0 && result.best && strategy.chance_of_better() < budget.chance;
    });
    result.seconds = elapsed();
    late = late || time_is_up();

    if (refused || (measured.size() < points.size() && !late))
      result.stopped_by = "interrupted";
    else if (!measured.empty() && std::all_of(measured.begin(), measured.end(), [](const Measurement& m) {
               return m.status == Status::device_lost;
             }))
      result.stopped_by = "device lost";
    else if (late)
      result.stopped_by = "seconds";
    else if (budget.patience > 0 && result.best &&
             static_cast<int>(result.trials.size()) - last_gain >= budget.patience)
      result.stopped_by = "patience";
    else if (unlikely)
      result.stopped_by = "chance";
  }

  pool.report(result);
  if (result.stopped_by != "device lost")
    timed(result.measure_seconds, [&] { confirm(result, measurer, budget, elapsed); });
  result.seconds = elapsed();
  return result;
}

} // namespace kiln::tune
