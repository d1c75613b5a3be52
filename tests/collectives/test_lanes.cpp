// Tests that the memory of reductions is reused, and that what is no longer needed is freed.
#include <kiln/collectives/lanes.h>

#include <catch2/catch.hpp>

#include <memory>
#include <vector>

using namespace kiln;
using namespace kiln::collectives;

namespace {

void reduce(Lanes& lanes, std::int64_t bytes) { lanes.take(Device::cpu())->memory(bytes); }

} // namespace

TEST_CASE("a lane is reused, also by smaller reductions") {
  Lanes lanes;
  Lane* const first = lanes.take(Device::cpu()).get();
  const void* const memory = lanes.take(Device::cpu())->memory(5000);
  for (int i = 0; i < 10 * Lanes::period; ++i) {
    const std::shared_ptr<Lane> lane = lanes.take(Device::cpu());
    CHECK(lane.get() == first);
    CHECK(lane->memory(i % 50 == 0 ? 5000 : 100) == memory);
  }
  CHECK(lanes.idle_bytes() == 5000);
}

TEST_CASE("memory that is much larger than reductions need is freed") {
  Lanes lanes;
  reduce(lanes, 1 << 20);
  for (int i = 0; i < 2 * Lanes::period; ++i)
    reduce(lanes, 1000);
  CHECK(lanes.idle_bytes() == 1000);
}

TEST_CASE("lanes of reductions at the same time are freed when reductions come one by one") {
  Lanes lanes;
  const auto together = [&] {
    std::vector<std::shared_ptr<Lane>> taken;
    for (int i = 0; i < 5; ++i) {
      taken.push_back(lanes.take(Device::cpu()));
      taken.back()->memory(1000);
    }
  };
  for (int i = 0; i < Lanes::period; ++i)
    together();
  CHECK(lanes.idle_bytes() == 5000);
  for (int i = 0; i < 2 * Lanes::period; ++i)
    reduce(lanes, 1000);
  CHECK(lanes.idle_bytes() == 1000);
}
