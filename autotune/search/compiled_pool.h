// More candidates are compiled than are run where that is cheap, so that what the compiler tells of them,
// registers that do not suffice above all, costs no run.
#pragma once

#include <kiln/autotune/search/search.h>
#include <kiln/autotune/search/sharing.h>

#include <unordered_map>

namespace kiln::tune {

class CompiledPool {
public:
  CompiledPool(Strategy& strategy, Measurer& measurer) : strategy_(strategy), measurer_(measurer) {}

  // How many to propose, for `most` of them to be run.
  std::size_t size(std::size_t most, const SearchResult& so_far);
  // Of more than `most` proposals, compiles all and leaves those that are to be measured: `most` that the
  // strategy chooses, and in front of them what did not compile, as far as `left` trials allow. The others
  // are not seen any more.
  void choose(std::vector<Proposal>& proposals, std::size_t most, std::size_t left, Sharing::Seen& seen,
              SearchResult& result);

private:
  bool is_cheap(double compiled_per_run, const SearchResult& so_far) const;
  void compile(std::vector<Proposal>& proposals, std::size_t most, std::size_t left, Sharing::Seen& seen);

  Strategy& strategy_;
  Measurer& measurer_;
  std::unordered_map<Point, double, PointHash> waiting_; // seconds that compiling those took that did not run
};

} // namespace kiln::tune
