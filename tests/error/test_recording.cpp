// Tests errors while a kernel is recorded, and exceptions that its lambda throws.
#include "error_test.h"

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {
const auto fill = kernel("fill", [](View<float, 1> x) {
  auto [i] = program_tile(x, BN);
  x.tile(i).store(1.0f);
});
const std::string fill_title = "kernel \"fill\" (" + KILN_HERE(-4) + ")";
} // namespace

TEST_CASE("launching inside a recording is refused") {
  std::vector<float> other(4), x(4);
  Stream stream;
  std::string line = KILN_HERE(1);
  auto k = kernel("outer", [&](View<float, 1>) { fill.launch(stream, {BN = 4}, TensorView(other)); });
  REQUIRE(error_of([&] { k.launch(stream, {}, Grid{1}, TensorView(x)); }) ==
          line + ": " + fill_title +
              " is launched while kernel \"outer\" is being recorded; launch it outside of the lambda");
  REQUIRE(error_of([&] { fill.launch(stream, {BN = 4}, TensorView(x)); }) == "no error");
}

TEST_CASE("recording inside a recording is refused") {
  auto k = kernel("outer", [&](View<float, 1>) { fill.record(); });
  REQUIRE(
      error_of([&] { k.record(); }) ==
      fill_title.substr(15, fill_title.size() - 16) +
          ": kernel \"fill\" is recorded while kernel \"outer\" is being recorded; kernels do not nest, call "
          "a C++ function instead");
}

TEST_CASE("a tile of another recording is refused") {
  std::optional<Tile<float, BN>> kept;
  auto first = kernel("first", [&](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    kept.emplace(x.tile(i).load());
  });
  std::string line = KILN_HERE(3);
  auto second = kernel("second", [&](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(*kept);
  });
  first.record();
  REQUIRE(error_of([&] { second.record(); }) ==
          line + ": kernel \"second\" uses a tile or view from the recording of kernel \"first\"; pass data "
                 "between kernels through memory");
}

TEST_CASE("an exception of the lambda leaves nothing behind") {
  int calls = 0;
  auto k = kernel("throws", [&](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    if (++calls == 1) throw std::runtime_error("the lambda's own");
    x.tile(i).store(3.0f);
  });
  std::vector<float> x(4);
  Stream stream;
  REQUIRE_THROWS_WITH(k.launch(stream, {BN = 4}, TensorView(x)), "the lambda's own");
  k.launch(stream, {BN = 4}, TensorView(x));
  stream.synchronize();
  REQUIRE(x == std::vector<float>(4, 3.0f));
  REQUIRE(calls == 2);
}

TEST_CASE("an axis that no grid has is refused") {
  for (int axis : {-1, 8, 9, 100}) {
    auto id = kernel("id", [axis](View<float, 1> x) { x.at(program_id(axis)).store(1.0f); });
    auto number = kernel("number", [axis](View<float, 1> x) { x.at(num_programs(axis)).store(1.0f); });
    const std::string first = KILN_HERE(-2), second = KILN_HERE(-1);
    std::vector<float> x(4);
    Stream stream;
    REQUIRE(error_of([&] { id.launch(stream, {}, Grid{1}, TensorView(x)); }) ==
            first + ": kernel \"id\" uses program_id(" + std::to_string(axis) +
                "); the axes of a grid are 0 to 7");
    REQUIRE(error_of([&] { number.interpret({}, Grid{1}, TensorView(x)); }) ==
            second + ": kernel \"number\" uses num_programs(" + std::to_string(axis) +
                "); the axes of a grid are 0 to 7");
  }
  auto k = kernel("last", [](View<float, 1> x) { x.at(program_id(7)).store(cast<float>(num_programs(7))); });
  std::vector<float> x(4);
  Stream stream;
  k.launch(stream, {}, Grid{1}, TensorView(x));
  stream.synchronize();
  REQUIRE(x == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("a negative number as an index is refused") {
  auto rows = kernel("rows", [](View<const float, 2> x, View<float, 1> y) {
    auto [n] = program_tile(y, BN);
    y.tile(n).store(x.tile(-1, n).load());
  });
  const std::string first = KILN_HERE(-2);
  const std::string what = " of a view, where there are no elements; to count from the end write extent(";
  REQUIRE(error_of([&] { rows.record(); }) ==
          first + ": kernel \"rows\" uses the index -1 along axis 0" + what + "0) - 1");
  auto columns = kernel("columns", [](View<const float, 2> x, View<float, 2> y) {
    auto [m] = program_tile(y, BN);
    y.tile(m, -2).store(x.tile(m, 0).load());
  });
  const std::string second = KILN_HERE(-2);
  REQUIRE(error_of([&] { columns.record(); }) ==
          second + ": kernel \"columns\" uses the index -2 along axis 1" + what + "1) - 2");
  auto elements = kernel("elements", [](View<float, 2> x) { x.at(arange(BN), -1).atomic_add(1.0f); });
  const std::string third = KILN_HERE(-1);
  REQUIRE(error_of([&] { elements.record(); }) ==
          third + ": kernel \"elements\" uses the index -1 along axis 1" + what + "1) - 1");
  // The offset of a tile may be negative, and an address may be computed from any index.
  auto correct = kernel("correct", [](View<float, 2> x, Scalar<std::int64_t> i) {
    x.tile(offset(BN, -1), i - 1).store(raw::load(x.tile(offset(BN, 0), -1).ptrs() + x.stride(1)));
  });
  REQUIRE(error_of([&] { correct.record(); }) == "no error");
}

TEST_CASE("an error about a use outside of a kernel names the operation") {
  const std::string rest = " is used while no kernel is being recorded; use it inside a kernel's lambda only";
  std::string line = KILN_HERE(1);
  REQUIRE(error_of([] { (void)value(BN); }) == line + ": value(BN)" + rest);
  line = KILN_HERE(1);
  REQUIRE(error_of([] { (void)program_id(0); }) == line + ": program_id" + rest);
  line = KILN_HERE(1);
  REQUIRE(error_of([] { (void)arange(BN); }) == line + ": arange" + rest);
  line = KILN_HERE(1);
  REQUIRE(error_of([] { (void)dim_size(BN); }) == line + ": dim_size" + rest);
  REQUIRE(error_of([] { (void)zeros<float>(BN); }) == "a tile or scalar" + rest);
}
