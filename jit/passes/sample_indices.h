// Indices that stand for many: of a large grid, or of a long loop.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln::passes {

// One out of [0, count), and how many it stands for.
struct SampleIndex {
  std::int64_t index;
  double weight;
};

// All indices if there are at most `limit`; otherwise the last one, which is often ragged, and the middles
// of equal ranges of the others.
std::vector<SampleIndex> sample_indices(std::int64_t count, std::int64_t limit);

} // namespace kiln::passes
