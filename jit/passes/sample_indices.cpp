// Chooses the last index and the middles of equal ranges.
#include <kiln/jit/passes/sample_indices.h>

#include <algorithm>

namespace kiln::passes {

std::vector<SampleIndex> sample_indices(std::int64_t count, std::int64_t limit) {
  std::vector<SampleIndex> samples;
  if (count <= limit) {
    for (std::int64_t i = 0; i < count; ++i)
      samples.push_back({i, 1});
    return samples;
  }
  const std::int64_t rest = count - 1, ranges = std::max<std::int64_t>(1, limit - 1);
  for (std::int64_t r = 0; r < ranges; ++r) {
    auto edge = [&](std::int64_t i) {
      return static_cast<std::int64_t>(static_cast<__int128>(rest) * i / ranges);
    };
    std::int64_t begin = edge(r), end = edge(r + 1);
    samples.push_back({begin + (end - begin - 1) / 2, static_cast<double>(end - begin)});
  }
  samples.push_back({rest, 1});
  return samples;
}

} // namespace kiln::passes
