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

TEST_CASE("given contents are kept where made-up contents of another argument share their bytes") {
  const auto jumps = kernel("jumps", [](View<const std::int32_t, 1> from, View<std::int32_t, 1> to) {
    auto [i] = program_tile(to, BN);
    to.tile(i).store(from.at(cast<std::int64_t>(from.tile(i).load())).load());
  });
  constexpr std::int64_t n = 100;
  Situation s;
  s.device = Device::cpu();
  for (const std::uint64_t column : {0, 1}) { // of one matrix
    Argument a = tensor_argument(DType::I32, {n}, column == 0);
    a.strides = {2};
    a.address = 4096 + 4 * column;
    s.arguments.push_back(std::move(a));
  }
  const auto given = std::make_shared<SharedBytes>(static_cast<std::size_t>(4 * (2 * n - 1)));
  std::fill_n(given->data(), given->size(), static_cast<unsigned char>(0x11));
  s.arguments[0].fill.kind = Fill::Kind::bytes;
  s.arguments[0].fill.bytes = given;
  const Inputs inputs(s, *jumps.record({BN = 32}));
  REQUIRE(inputs.contents.blocks.size() == 1);
  for (std::size_t i = 0; i < n; ++i)
    CHECK(inputs.contents.blocks[0][8 * i] == 0x11);
}

TEST_CASE("floats get no special values where integers or indices share their bytes") {
  const auto scaled =
      kernel("scaled", [](View<const float, 1> x, View<const std::int32_t, 1> at, View<float, 1> y) {
        auto [i] = program_tile(y, BN);
        y.tile(i).store(x.at(cast<std::int64_t>(at.tile(i).load())).load());
      });
  constexpr std::int64_t n = 100;
  Situation s;
  s.device = Device::cpu();
  s.arguments = {tensor_argument(DType::F32, {n}, true), tensor_argument(DType::I32, {n}, true),
                 tensor_argument(DType::F32, {n}, false)};
  for (const std::size_t column : {0, 1}) {
    s.arguments[column].strides = {2};
    s.arguments[column].address = 4096 + 4 * column;
  }
  const auto recorded = scaled.record({BN = 32});
  const Inputs usual(s, *recorded), special(s, *recorded, Values::special);
  CHECK(usual.contents.blocks == special.contents.blocks);
}
