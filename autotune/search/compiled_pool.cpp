// Decides how many candidates are compiled, and takes those to run from them.
#include <kiln/autotune/search/compiled_pool.h>

#include <algorithm>

namespace kiln::tune {

namespace {

constexpr std::size_t compiled_per_run = 2;

} // namespace

// Nothing runs while a pool is compiled. This costs time also on a GPU, which otherwise runs the first
// candidates of a batch while the others compile. For recorded tables runs and compiling take no time.
bool CompiledPool::is_cheap(std::size_t pool) const {
  constexpr double most_share = .25; // relative to the time of the runs
  const auto side_by_side = static_cast<double>(std::min(measurer_.compilers(), pool));
  return running_ == 0 || compiled_per_run * compiling_ <= most_share * running_ * side_by_side;
}

void CompiledPool::add_spares(std::vector<Proposal>& batch, Sharing::Seen& seen) {
  const std::size_t runs = batch.size();
  if (runs < strategy_.batch()) return; // a last, smaller batch
  if (measurer_.compilers() == 0 || !is_cheap(compiled_per_run * runs)) return;
  for (Proposal& spare : strategy_.spares((compiled_per_run - 1) * runs))
    if (seen.insert(spare.point).second) batch.push_back(std::move(spare));
}

std::vector<Measurement> CompiledPool::compile(std::span<const Proposal> batch) {
  std::vector<Point> points;
  for (const Proposal& p : batch)
    points.push_back(p.point);
  std::vector<Measurement> compiled = measurer_.compile(points);
  for (std::size_t i = 0; i < compiled.size(); ++i)
    waiting_.try_emplace(points.at(i), compiled[i].compile_seconds);
  return compiled;
}

void CompiledPool::choose(std::vector<Proposal>& batch, std::span<const Measurement> compiled, Room room,
                          Sharing::Seen& seen) {
  if (compiled.size() < batch.size()) { // interrupted, or the device is lost, which measuring will report
    batch.resize(room.runs);
    return;
  }
  const std::vector<std::size_t> chosen = strategy_.choose(batch, compiled, room.runs);
  internal_check(chosen.size() <= room.runs, "a strategy chose more candidates than requested");
  std::vector<Proposal> measured;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (compiled[i].ok())
      seen.erase(batch[i].point);
    else if (measured.size() + chosen.size() < room.trials)
      measured.push_back(batch[i]);
  }
  for (std::size_t i : chosen) {
    internal_check(compiled[i].ok(), "a strategy chose a candidate that does not compile");
    seen.insert(batch[i].point);
    measured.push_back(batch[i]);
  }
  batch = std::move(measured);
}

void CompiledPool::note(std::span<const Trial> trials) {
  for (const Trial& trial : trials) {
    compiling_ += trial.result.compile_seconds, running_ += trial.result.run_seconds;
    waiting_.erase(trial.point);
  }
}

void CompiledPool::report(SearchResult& result) const {
  result.compiled_only = waiting_.size();
  for (const auto& [point, seconds] : waiting_)
    result.compiled_only_seconds += seconds;
  double of_trials = 0;
  for (const Trial& trial : result.trials)
    of_trials += trial.result.compile_seconds;
  result.compiled_only_seconds =
      std::max(result.compiled_only_seconds, measurer_.compiler_seconds() - of_trials);
}

} // namespace kiln::tune
