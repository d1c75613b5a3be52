// How large the pool of compiled candidates is, and who of it is run.
#include <kiln/autotune/search/compiled_pool.h>

#include <algorithm>

namespace kiln::tune {

namespace {

constexpr std::size_t compiled_per_run = 2;

} // namespace

// While a pool is compiled nothing runs: on a GPU, too, where the code of one batch is otherwise compiled
// while it runs. Recorded tables have no seconds of runs, and compile at once.
bool CompiledPool::is_cheap(std::size_t pool, const SearchResult& so_far) const {
  constexpr double most_share = .25; // of the time that runs take
  double compiling = 0, running = 0;
  for (const Trial& trial : so_far.trials)
    compiling += trial.result.compile_seconds, running += trial.result.run_seconds;
  const auto side_by_side = static_cast<double>(std::min(measurer_.compilers(), pool));
  return running == 0 || compiled_per_run * compiling <= most_share * running * side_by_side;
}

void CompiledPool::add_spares(std::vector<Proposal>& proposals, Sharing::Seen& seen) {
  for (Proposal& spare : strategy_.spares((compiled_per_run - 1) * proposals.size()))
    if (seen.insert(spare.point).second) proposals.push_back(std::move(spare));
}

void CompiledPool::choose(std::vector<Proposal>& proposals, std::size_t left, Sharing::Seen& seen,
                          SearchResult& result) {
  const std::size_t most = proposals.size();
  const bool whole_batch = most >= strategy_.batch(); // not the last that the budget allows
  if (whole_batch && measurer_.compilers() > 0 && is_cheap(compiled_per_run * most, result))
    add_spares(proposals, seen);
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
  internal_check(chosen.size() <= most, "a strategy chose more than it was asked for");
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
    internal_check(compiled.at(i).ok(), "a strategy chose what does not compile");
    seen.insert(points[i]);
    measured.push_back(proposals[i]);
  }
  proposals = std::move(measured);
}

} // namespace kiln::tune
