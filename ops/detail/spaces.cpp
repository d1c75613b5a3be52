// Implements what the spaces of several ops share.
#include <kiln/ops/detail/spaces.h>

#include <kiln/ops/dims.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace kiln::ops::detail {

using tune::Choice;
using tune::Problem;

namespace {
constexpr std::int64_t sums_of_warp = 8 * 32; // the least that a tile has for each warp
}

std::int64_t pow2_above(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(x, 1))));
}

void add_gpu_product(tune::Space& space, std::int64_t bytes) {
  space.pow2(BM, 16, 256).pow2(BN, 16, 256).pow2(BK, 16, 128).oneof(num_warps, {1, 2, 4, 8});
  space
      .require("a thread holds at most 128 sums",
               [](const Choice& c) { return c[BM] * c[BN] <= 128 * 32 * c[num_warps]; })
      .require("every warp has sums",
               [](const Choice& c) { return c[BM] * c[BN] >= sums_of_warp * c[num_warps]; })
      .require("factors fit shared memory", [bytes](const Choice& c, const Problem&, Device d) {
        return (c[BM] + c[BN]) * c[BK] * bytes <= d.limits().max_scratch_bytes;
      });
}

void seed_product(tune::Space& space, Device device, Config config) {
  if (!device.is_cpu()) {
    const std::int64_t sums = *config.get("BM") * *config.get("BN");
    config.set(num_warps = std::clamp<std::int64_t>(sums / sums_of_warp, 1, 4));
  }
  space.seed_near(config);
}

void seed_tile(tune::Space& space, Device device, Config usual, std::int64_t most_on_cpu,
               std::function<std::int64_t(const Choice&)> elements) {
  if (!device.is_cpu()) {
    space.oneof(num_warps, {1, 2, 4, 8});
    if (!usual.get("num_warps")) usual.set(num_warps = 4);
  }
  space.seed_near(usual);
  const tune::Point seed = space.seeds().back();
  const auto is_seed = [seed, knobs = space.knobs()](const Choice& c) {
    bool same = true;
    for (std::size_t k = 0; k < knobs.size(); ++k)
      same &= c[knobs[k].name] == knobs[k].values[seed[k]];
    return same;
  };
  if (device.is_cpu())
    space.require("a tile is not too large",
                  [=](const Choice& c) { return elements(c) <= most_on_cpu || is_seed(c); });
  else
    space.require("a thread holds at most 64 elements",
                  [=](const Choice& c) { return elements(c) <= 64 * 32 * c[num_warps] || is_seed(c); });
}

void keep_order(tune::Space& space) {
  for (const tune::Knob& knob : space.knobs())
    space.keeps_order({knob.name});
}

} // namespace kiln::ops::detail
