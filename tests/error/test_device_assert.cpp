// Asserts of kernels: under KILN_DEBUG they end the launch, otherwise they cost nothing.
#include "error_test.h"

#include <kiln/jit/runtime/options.h>

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
          line + ": device_assert failed: x is not negative; kernel checked, program (1), element 2");
  // It stays until it is cleared.
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
