// More candidates are compiled than are run where that is cheap, so that what the compiler tells of them,
// registers that do not suffice above all, costs no run.
#pragma once

#include <kiln/autotune/search/search.h>
#include <kiln/autotune/search/sharing.h>

#include <unordered_map>

namespace kiln::tune {

class CompiledPool {
public:
  struct Room {
    std::size_t runs, trials; // what does not compile is a trial, and runs not
  };

  CompiledPool(Strategy& strategy, Measurer& measurer) : strategy_(strategy), measurer_(measurer) {}

  // Adds as many spares of the strategy to a whole batch, where compiling is cheap beside the runs so far.
  void add_spares(std::vector<Proposal>& batch, Sharing::Seen& seen);
  std::vector<Measurement> compile(std::span<const Proposal> batch);
  // Leaves those that are to be measured: what the strategy chooses to run, and in front of it what did not
  // compile, as far as there is room. The others are not seen any more.
  void choose(std::vector<Proposal>& batch, std::span<const Measurement> compiled, Room room,
              Sharing::Seen& seen);

  void note(std::span<const Trial> trials); // all of the search, as they come
  // What was compiled here and is no trial: others were chosen, or the search stopped before; and the time of
  // all that the measurer compiled and no trial has.
  void report(SearchResult& result) const;

private:
  bool is_cheap(std::size_t pool) const;

  Strategy& strategy_;
  Measurer& measurer_;
  double compiling_ = 0, running_ = 0;                   // seconds of trials
  std::unordered_map<Point, double, PointHash> waiting_; // seconds that compiling those took that did not run
};

} // namespace kiln::tune
