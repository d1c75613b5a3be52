// Tests how shapes are parsed, valid and invalid ones.
#include <kiln/autotune/space/shape.h>
#include <kiln/dsl/error.h>

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;

namespace {

const Sizes matmul = {{"M", 1}, {"N", 2}, {"K", 3}};

std::string refusal(const std::string& shape) {
  try {
    has_names(shape) ? named_sizes(shape) : sizes_in_order(shape, "matmul", matmul);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

} // namespace

TEST_CASE("a shape lists sizes with names, or all sizes of a kernel in order") {
  CHECK(named_sizes("M=512,K=7") == Sizes{{"M", 512}, {"K", 7}});
  CHECK(named_sizes("").empty());
  CHECK(sizes_in_order("4x5x0", "matmul", matmul) == Sizes{{"M", 4}, {"N", 5}, {"K", 0}});
  CHECK(shape_of({.sizes = matmul, .kind = "f32"}) == "M=1,N=2,K=3");
  CHECK(named_sizes(shape_of({.sizes = matmul, .kind = "f32"})) == matmul);
}

TEST_CASE("a shape is rejected if a part, empty or not, is not a size") {
  const std::string number = "; write a whole number from 0 to 2^63 - 1";
  CHECK(refusal("M=1,,N=2") == "--shape M=1,,N=2: \"\" is not NAME=SIZE; write M=512,N=512,K=512");
  CHECK(refusal("M=1,") == "--shape M=1,: \"\" is not NAME=SIZE; write M=512,N=512,K=512");
  CHECK(refusal("M=1,5") == "--shape M=1,5: \"5\" is not NAME=SIZE; write M=512,N=512,K=512");
  CHECK(refusal("=5") == "--shape =5: \"=5\" is not NAME=SIZE; write M=512,N=512,K=512");
  CHECK(refusal("M=") == "--shape M=: M is \"\"" + number);
  CHECK(refusal("M=-1") == "--shape M=-1: M is \"-1\"" + number);
  CHECK(refusal("M=99999999999999999999") ==
        "--shape M=99999999999999999999: M is \"99999999999999999999\"" + number);
  CHECK(refusal("M=1,M=2") == "--shape M=1,M=2: it has M twice; write one of them");
  CHECK(refusal("4xx6") == "--shape 4xx6: N is \"\"" + number);
  CHECK(refusal("4x5x") == "--shape 4x5x: K is \"\"" + number);
  const std::string all = "matmul has 3 sizes: M, N, K; write all of them, separated by x, or NAME=SIZE,...";
  CHECK(refusal("4x5") == "--shape 4x5: " + all);
  CHECK(refusal("4x5x6x") == "--shape 4x5x6x: " + all);
}
