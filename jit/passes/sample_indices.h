// Declares the choice of sample indices that represent a large grid or a long loop.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln::passes {

// An index of [0, count), and the number of indices that it represents.
struct SampleIndex {
  std::int64_t index;
  double weight;
};

// All indices if there are at most `limit`. Otherwise the last one, whose tile is often cut off by the edge,
// and the middles of equal ranges of the others.
std::vector<SampleIndex> sample_indices(std::int64_t count, std::int64_t limit);

} // namespace kiln::passes
