// Tests the error of a launch of a kernel that is a global variable, before its initialisation.
#include "error_test.h"

using namespace kiln;

namespace {

KILN_DIM(BN);

std::string early_error();
const std::string error =
    early_error(); // is initialised before `late`, as it may be from another source file
const auto late = kernel("late", [](View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(ones<float>(BN));
});

std::string early_error() {
  std::vector<float> y(4);
  Stream stream;
  return test::error_of([&] {
    late.launch(stream, {BN = 4}, TensorView(y));
    stream.synchronize();
  });
}

} // namespace

TEST_CASE("a kernel that is used before it is made is an error with the line of the launch") {
  CHECK(error ==
        test::place(__FILE__, 22) +
            ": a kernel is used before it is made: it is a global variable, and the initialisation of "
            "another global variable uses it, which C++ runs first; use the kernel after main() has "
            "begun, or make it in a function, static const auto k = kernel(...)");
  std::vector<float> y(4);
  Stream stream;
  late.launch(stream, {BN = 4}, TensorView(y));
  stream.synchronize();
  CHECK(y == std::vector<float>(4, 1));
}
