// Tests the check that the machine has enough memory for a launch and for checking it.
#include "measured.h"

#include <kiln/autotune/measure/checker.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

Situation product_of(std::int64_t side) {
  Situation s;
  s.device = Device::cpu();
  for (bool readonly : {true, true, false})
    s.arguments.push_back(tensor_argument(DType::F32, {side, side}, readonly));
  return s;
}

} // namespace

TEST_CASE("a launch that does not fit into memory is rejected before anything is allocated") {
  const auto recorded = matmul().record({BM = 32, BN = 32, BK = 32});
  CHECK_THROWS_WITH(Inputs(product_of(1 << 21), *recorded), Catch::Contains("48 TiB of arrays") &&
                                                                Catch::Contains("cpu has only ") &&
                                                                Catch::EndsWith("choose smaller sizes"));
  // The arrays would fit, but not the copies that checks need.
  const std::int64_t memory = Device::cpu().properties().memory_bytes;
  REQUIRE(memory > 0);
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(memory) / 12 * 0.7));
  CHECK_THROWS_WITH(Inputs(product_of(side), *recorded), Catch::Contains("to be measured and checked"));
  const Inputs small(product_of(40), *recorded);
  CHECK(small.plan.bytes() == 3 * 4 * 40 * 40);
}
