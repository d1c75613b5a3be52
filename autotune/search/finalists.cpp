// Chooses the finalists of a search and limits the time for confirming them.
#include <kiln/autotune/search/finalists.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

// Shares of the budget's seconds: the usual limit for all finalists, and the largest for a single one.
constexpr double usual_share = 0.3, most_share = 0.6;
// The analytic model's choice is a finalist if its trial took at most this many times as long as the fastest.
constexpr double analytic_margin = 1.25;

// Returns the successful trials, fastest first. Among equal ones, earlier trials are first and other
// processes' last.
std::vector<const Trial*> ranking(const SearchResult& result) {
  std::vector<const Trial*> ok;
  for (const auto* trials : {&result.trials, &result.shared})
    for (const Trial& t : *trials)
      if (t.result.ok()) ok.push_back(&t);
  std::stable_sort(ok.begin(), ok.end(),
                   [](const Trial* a, const Trial* b) { return a->result.seconds < b->result.seconds; });
  return ok;
}

// Returns the seed, which is always a finalist. A winner must be faster than the seed when both are timed
// together; their earlier times do not count.
const Trial* known_good(const SearchResult& result, const std::vector<const Trial*>& ok) {
  const auto seed = std::find_if(result.trials.begin(), result.trials.end(), [](const Trial& trial) {
    return trial.source == "seed" && trial.result.ok();
  });
  return seed == result.trials.end() ? ok.front() : &*seed;
}

// Returns the analytic model's choice, which launches use without tuning, unless it is much slower; null if
// it was not tried. It is a finalist, since the times of trials and of finalists differ by more than these
// configs do, and a report compares them.
const Trial* analytic_choice(const std::vector<const Trial*>& ok) {
  const Trial* choice = nullptr; // the first of those that the model proposed
  for (const Trial* trial : ok)
    if (trial->source == "analytic" && (!choice || trial->at_seconds < choice->at_seconds)) choice = trial;
  return choice && choice->result.seconds <= analytic_margin * ok.front()->result.seconds ? choice : nullptr;
}

std::vector<const Trial*> finalists(const std::vector<const Trial*>& ok, const Trial* seed, std::size_t first,
                                    std::size_t count) {
  std::vector<const Trial*> chosen;
  for (std::size_t i = first; i < std::min(ok.size(), first + count); ++i)
    if (first == 0 || ok[i] != seed) chosen.push_back(ok[i]);
  const bool has_seed = std::any_of(chosen.begin(), chosen.end(),
                                    [&](const Trial* trial) { return trial->point == seed->point; });
  if (first == 0 && !has_seed) chosen.push_back(seed);
  if (const Trial* analytic = analytic_choice(ok); first == 0 && analytic)
    if (std::find(chosen.begin(), chosen.end(), analytic) == chosen.end()) chosen.push_back(analytic);
  return chosen;
}

// Returns how many of the fastest trials can be confirmed in `seconds`.
std::size_t fitting(const std::vector<const Trial*>& ok, const Trial* seed, const Measurer& measurer,
                    int most, double seconds) {
  auto count = std::min(ok.size(), static_cast<std::size_t>(most));
  while (count > 0 && measurer.seconds_to_confirm(finalists(ok, seed, 0, count)) > seconds)
    --count;
  return count;
}

} // namespace

double reserved_seconds(const SearchResult& so_far, const Measurer& measurer, const Budget& budget) {
  if (budget.seconds <= 0 || budget.confirm < 1) return 0;
  const std::vector<const Trial*> ok = ranking(so_far);
  if (ok.empty()) return 0;
  const Trial* seed = known_good(so_far, ok);
  const std::size_t count = fitting(ok, seed, measurer, budget.confirm, usual_share * budget.seconds);
  const double seconds = measurer.seconds_to_confirm(finalists(ok, seed, 0, std::max<std::size_t>(1, count)));
  return std::min(seconds, most_share * budget.seconds);
}

void confirm(SearchResult& result, Measurer& measurer, const Budget& budget,
             const std::function<double()>& elapsed) {
  if (!result.best || budget.confirm < 1) return;
  const std::vector<const Trial*> ok = ranking(result);
  const Trial* seed = known_good(result, ok);
  const auto left = [&] {
    return budget.seconds > 0 ? std::max(0.0, with_overtime(budget.seconds) - elapsed()) : INFINITY;
  };
  // The fastest is confirmed even if the estimate is that the time is too short, because a config that was
  // not verified is of no use. The measurer ends when the time is up.
  const std::size_t step = std::max<std::size_t>(1, fitting(ok, seed, measurer, budget.confirm, left()));
  // Continue with the next trials if all that looked best fail when they run again.
  bool found = false;
  for (std::size_t first = 0; first < ok.size() && !found; first += step) {
    const std::vector<const Trial*> chosen = finalists(ok, seed, first, step);
    if (chosen.empty()) break; // only the seed was left
    std::vector<Point> points;
    for (const Trial* trial : chosen)
      points.push_back(trial->point);
    const std::vector<Measurement> again = measurer.confirm(points);
    internal_check(again.size() <= points.size(), "a measurer returned more results than points");
    if (again.size() < points.size()) { // interrupted or out of time: what is left is not confirmed
      result.best = chosen.front()->point;
      result.best_result = chosen.front()->result;
      return;
    }
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

} // namespace kiln::tune
