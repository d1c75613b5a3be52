// Tests errors of launch arguments: each is detected on the host, before anything runs.
#include "error_test.h"

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {

const auto fill = kernel("fill", [](View<float, 2> x) {
  auto [i, j] = program_tile(x, 1_c, BN);
  x.tile(i, j).store(1.0f);
});
const std::string title = "kernel \"fill\" (" + KILN_HERE(-4) + ")";

// Launches with a view that bypasses the checks of TensorView's constructor.
std::string launch_error(float* data, std::int64_t rows, std::int64_t columns, std::int64_t row_stride) {
  TensorView<float, 2> x;
  struct Raw { // the members of a TensorView
    float* data;
    std::int64_t extents[2], strides[2];
  } raw{data, {rows, columns}, {row_stride, 1}};
  static_assert(sizeof raw == sizeof x);
  std::memcpy(static_cast<void*>(&x), &raw, sizeof raw);
  Stream stream;
  return error_of([&] { fill.launch(stream, {BN = 16}, x); });
}
const std::string call = KILN_HERE(-2) + ": " + title;

} // namespace

TEST_CASE("a null pointer with elements is refused") {
  REQUIRE(launch_error(nullptr, 2, 3, 3) ==
          call + ": argument 1 is null with extents {2, 3}; pass the array, or an extent of zero");
}

TEST_CASE("a misaligned pointer is refused") {
  alignas(16) char bytes[256] = {};
  REQUIRE(launch_error(reinterpret_cast<float*>(bytes + 2), 2, 3, 3) ==
          call +
              ": argument 1 points to an address that is not a multiple of 4 bytes, the size of f32; align "
              "the array");
}

TEST_CASE("a negative extent is refused") {
  float x = 0;
  REQUIRE(launch_error(&x, -2, 3, 3) ==
          call + ": argument 1 has extents {-2, 3}; extents must not be negative");
}

TEST_CASE("extents and strides that overflow are refused") {
  float x = 0;
  std::int64_t large = std::int64_t{1} << 62;
  REQUIRE(launch_error(&x, large, 4, 4) ==
          call + ": argument 1 with extents {4611686018427387904, 4} and strides {4, 1} reaches past 64-bit "
                 "offsets; check both");
  REQUIRE(launch_error(&x, 3, 4, large) ==
          call + ": argument 1 with extents {3, 4} and strides {4611686018427387904, 1} reaches past 64-bit "
                 "offsets; check both");
}

TEST_CASE("an empty view may be null") { REQUIRE(launch_error(nullptr, 0, 3, 3) == "no error"); }

TEST_CASE("a misaligned raw pointer is refused") {
  auto k = kernel("raw", [](raw::Ptr<double> p) { raw::store(p, 1.0); });
  std::string made = KILN_HERE(-1);
  alignas(16) char bytes[64] = {};
  Stream stream;
  const std::string site = KILN_HERE(1);
  auto error = error_of([&] { k.launch(stream, {}, Grid{1}, reinterpret_cast<double*>(bytes + 4)); });
  REQUIRE(
      error ==
      site + ": kernel \"raw\" (" + made +
          "): argument 1 points to an address that is not a multiple of 8 bytes, the size of f64; align the "
          "array");
}

TEST_CASE("an argument that does not have the pinned layout class of its View is refused") {
  auto k = kernel("copy", [](View<const float, 2, LayoutClass::Unit> x, View<float, 2> out) {
    auto [i, j] = program_tile(out, 1_c, BN);
    out.tile(i, j).store(x.tile(i, j).load());
  });
  std::string made = KILN_HERE(-4);
  std::vector<float> x(36), out(36);
  TensorView a(x, {6, 6}), b(out, {6, 6});
  Stream stream;
  const std::string site = KILN_HERE(1);
  auto error = error_of([&] { k.launch(stream, {BN = 8}, a.transpose(), b); });
  REQUIRE(
      error ==
      site + ": kernel \"copy\" (" + made +
          "): argument 1 has layout class Any and the View parameter is pinned to Unit; pass a view whose "
          "last stride is 1");
}

TEST_CASE("a number that its Scalar cannot hold is refused") {
  auto k = kernel("scale", [](View<float, 1> x, Scalar<std::int32_t> n, Scalar<float> f) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(cast<float>(n) * f);
  });
  const std::string made = " (" + KILN_HERE(-4) + "): argument ";
  std::vector<float> x(4);
  Stream stream;
  std::string site = KILN_HERE(1);
  auto error = error_of([&] { k.launch(stream, {BN = 4}, TensorView(x), std::int64_t{1} << 31, 1.0f); });
  REQUIRE(error == site + ": kernel \"scale\"" + made +
                       "2, the number 2147483648, does not fit a Scalar of i32; pass a number that it holds "
                       "exactly");
  site = KILN_HERE(1);
  error = error_of([&] { k.launch(stream, {BN = 4}, TensorView(x), 1, (1 << 24) + 1); });
  REQUIRE(error == site + ": kernel \"scale\"" + made +
                       "3, the number 16777217, does not fit a Scalar of f32; pass a number that it holds "
                       "exactly");
  REQUIRE(error_of([&] { k.launch(stream, {BN = 4}, TensorView(x), std::size_t{3}, -2); }) == "no error");
  stream.synchronize();
  REQUIRE(x == std::vector<float>(4, -6.0f));
}

TEST_CASE("a failed expects is reported with both values, and nothing runs") {
  auto k = kernel("add", [](View<const float, 1> x, View<float, 1> out) {
    expects(x.extent(0) == out.extent(0), "x and out");
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load());
  });
  std::string line = KILN_HERE(-4);
  std::vector<float> x(5, 1), out(7, 2);
  Stream stream;
  REQUIRE(error_of([&] { k.launch(stream, {BN = 8}, TensorView(x), TensorView(out)); }) ==
          line + ": expects failed: x and out: 5 != 7");
  stream.synchronize();
  REQUIRE(out == std::vector<float>(7, 2));
}

TEST_CASE("a null raw pointer is refused unless nothing runs") {
  std::string error, line;
  const auto fill = kernel("fill", [](raw::Ptr<float> p) { raw::store(p + arange(4_c), full(1.f, 4_c)); });
  const std::string made = KILN_HERE(-1);
  Stream stream;
  float* null = nullptr;
  error = error_of([&] { fill.launch(stream, {}, Grid{1}, null); });
  line = KILN_HERE(-1);
  CHECK(error ==
        line + ": kernel \"fill\" (" + made +
            "): argument 1 is a null pointer; pass the array, or any other pointer if every access is "
            "masked off");
  fill.launch(stream, {}, Grid{0}, null);
  stream.synchronize();
}
