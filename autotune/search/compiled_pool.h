// Compiles more candidates than are run, so that compiler reports can rule some out before they run.
//
// It does so only if compiling is cheap. The most useful fact that the compiler reports is the number of
// register spills.
#pragma once

#include <kiln/autotune/search/search.h>
#include <kiln/autotune/search/sharing.h>

#include <unordered_map>

namespace kiln::tune {

class CompiledPool {
public:
  struct Room {
    std::size_t runs, trials; // candidates that do not compile count as trials but not as runs
  };

  CompiledPool(Strategy& strategy, Measurer& measurer) : strategy_(strategy), measurer_(measurer) {}

  // Adds an equal number of spares to a whole batch, if compiling is cheap compared with the runs so far.
  void add_spares(std::vector<Proposal>& batch, Sharing::Seen& seen);
  std::vector<Measurement> compile(std::span<const Proposal> batch);
  // Reduces `batch` to what is to be measured: candidates that did not compile, as far as there is room, then
  // those that the strategy chooses to run. The others are removed from `seen`.
  void choose(std::vector<Proposal>& batch, std::span<const Measurement> compiled, Room room,
              Sharing::Seen& seen);

  void note(std::span<const Trial> trials); // must be called with all trials of the search
  // Sets the numbers of points and seconds that were compiled without becoming a trial: because others were
  // chosen, or because the search stopped.
  void report(SearchResult& result) const;

private:
  bool is_cheap(std::size_t pool) const;

  Strategy& strategy_;
  Measurer& measurer_;
  double compiling_ = 0, running_ = 0;                   // seconds that the trials took
  std::unordered_map<Point, double, PointHash> waiting_; // the compile seconds of points that did not run
};

} // namespace kiln::tune
