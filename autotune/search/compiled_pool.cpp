// How large the pool of compiled candidates is, and who of it is run.
#include <kiln/autotune/search/compiled_pool.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

// While a pool is compiled nothing runs: on a GPU, too, where the code of one batch is otherwise compiled
// while it runs. Recorded tables have no seconds of runs, and compile at once.
bool CompiledPool::is_cheap(double compiled_per_run, const SearchResult& so_far) const {
  constexpr double most_share = .25; // of the time that runs take
  double compiling = 0, running = 0;
  for (const Trial& trial : so_far.trials)
    if (trial.result.run_seconds > 0)
      compiling += trial.result.compile_seconds, running += trial.result.run_seconds;
  return compiled_per_run * compiling <= most_share * running * static_cast<double>(measurer_.compilers());
}

std::size_t CompiledPool::size(std::size_t most, const SearchResult& so_far) {
  if (measurer_.compilers() == 0 || most < strategy_.batch()) return most; // the last that the budget allows
  const double compiled_per_run = strategy_.compiled_per_run();
  if (compiled_per_run <= 1 || !is_cheap(compiled_per_run, so_far)) return most;
  return static_cast<std::size_t>(std::ceil(compiled_per_run * static_cast<double>(most)));
}

void CompiledPool::choose(std::vector<Proposal>& proposals, std::size_t most, std::size_t left,
                          Sharing::Seen& seen, SearchResult& result) {
  if (proposals.size() > most) compile(proposals, most, left, seen);
  for (const Proposal& p : proposals)
    waiting_.erase(p.point);
  result.compiled_only = waiting_.size();
  result.compiled_only_seconds = 0;
  for (const auto& [point, seconds] : waiting_)
    result.compiled_only_seconds += seconds;
}

void CompiledPool::compile(std::vector<Proposal>& proposals, std::size_t most, std::size_t left,
                           Sharing::Seen& seen) {
  std::vector<Point> points;
  for (const Proposal& p : proposals)
    points.push_back(p.point);
  const std::vector<Measurement> compiled = measurer_.compile(points);
  if (compiled.size() < points.size()) { // interrupted, or the device is lost: measuring will tell
    proposals.resize(most);
    return;
  }
  const std::vector<std::size_t> chosen = strategy_.choose(proposals, compiled, most);
  std::vector<Proposal> measured;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (compiled[i].ok()) {
      seen.erase(points[i]);
      waiting_.try_emplace(points[i], compiled[i].compile_seconds);
    } else if (measured.size() + chosen.size() < left) {
      measured.push_back(proposals[i]);
    }
  }
  for (std::size_t i : chosen) {
    seen.insert(points[i]);
    measured.push_back(proposals[i]);
  }
  proposals = std::move(measured);
}

} // namespace kiln::tune
