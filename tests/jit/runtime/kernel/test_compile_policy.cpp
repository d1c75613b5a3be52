// Tests the compile policy: the errors of a forbidden compilation, and which launches are allowed.
#include "error/error_test.h"

#include <kiln/jit/base/log.h>

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {
auto make_fill(float value) { // with a new value, the kernel is not in any cache
  return kernel("fill", [value](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(value);
  });
}
const std::string made = KILN_HERE(-5);
float fresh_value() {
  static float next =
      static_cast<float>(std::chrono::system_clock::now().time_since_epoch().count() % 1000003);
  return next += 0.5f;
}
} // namespace

TEST_CASE("the error of a forbidden compilation names the kernel, the config, the classes and what to do") {
  auto k = make_fill(fresh_value());
  std::vector<float> x(7);
  Stream stream;
  ScopedCompilePolicy policy(CompilePolicy::forbid);
  REQUIRE(error_of([&] { k.launch(stream, {BN = 4}, TensorView(x).slice(0, 1, 5)); }) ==
          made + ": kernel fill is not compiled for the config {BN=4}, layout classes (unit) on cpu, and the "
                 "compile policy forbids compiling it; call warm_up first, or ship the cache folder");
}

TEST_CASE("kernels that warm_up compiled can be launched when compiling is forbidden") {
  auto k = make_fill(fresh_value());
  auto before = compile_statistics().compiled;
  k.warm_up(Device::cpu(), {BN = 4}, {LayoutClass::Aligned});
  k.warm_up(Device::cpu(), {BN = 4}, {LayoutClass::Unit});
  REQUIRE(compile_statistics().compiled == before + 2);
  ScopedCompilePolicy policy(CompilePolicy::forbid);
  std::vector<float> x(7);
  Stream stream;
  k.launch(stream, {BN = 4}, TensorView(x));
  k.launch(stream, {BN = 4}, TensorView(x).slice(0, 1, 5));
  stream.synchronize();
  REQUIRE(x[6] != 0);
  REQUIRE(error_of([&] { k.warm_up(Device::cpu(), {BN = 4}, {}); }) == "no error");
}

TEST_CASE("the policy warn logs each compilation") {
  auto k = make_fill(fresh_value());
  LogCapture log;
  ScopedCompilePolicy policy(CompilePolicy::warn);
  k.warm_up(Device::cpu(), {BN = 4});
  k.warm_up(Device::cpu(), {BN = 4});
  REQUIRE(
      log.lines() ==
      std::vector<std::string>{
          "warning: kernel fill is not compiled for the config {BN=4}, layout classes (aligned) on cpu and "
          "is compiled now"});
}

TEST_CASE("warm_up needs a layout class for each view") {
  auto k = make_fill(1);
  std::string title = "kernel \"fill\" (" + made + ")";
  const std::string site = KILN_HERE(1);
  auto error = error_of([&] { k.warm_up(Device::cpu(), {BN = 4}, {LayoutClass::Any, LayoutClass::Any}); });
  REQUIRE(
      error ==
      site + ": " + title +
          ": 2 layout classes are given, and the kernel has 1 View parameters; give one for each, or none");
}
