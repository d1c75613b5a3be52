// Tests that KILN_DEBUG=1 reports offsets of groups that decrease or leave the rows.
#include "error/error_test.h"

#include <kiln/jit/base/options.h>

using namespace kiln;
using kiln::test::error_of;

namespace {
Options debugging() {
  Options o = options();
  o.debug = true;
  return o;
}
} // namespace

TEST_CASE("offsets of groups that decrease or leave the rows are errors of the stream") {
  ScopedOptions debug(debugging());
  auto a = Tensor<float, 2>::zeros({5, 3}), c = Tensor<float, 2>::zeros({5, 4});
  auto b = Tensor<float, 3>::zeros({3, 3, 4});
  auto offsets = Tensor<int, 1>::zeros({4});
  const auto run = [&](std::vector<int> values, bool backward) {
    std::copy(values.begin(), values.end(), offsets.data());
    return error_of([&] {
      Stream stream;
      if (backward)
        ops::grouped_matmul_backward_b(stream, a, c, offsets, b);
      else
        ops::grouped_matmul(stream, a, b, offsets, c);
      stream.synchronize();
    });
  };
  for (const bool backward : {false, true}) {
    CHECK(run({0, 2, 2, 5}, backward) == "no error");
    CHECK(run({1, 2, 3, 3}, backward) == "no error");
    for (const std::vector<int>& wrong : {std::vector{0, 3, 2, 5}, {-1, 2, 2, 5}, {0, 2, 2, 6}}) {
      const std::string error = run(wrong, backward);
      CHECK(error.find("device_assert failed: offsets decrease or leave the rows; pass offsets that "
                       "ops::group_by_expert computed") != error.npos);
    }
  }
}
