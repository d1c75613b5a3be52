// Tests errors of configs: sizes and options with which a kernel cannot be compiled.
#include "error_test.h"

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

const auto sums = kernel("sums", [](View<const float, 2> x, View<float, 1> out) {
  auto [i] = program_tile(out, BM);
  out.tile(i).store(sum(x.tile(i, Offset<BN>(0)).load(), BN));
});
const std::string made = KILN_HERE(-4);

std::string config_error(const Config& config) {
  std::vector<float> x(64, 1), out(8);
  Stream stream;
  auto error = error_of([&] { sums.launch(stream, config, TensorView(x, {8, 8}), TensorView(out)); });
  stream.synchronize();
  return error;
}

} // namespace

TEST_CASE("dimensions without a size are named, all of them") {
  REQUIRE(config_error({}) == made +
                                  ": kernel sums: dimensions BM, BN have no size in the config {}; add BM = "
                                  "SIZE, BN = SIZE");
  REQUIRE(config_error({BM = 4}) ==
          made + ": kernel sums: dimension BN has no size in the config {BM=4}; add BN = SIZE");
}

TEST_CASE("a size that is not positive is refused") {
  REQUIRE(config_error({BM = 0, BN = 8}) ==
          made + ": kernel sums: dimension BM has size 0 in the config {BM=0,BN=8}; a size must be positive");
}

TEST_CASE("a name that the kernel does not have is refused") {
  REQUIRE(config_error({BM = 4, BN = 8, BK = 2}) ==
          made + ": kernel sums: the config {BK=2,BM=4,BN=8} names BK, which the kernel does not use; its "
                 "dimensions are BM, BN");
}

TEST_CASE("options that a CPU lacks are ignored") {
  REQUIRE(config_error({BM = 4, BN = 8, num_warps = 8, num_stages = 3}) == "no error");
}

TEST_CASE("an option that is not positive is refused") {
  REQUIRE(config_error({BM = 4, BN = 8, num_stages = -3}) ==
          made + ": kernel sums: option num_stages is -3 in the config {BM=4,BN=8,num_stages=-3}; an option "
                 "must be positive");
  REQUIRE(config_error({BM = 4, BN = 8, num_warps = 0}) ==
          made + ": kernel sums: option num_warps is 0 in the config {BM=4,BN=8,num_warps=0}; an option must "
                 "be positive");
  auto k = kernel("loop", [](View<float, 1> x) {
    for_range(BN, x.size(), [&](auto i) { x.tile(i).store(1.0f); }, {.stages = -5});
  });
  const std::string line = KILN_HERE(-2);
  REQUIRE(error_of([&] { k.record(); }) ==
          line + ": kernel \"loop\" has a loop with -5 stages; give 1 or more, or 0 for the config's "
                 "num_stages");
}

TEST_CASE("a name given twice is refused") {
  const std::string line = KILN_HERE(1);
  const std::string error = error_of([&] { config_error({BM = 4, BN = 16, BN = 32}); });
  REQUIRE(error == line + ": a config names BN twice, as 16 and 32; remove one of them");
  REQUIRE(error_of([&] { Config::parse("BM=4,BM=4"); }) ==
          "config: a config names BM twice, as 4 and 4; remove one of them");
}

TEST_CASE("a size beyond 64 bits is refused") {
  REQUIRE(config_error({BM = 4, BN = (1ull << 63) + 16}) != "no error");
  REQUIRE(config_error({BM = std::size_t{4}, BN = std::uint8_t{8}}) == "no error");
}

TEST_CASE("sizes that do not fit the device are refused") {
  auto k = kernel("sort", [](View<float, 2> x) {
    auto [i, j] = program_tile(x, BM, BN);
    auto loaded = x.tile(i, j).load();
    x.tile(i, j).store(cumsum(loaded, BN));
  });
  std::string line = KILN_HERE(-5);
  std::vector<float> x(4);
  Stream stream;
  std::string error = error_of([&] { k.launch(stream, {BM = 16384, BN = 16384}, TensorView(x, {2, 2})); });
  REQUIRE(error == line +
                       ": kernel sort: the tiles of the config {BM=16384,BN=16384} need 1073741888 bytes of "
                       "scratch memory, and cpu has 268435456 for a program; choose smaller sizes");
}

TEST_CASE("sizes with which a reshape would change the number of elements are refused at its line") {
  const auto k = kernel("halves", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    Tile pairs = reshape(x.tile(i).load(), BM, BK);
    x.tile(i).store(reshape(exp(pairs), BN));
  });
  const std::string reshaped = KILN_HERE(-3);
  std::vector<float> x(32);
  Stream stream;
  CHECK(error_of([&] { k.launch(stream, {BM = 4, BN = 16, BK = 4}, TensorView(x)); }) == "no error");
  stream.synchronize();
  CHECK(error_of([&] { k.launch(stream, {BM = 3, BN = 16, BK = 4}, TensorView(x)); }) ==
        reshaped + ": a reshape from tile<16 x f32> to tile<3 x 4 x f32> changes the number of elements with "
                   "the config {BK=4,BM=3,BN=16}; choose sizes with equal products");
}
