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

  // Compiles a whole batch of proposals and as many spares of the strategy, where that is cheap, and leaves
  // those that are to be measured: as many as were proposed, by the strategy's choice, and in front of them
  // what did not compile, as far as `left` trials allow. The others are not seen any more.
  void choose(std::vector<Proposal>& proposals, std::size_t left, Sharing::Seen& seen, SearchResult& result);

private:
  bool is_cheap(std::size_t pool, const SearchResult& so_far) const;
  void add_spares(std::vector<Proposal>& proposals, Sharing::Seen& seen);
  void compile(std::vector<Proposal>& proposals, std::size_t most, std::size_t left, Sharing::Seen& seen);

  Strategy& strategy_;
  Measurer& measurer_;
  std::unordered_map<Point, double, PointHash> waiting_; // seconds that compiling those took that did not run
};

} // namespace kiln::tune
