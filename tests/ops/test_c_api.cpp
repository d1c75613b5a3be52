// Tests the C functions on DLPack tensors: their results, compared with double precision, and their errors.
#include "op_test.h"

#include <kiln/ops/c_api.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// A DLTensor of a matrix, or of the only row of one.
template <class T> struct Dl {
  std::int64_t shape[2], strides[2];
  DLTensor tensor{};
  explicit Dl(Matrix<T>& m, bool vector = false)
      : shape{m.rows(), m.cols()}, strides{m.view().stride(0), m.view().stride(1)} {
    tensor.data = m.view().data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = vector ? 1 : 2;
    tensor.dtype = {std::is_same_v<T, bf16> ? std::uint8_t{kDLBfloat} : std::uint8_t{kDLFloat}, 8 * sizeof(T),
                    1};
    tensor.shape = shape + vector;
    tensor.strides = strides + vector;
  }
  operator DLTensor*() { return &tensor; }
};

} // namespace

TEMPLATE_TEST_CASE("the C functions compute what the ops compute", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  std::int64_t m = random.integer(1, 60), n = random.integer(1, 60), k = random.integer(1, 60);
  Matrix<TestType> a(m, k, Lie::transposed), b(k, n, Lie::padded_rows), bias(1, n), c(m, n), expected(m, n);
  a.fill(random), b.fill(random), bias.fill(random);
  Stream stream;
  auto same = [&] {
    stream.synchronize();
    CHECK(relative_error(c, [&](auto r, auto q) { return wide(expected(r, q)); }) == 0);
    c.poison(), expected.poison();
  };
  c.poison(), expected.poison();
  auto row = [](auto& v) { return v.view().select(0, 0); };

  REQUIRE(kiln_matmul(Dl(a), Dl(b), Dl(c)) == KILN_OK);
  ops::matmul(stream, a.view(), b.view(), expected.view());
  same();
  REQUIRE(kiln_linear(Dl(a), Dl(b), Dl(bias, true), Dl(c), "gelu") == KILN_OK);
  ops::linear(stream, a.view(), b.view(), row(bias), expected.view(), {ops::Activation::gelu});
  same();
  Matrix<TestType> x(m, n), beta(1, n);
  x.fill(random), beta.fill(random);
  REQUIRE(kiln_softmax(Dl(x), Dl(c)) == KILN_OK);
  ops::softmax(stream, x.view(), expected.view());
  same();
  REQUIRE(kiln_layernorm(Dl(x), Dl(bias, true), Dl(beta, true), Dl(c), 1e-3) == KILN_OK);
  ops::layernorm(stream, x.view(), row(bias), row(beta), expected.view(), {1e-3});
  same();
  REQUIRE(kiln_rmsnorm(Dl(x), Dl(bias, true), Dl(c), 1e-3) == KILN_OK);
  ops::rmsnorm(stream, x.view(), row(bias), expected.view(), {1e-3});
  same();
  REQUIRE(kiln_activation(Dl(x), Dl(c), "relu") == KILN_OK);
  ops::activation(stream, x.view(), expected.view(), ops::Activation::relu);
  same();
  REQUIRE(kiln_activation_mul(Dl(x), Dl(x), Dl(c), "silu") == KILN_OK);
  ops::activation_mul(stream, x.view(), x.view(), expected.view());
  same();
  CHECK(std::string(kiln_last_error()).empty());
}

TEST_CASE("a DLPack tensor without strides is row-major, and its byte offset counts") {
  std::vector<float> x = {9, 9, 1, 2, 3, 4, 5, 6}, y(6, NAN);
  std::int64_t shape[] = {2, 3};
  DLTensor of_x{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 8};
  DLTensor of_y{y.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  REQUIRE(kiln_activation(&of_x, &of_y, "none") == KILN_OK);
  CHECK(y == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("the C functions report wrong arguments, and say why") {
  Matrix<float> x(4, 5), y(4, 5), narrow(4, 3);
  Matrix<double> other(4, 5);
  Dl<float> dx(x), dy(y), wrong(x);
  auto says = [](int code, const char* text) {
    CHECK(code == KILN_USER_ERROR);
    CHECK_THAT(kiln_last_error(), Catch::Contains(text));
  };
  says(kiln_softmax(nullptr, dy), "kiln_softmax: x is null; pass a tensor");
  says(kiln_softmax(dx, nullptr), "kiln_softmax: y is null; pass a tensor");
  CHECK(kiln_softmax(Dl(other), dy) == KILN_OK); // each tensor has a dtype of its own
  says(kiln_softmax(Dl(narrow), dy), "kiln_softmax: x has extents {4, 3} and y {4, 5}");
  says(kiln_softmax(Dl(x, true), dy), "kiln_softmax: x has extents {5} and y {4, 5}");
  says(kiln_activation(dx, dy, "swish"),
       "kiln_activation: activation is \"swish\"; choose none, relu, gelu or silu");
  wrong.tensor.device = {kDLCUDA, 0};
  says(kiln_softmax(wrong, dy), "kiln_softmax: x is on cuda:0 and the result on cpu; copy one of them");
  wrong.tensor.dtype = {kDLInt, 32, 1};
  says(kiln_softmax(dx, wrong), "kiln_softmax: y has DLPack type code 0 of 32 bits and 1 lanes; pass "
                                "float32, float64, bfloat16 or float16");
  CHECK(kiln_softmax(dx, dy) == KILN_OK);
  CHECK(std::string(kiln_last_error()).empty());
}

TEST_CASE("the C functions name the argument whose memory they do not accept") {
  Matrix<float> x(4, 5), y(4, 5);
  Dl<float> dx(x), dy(y);
  auto says = [](int code, const std::string& text) {
    CHECK(code == KILN_USER_ERROR);
    CHECK(kiln_last_error() == text);
  };
  Dl<float> wrong(x);
  wrong.tensor.shape = nullptr;
  says(kiln_softmax(wrong, dy), "kiln_softmax: x has no shape: it is null; set it to the extents");
  wrong = Dl<float>(y);
  wrong.tensor.shape = wrong.shape;
  wrong.tensor.strides = nullptr;
  wrong.tensor.data = nullptr;
  wrong.tensor.byte_offset = 64;
  says(kiln_softmax(dx, wrong),
       "kiln_softmax: y's 'data' is null with extents {4, 5}; pass the array, or an extent of zero");
  wrong.tensor.data = y.view().data();
  wrong.tensor.byte_offset = 2;
  says(kiln_activation(dx, wrong, "relu"), "kiln_activation: y's 'data' is not a multiple of 4 bytes, which "
                                           "its elements need; align the array");
  wrong.tensor.byte_offset = 0;
  wrong.shape[0] = -4;
  says(kiln_softmax(wrong, dy), "kiln_softmax: x's 'extents': extent 0 is -4; extents must not be negative");
  Matrix<float> narrow(4, 3);
  says(kiln_softmax(Dl(narrow), dy),
       "kiln_softmax: x has extents {4, 3} and y {4, 5}; pass tensors of the same extents");
  Matrix<float> square(4, 4);
  Dl<float> s(square);
  says(kiln_matmul(s, s, s),
       "kiln_matmul: c overlaps a, which is read while it is written; give it memory of its own");
}
