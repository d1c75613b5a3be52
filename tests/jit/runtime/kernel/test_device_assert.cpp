// Tests device_assert and checks of indices, which end the launch under KILN_DEBUG=1 and do nothing
// otherwise.
#include "error/error_test.h"

#include <kiln/jit/base/options.h>

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {
Options debugging() {
  Options o = options();
  o.debug = true;
  return o;
}
auto make_checked() {
  return kernel("checked", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    auto v = x.tile(i).load();
    device_assert(v >= 0.0f, "x is not negative");
    out.tile(i).store(v);
  });
}
const std::string line = KILN_HERE(-4);
} // namespace

TEST_CASE("a failed device_assert becomes the stream's error, with its line, program and element") {
  ScopedOptions debug(debugging());
  auto k = make_checked();
  std::vector<float> x(10, 1), out(10);
  x[6] = -1;
  Stream stream;
  k.launch(stream, {BN = 4}, TensorView(x), TensorView(out));
  REQUIRE(error_of([&] { stream.synchronize(); }) ==
          line + ": device_assert failed: x is not negative: -1 >= 0 is false; kernel checked, program (1), "
                 "element 2");
  // The error stays until it is cleared.
  REQUIRE(stream.failed());
  REQUIRE_THROWS_AS(k.launch(stream, {BN = 4}, TensorView(x), TensorView(out)), UserError);
  stream.clear_error();
  x[6] = 1;
  k.launch(stream, {BN = 4}, TensorView(x), TensorView(out));
  stream.synchronize();
  REQUIRE(out == x);
}

TEST_CASE("without KILN_DEBUG a device_assert does nothing") {
  auto k = make_checked();
  std::vector<float> x(10, -1), out(10);
  Stream stream;
  k.launch(stream, {BN = 4}, TensorView(x), TensorView(out));
  stream.synchronize();
  REQUIRE(out == x);
}

// --- Indices into tiles, under KILN_DEBUG=1 ----------------------------------------------------------------

TEST_CASE("an index of gather, take or narrow outside of the tile is an error with its line") {
  ScopedOptions debug(debugging());
  const auto gathers = kernel("gathers", [](View<const float, 1> x, View<const int, 1> at, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(gather(x.tile(i).load(), at.tile(i).load(), BN));
  });
  const std::string gather_line = KILN_HERE(-2);
  const auto takes = kernel("takes", [](View<const float, 1> x, Scalar<int> at, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(take(t, at, BN) + flip(t, BN) + sum(narrow(t, at, 2_c, BN)));
  });
  const std::string take_line = KILN_HERE(-2);
  std::vector<float> x{1, 2, 3, 4}, y(4);
  std::vector<int> at{3, 0, 4, -1};
  Stream stream;
  auto error_with = [&](auto&& launch) {
    launch();
    std::string error = error_of([&] { stream.synchronize(); });
    stream.clear_error();
    return error;
  };
  const std::string what =
      ": device_assert failed: an index of gather, take or narrow lies outside the tile along "
      "axis 0 (fix the index): ";
  REQUIRE(error_with([&] {
            gathers.launch(stream, {BN = 4}, TensorView(x), TensorView(at), TensorView(y));
          }) == gather_line + what + "-1 >= 0 is false; kernel gathers, program (0), element 3");
  at = {3, 0, 4, 1};
  REQUIRE(error_with([&] {
            gathers.launch(stream, {BN = 4}, TensorView(x), TensorView(at), TensorView(y));
          }) == gather_line + what + "4 < 4 is false; kernel gathers, program (0), element 2");
  REQUIRE(error_with([&] {
            takes.launch(stream, {BN = 4}, TensorView(x), -1, TensorView(y));
          }).starts_with(take_line + what + "-1 >= 0 is false"));
  REQUIRE(error_with([&] {
            takes.launch(stream, {BN = 4}, TensorView(x), 3, TensorView(y));
          }).starts_with(take_line + what + "4 < 4 is false"));
  takes.launch(stream, {BN = 4}, TensorView(x), 2, TensorView(y));
  stream.synchronize();
  REQUIRE(y == std::vector<float>{3 + 4 + 7, 3 + 3 + 7, 3 + 2 + 7, 3 + 1 + 7});
  // The last index lies past the end of the tile of indices, where -1 - 1 is no index of the kernel.
  const auto shifted = kernel("shifted", [](View<const float, 1> x, View<const int, 1> at, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(gather(x.tile(i).load(), at.tile(i).load() - 1, BN));
  });
  const std::vector<int> one_based{4, 1, 2};
  y.assign(3, 0);
  shifted.launch(stream, {BN = 4}, TensorView(x), TensorView(one_based), TensorView(y));
  stream.synchronize();
  REQUIRE(y == std::vector<float>{4, 1, 2});
}

TEST_CASE("a position that is known while recording is checked then") {
  std::vector<float> x(4), y(4);
  Stream stream;
  auto launch = [&](std::int64_t position) {
    const auto takes = kernel("takes", [position](View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      y.tile(i).store(broadcast(take(x.tile(i).load(), position, BN), BN));
    });
    takes.launch(stream, {BN = 4}, TensorView(x), TensorView(y));
    stream.synchronize();
  };
  launch(3);
  REQUIRE(error_of([&] { launch(-1); })
              .ends_with("kernel \"takes\": take at -1 is outside the axis, whose positions are 0 to BN - 1; "
                         "to count from the end "
                         "write dim_size(BN) - 1"));
  REQUIRE(error_of([&] { launch(4); }).find("position 4 is outside an axis whose extent is 4") !=
          std::string::npos);
}

TEST_CASE("a position of element and a part of an axis that are known while recording are checked then") {
  std::vector<float> y(8);
  Stream stream;
  auto error = [&](const auto& k) {
    return error_of([&] { k.launch(stream, {}, Grid{1}, TensorView<float, 2>(y.data(), {2, 4})); });
  };
  const auto one = kernel("one", [](View<float, 2> y) {
    Tile t = zeros<float>(2_c, 4_c);
    y.at(0, 0).store(element(t, 1, 4));
  });
  const std::string line = KILN_HERE(-2);
  CHECK(error(one) == line + ": kernel \"one\": take at 4 is outside the axis, whose positions are 0 to 3");
  const auto part = kernel("part", [](View<float, 2> y) {
    Tile t = zeros<float>(2_c, 4_c);
    y.tile(offset(2_c, 0), offset(2_c, 0)).store(narrow(t, 3, 2_c, axis<1>));
  });
  const std::string part_line = KILN_HERE(-2);
  CHECK(error(part) == part_line + ": kernel \"part\": narrow takes 2 elements from position 3 on, but the "
                                   "axis has 4; take fewer, or start at 2 or before");
  const auto whole = kernel("whole", [](View<float, 2> y) {
    Tile t = zeros<float>(2_c, 4_c);
    y.tile(offset(2_c, 0), offset(2_c, 0)).store(narrow(t, 2, 2_c, axis<1>));
  });
  CHECK(error(whole) == "no error");
}

// --- Accesses by an index from memory or from a loop's state, under KILN_DEBUG=1 ---------------------------

namespace {

using Index = std::int64_t;

// The error of a kernel that takes a tensor of 100 elements and an index.
template <class K> std::string checked_error(const K& kernel, Index index) {
  ScopedOptions debug(debugging());
  std::vector<float> y(100, 1);
  std::vector<Index> indices(1, index);
  Stream stream;
  kernel.launch(stream, {}, Grid{1}, TensorView(y), TensorView<const Index, 1>(indices));
  std::string error = error_of([&] { stream.synchronize(); });
  stream.clear_error();
  return error;
}
std::string outside(const std::string& place, const char* what, const char* comparison, const char* kernel,
                    const char* element = "") {
  return place + ": device_assert failed: " + what +
         " by index lies outside the view (parameter 1) along axis 0 (mask it off or fix the index): " +
         comparison + " is false; kernel " + kernel + ", program (0)" + element;
}

} // namespace

TEST_CASE("a single element read or written outside of its view is an error when debugging") {
  const auto read = kernel("read", [](View<float, 1> y, View<const Index, 1> at) {
    y.at(0).store(y.at(at.at(0).load()).load() + 1.f);
  });
  const std::string line = KILN_HERE(-2);
  CHECK(checked_error(read, 100) == outside(line, "a read", "100 < 100", "read"));
  CHECK(checked_error(read, -1) == outside(line, "a read", "-1 >= 0", "read"));
  CHECK(checked_error(read, 99) == "no error");
  const auto write =
      kernel("write", [](View<float, 1> y, View<const Index, 1> at) { y.at(at.at(0).load()).store(1.f); });
  CHECK(checked_error(write, 7000) == outside(KILN_HERE(-1), "a write", "7000 < 100", "write"));
  const auto state_index = kernel("state_index", [](View<float, 1> y, View<const Index, 1> at) {
    auto [a, sum] = for_range(0, 4, 1, state(at.at(0).load(), Scalar<float>(0.f)),
                              [&](auto, auto a, auto sum) { return state(a + 3, sum + y.at(a).load()); });
    y.at(0).store(sum);
  });
  CHECK(checked_error(state_index, 90) == "no error");
  CHECK(checked_error(state_index, 95) == outside(KILN_HERE(-4), "a read", "101 < 100", "state_index"));
  const auto masked = kernel("masked", [](View<float, 1> y, View<const Index, 1> at) {
    Scalar<Index> i = at.at(0).load();
    y.at(i).store(1.f, i < 100);
    y.at(0).store(y.at(i).load(i < 100));
  });
  CHECK(checked_error(masked, 100) == "no error");
}

TEST_CASE("an index outside of a slice or of a view of a pointer is an error when debugging") {
  const auto sliced = kernel("sliced", [](View<float, 1> y, View<const Index, 1> at) {
    y.at(0).store(y.slice(0, 10, 30).at(at.at(0).load()).load() + 1.f);
  });
  const std::string slice_line = KILN_HERE(-2);
  CHECK(checked_error(sliced, 19) == "no error");
  const std::string error = checked_error(sliced, 20);
  CHECK(error == slice_line +
                     ": device_assert failed: a read by index lies outside the view (a slice of parameter 1) "
                     "along axis 0 (mask it off or fix the index): 20 < 20 is false; kernel sliced, program "
                     "(0)");
  const auto made = kernel("made", [](View<float, 1> y, View<const Index, 1> at) {
    raw::view(y.data(), {50}).at(at.at(0).load()).atomic_add(1.f);
  });
  CHECK(checked_error(made, 49) == "no error");
  CHECK(checked_error(made, 50).find(
            "an atomic by index lies outside the view (a view of a pointer) along axis 0") !=
        std::string::npos);
}

TEST_CASE("an atomic outside of its view is an error when debugging") {
  const auto add = kernel("add", [](View<float, 1> y, View<const Index, 1> at) {
    Tile i = at.at(0).load() + arange(4_c);
    y.at(i).atomic_add(full(1.f, 4_c));
  });
  CHECK(checked_error(add, 98) == outside(KILN_HERE(-2), "an atomic", "100 < 100", "add", ", element 2"));
  CHECK(checked_error(add, 96) == "no error");
  const auto masked = kernel("masked_add", [](View<float, 1> y, View<const Index, 1> at) {
    Tile i = at.at(0).load() + arange(4_c);
    y.at(i).atomic_add(full(1.f, 4_c), i < 100);
  });
  CHECK(checked_error(masked, 98) == "no error");
  const auto one =
      kernel("one", [](View<float, 1> y, View<const Index, 1> at) { y.at(at.at(0).load()).atomic_max(3.f); });
  CHECK(checked_error(one, -5) == outside(KILN_HERE(-1), "an atomic", "-5 >= 0", "one"));
}

TEST_CASE("an index of a whole row is reported with its value and its place in the tile") {
  ScopedOptions debug(debugging());
  const auto scatter = kernel("scatter_rows", [](View<float, 2> y, View<const Index, 1> rows) {
    Tile r = rows.at(arange(4_c)).load();
    y.at(expand<1>(r), expand<0>(arange(8_c))).store(full(1.f, 4_c, 8_c));
  });
  const std::string line = KILN_HERE(-2);
  std::vector<float> y(5 * 8, 0);
  std::vector<Index> rows{0, 4, 5, 1};
  Stream stream;
  scatter.launch(stream, {}, Grid{1}, TensorView<float, 2>(y.data(), {5, 8}),
                 TensorView<const Index, 1>(rows));
  CHECK(error_of([&] { stream.synchronize(); }) ==
        line +
            ": device_assert failed: a write by index lies outside the view (parameter 1) along axis 0 (mask "
            "it off or fix the index): 5 < 5 is false; kernel scatter_rows, program (0), element (2, 0)");
  stream.clear_error();
}
