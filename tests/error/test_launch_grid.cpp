// Tests errors of grids: missing, superfluous, negative and too large ones. An empty grid is not an error.
#include "error_test.h"

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {

const auto count = kernel("count", [](raw::Ptr<std::int32_t> total) { raw::atomic_add(total, 1); });
const std::string count_title = "kernel \"count\" (" + KILN_HERE(-1) + ")";

std::string grid_error(Grid grid, std::int32_t programs) {
  std::int32_t total = 0;
  Stream stream;
  auto error = error_of([&] { count.launch(stream, {}, grid, &total); });
  stream.synchronize();
  REQUIRE(total == programs);
  return error;
}
const std::string call = KILN_HERE(-5) + ": " + count_title;

} // namespace

TEST_CASE("a grid runs each of its programs once") { REQUIRE(grid_error({3, 4, 5}, 60) == "no error"); }

TEST_CASE("an empty grid runs nothing and is not an error") {
  REQUIRE(grid_error({0}, 0) == "no error");
  REQUIRE(grid_error({5, 0, 7}, 0) == "no error");
}

TEST_CASE("a negative grid is refused") {
  REQUIRE(grid_error({2, -1}, 0) == call + ": the grid is 2 x -1 x 1; its sizes must not be negative");
}

TEST_CASE("a grid above the device's limit is refused") {
  std::int64_t large = std::int64_t{1} << 40;
  REQUIRE(grid_error({large, large}, 0) ==
          call + ": the grid is 1099511627776 x 1099511627776 x 1 programs, and cpu runs at most "
                 "4611686018427387904 in one launch; use larger tiles, or launch parts");
}

TEST_CASE("a kernel without program_tile needs a grid") {
  std::int32_t total = 0;
  Stream stream;
  const std::string site = KILN_HERE(1);
  auto error = error_of([&] { count.launch(stream, {}, &total); });
  REQUIRE(error ==
          site + ": " + count_title + " has no program_tile that defines its grid; pass a Grid to launch");
}

TEST_CASE("a kernel with program_tile takes no grid") {
  auto k = kernel("fill", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(1.0f);
  });
  std::string made = KILN_HERE(-4);
  std::vector<float> x(4);
  Stream stream;
  const std::string site = KILN_HERE(1);
  auto error = error_of([&] { k.launch(stream, {BN = 4}, Grid{1}, TensorView(x)); });
  REQUIRE(error == site + ": kernel \"fill\" (" + made +
                       ") defines its grid by program_tile; launch it without a Grid");
}
