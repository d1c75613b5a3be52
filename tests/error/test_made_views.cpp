// Tests errors of slices, views of pointers and numbers that are read from bytes.
#include "error_test.h"

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BN);

namespace {

using X = View<const std::uint8_t, 2>;
using Y = View<std::uint32_t, 1>;

// The error of recording a kernel with this body.
template <class Body> std::string recorded(const Body& body) {
  const auto k = kernel("made", [&](X x, Y y) { body(x, y); });
  return error_of([&] { k.record(); });
}
// The error without file and line.
std::string text(const std::string& error) {
  const std::size_t end = error.find(": ");
  return end == std::string::npos ? error : error.substr(end + 2);
}

} // namespace

TEST_CASE("slices along axes that do not exist, and bounds that are negative, are refused") {
  const std::string line = KILN_HERE(1);
  const std::string first = recorded([](X x, Y) { x.slice(2, 0, 1); });
  CHECK(first == line + ": kernel \"made\" slices axis 2 of a view of rank 2; axes are 0 to 1");
  CHECK(text(recorded([](X x, Y) { x.slice(-3, 0, 1); })) ==
        "kernel \"made\" slices axis -3 of a view of rank 2; axes are 0 to 1");
  CHECK(text(recorded([](X x, Y) { x.slice(1, -2, x.cols()); })) ==
        "kernel \"made\" makes a view that begins at -2, but indices and extents begin at 0; to count from "
        "the end "
        "write extent(axis) - n");
  CHECK(text(recorded([](X x, Y) { x.slice(1, 0, -1); })) ==
        "kernel \"made\" makes a view that ends at -1, but indices and extents begin at 0; to count from the "
        "end "
        "write extent(axis) - n");
  CHECK(text(recorded([](X x, Y) { raw::view(x.data(), {3, -4}); })) ==
        "kernel \"made\" makes a view with an extent of -4, but indices and extents begin at 0; to count "
        "from the end "
        "write extent(axis) - n");
}

TEST_CASE("the grid needs a view that is a parameter, and expects needs facts that the host knows") {
  CHECK(text(recorded([](X, Y y) { program_tile(y.slice(0, 1, 2), BN); })) ==
        "kernel \"made\" calls program_tile for a view that the kernel makes, whose extents the host does "
        "not know at "
        "launch; use a parameter of the kernel, or program_id and a Grid");
  // The host knows the extents of slices with bounds that it knows.
  const auto expecting = kernel("made", [](Y y) {
    expects(y.slice(0, 1, y.size() - 1).extent(0) == 2, "the slice's extent");
    y.at(0).store(7);
  });
  std::vector<std::uint32_t> y(4), longer(5);
  Stream stream;
  for (bool interpreted : {false, true}) {
    auto run = [&](std::vector<std::uint32_t>& of) {
      if (interpreted) return expecting.interpret(Config{}, Grid{1}, TensorView(of));
      expecting.launch(stream, Config{}, Grid{1}, TensorView(of));
      stream.synchronize();
    };
    run(y);
    CHECK(y[0] == 7);
    CHECK(text(error_of([&] { run(longer); })) == "expects failed: the slice's extent: 3 != 2");
  }
  const auto unknown = kernel("made", [](Y y) {
    const auto end = cast<std::int64_t>(y.at(0).load());
    expects(y.slice(0, 0, end).extent(0) == 1, "the slice's extent");
  });
  CHECK(text(error_of([&] { unknown.launch(stream, Config{}, Grid{1}, TensorView(y)); })) ==
        "expects (the slice's extent) in kernel made depends on the result of view_load, which the host does "
        "not know at "
        "launch; compare extents, strides, scalar arguments and constants only, or use device_assert");
}

TEST_CASE("load_as needs elements that are neighbours in memory") {
  CHECK(text(recorded([](X x, Y y) {
          y.tile(offset(BN, 0)).store(load_as<std::uint32_t>(x.tile(0, offset(BN, 0))));
        })) == "kernel \"made\" uses load_as on a tile of a view, whose elements would overlap; give the "
               "index of each "
               "number: load_as<...>(view.at(m, 4 * arange(BN)))");
  CHECK(text(recorded(
            [](X x, Y) { load_as<std::uint32_t>(raw::view(x.data(), {4, 4}, {1, x.rows()}).at(0, 0)); })) ==
        "kernel \"made\" uses load_as on a view whose stride along the last axis is not the number 1; give "
        "raw::view this stride, or use raw::load_as");
  const auto wide = kernel("made", [](X x, Y y) {
    for_range(0, y.size(), 1, [&](auto i) { y.at(i).store(load_as<std::uint32_t>(x.at(0, 4 * i))); });
  });
  const std::string line = KILN_HERE(-2);
  const std::vector<std::uint8_t> bytes = {1, 0, 0, 0, 2, 0, 0, 0};
  std::vector<std::uint32_t> y(2);
  Stream stream;
  wide.launch(stream, Config{}, Grid{1}, TensorView(bytes, {1, 8}), TensorView(y));
  stream.synchronize();
  CHECK(y == std::vector<std::uint32_t>{1, 2});
  const TensorView<const std::uint8_t, 2> gaps(bytes.data(), {1, 4}, {8, 2});
  CHECK(error_of([&] { wide.launch(stream, Config{}, Grid{1}, gaps, TensorView(y)); }) ==
        line + ": expects failed: the stride of the last axis of a view that load_as reads: 2 != 1");
}
