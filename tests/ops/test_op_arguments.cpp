// Tests the errors of ops: results that overlap an input or themselves, and extents that do not match.
#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// The text of the error after its location, which is the line of `call` or, where the call is wrapped, the
// next one.
template <class F>
std::string error_of(const F& call, std::source_location here = std::source_location::current()) {
  std::string text;
  try {
    call();
  } catch (const UserError& e) {
    text = e.what();
  }
  for (unsigned line : {here.line(), here.line() + 1}) {
    std::string place = std::string(here.file_name()) + ":" + std::to_string(line) + ": ";
    if (text.starts_with(place)) return text.substr(place.size());
  }
  return text.empty() ? "no error" : text;
}

} // namespace

TEST_CASE("ops name the line of their caller for extents that do not match") {
  Stream stream;
  Matrix<float> x(3, 5), y(3, 4);
  std::vector<float> one(4);
  TensorView<const float, 1> v(one);
  const std::string ends = "; pass tensors whose extents match";
  CHECK(error_of([&] { ops::matmul(stream, x.view(), y.view(), y.view()); }) ==
        std::string("ops::matmul: a's columns and b's rows differ: 5 != 3") + ends);
  CHECK(error_of([&] { ops::linear(stream, x.view(), x.view().transpose(), v, y.view()); }) ==
        std::string("ops::linear: weight's columns and y's columns differ: 3 != 4") + ends);
  CHECK(error_of([&] { ops::softmax(stream, x.view(), y.view()); }) ==
        "ops::softmax: x has extents {3, 5} and y {3, 4}; pass tensors of the same extents");
  CHECK(error_of([&] { ops::layernorm(stream, x.view(), v, v, x.view()); }) ==
        std::string("ops::layernorm: gamma's size and the extent of x's last axis differ: 4 != 5") + ends);
  CHECK(error_of([&] { ops::rmsnorm(stream, x.view(), v, x.view()); }) ==
        std::string("ops::rmsnorm: gamma's size and the extent of x's last axis differ: 4 != 5") + ends);
  CHECK(error_of([&] { ops::activation(stream, x.view(), y.view(), ops::Activation::relu); }) ==
        "ops::activation: x, {3, 5}, does not broadcast to y, {3, 4}; pass extents that are equal or 1");
  CHECK(error_of([&] { ops::activation_mul(stream, y.view(), x.view(), y.view()); }) ==
        "ops::activation_mul: up, {3, 5}, does not broadcast to y, {3, 4}; pass extents that are equal or 1");
}

TEST_CASE("a result that overlaps an input is a user error") {
  Stream stream;
  std::vector<float> memory(200), other(64);
  TensorView<float, 2> x(memory.data(), {8, 8}), w(other.data(), {8, 8});
  TensorView<float, 2> late(memory.data() + 63, {8, 8});
  TensorView<float, 1> bias(memory.data() + 3, {8}), first_row(memory.data(), {8});
  auto apart = [](const char* c, const char* a) {
    return std::string(c) + " overlaps " + a +
           ", which is read while it is written; give it memory of its own";
  };
  auto same = [](const char* y, const char* a) {
    return std::string(y) + " overlaps " + a + " without being the same; pass " + a +
           " itself, or memory of its own";
  };
  CHECK(error_of([&] { ops::matmul(stream, x, w, x); }) == std::string("ops::matmul: ") + apart("c", "a"));
  CHECK(error_of([&] { ops::matmul(stream, w, x, late); }) == std::string("ops::matmul: ") + apart("c", "b"));
  CHECK(error_of([&] { ops::linear(stream, w, w, bias, x); }) ==
        std::string("ops::linear: ") + apart("y", "bias"));
  CHECK(error_of([&] { ops::softmax(stream, x, late); }) == std::string("ops::softmax: ") + same("y", "x"));
  CHECK(error_of([&] { ops::softmax(stream, x, x.transpose()); }) ==
        std::string("ops::softmax: ") + same("y", "x"));
  CHECK(error_of([&] { ops::layernorm(stream, x, bias, first_row, w); }) == "no error");
  CHECK(error_of([&] { ops::layernorm(stream, x, first_row, first_row, x); }) ==
        std::string("ops::layernorm: ") + apart("y", "gamma"));
  CHECK(error_of([&] { ops::rmsnorm(stream, w, bias, x); }) ==
        std::string("ops::rmsnorm: ") + apart("y", "gamma"));
  stream.synchronize();
}

TEST_CASE("a result with several indices for one element is a user error") {
  Stream stream;
  std::vector<float> memory(64), other(64);
  TensorView<float, 2> x(other.data(), {8, 8});
  for (auto [rows, columns] : {std::pair{0, 1}, {1, 1}, {7, 1}, {1, 0}, {2, 3}, {-1, 1}}) {
    TensorView<float, 2> y(memory.data() + 8, {8, 8}, {rows, columns});
    const std::string text = "with extents {8, 8} and strides {" + std::to_string(rows) + ", " +
                             std::to_string(columns) +
                             "} has several indices for one element; write to a view without them";
    CHECK(error_of([&] { ops::softmax(stream, x, y); }) == std::string("ops::softmax: y ") + text);
    CHECK(error_of([&] { ops::matmul(stream, x, x, y); }) == std::string("ops::matmul: c ") + text);
    CHECK(error_of([&] { ops::activation(stream, x, y, ops::Activation::relu); }) ==
          std::string("ops::activation: y ") + text);
  }
  stream.synchronize();
}

TEST_CASE("interleaved parts of one array do not overlap") {
  Stream stream;
  Random random;
  KILN_SEED(random);
  Matrix<float> all(16, 48);
  all.fill(random);
  auto part = [&](int i) { return all.view().slice(1, 16 * i, 16 * i + 16); };
  Matrix<float> expected(16, 16);
  ops::matmul(stream, part(0), part(1), expected.view());
  ops::matmul(stream, part(0), part(1), part(2));
  ops::softmax(stream, part(0), part(0)); // in place
  ops::softmax(stream, part(0), part(1));
  stream.synchronize();
  for (std::int64_t r = 0; r < 16; ++r)
    for (std::int64_t c = 0; c < 16; ++c)
      REQUIRE(part(2)(r, c) == expected(r, c));
}
