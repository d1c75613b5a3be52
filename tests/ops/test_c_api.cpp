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

TEMPLATE_TEST_CASE("the C functions for attention, dropout and gradients compute what the ops compute", "",
                   float, bf16) {
  Random random;
  KILN_SEED(random);
  using T = TestType;
  const std::int64_t m = random.integer(1, 40), n = random.integer(1, 40), k = random.integer(1, 40);
  Matrix<T> x(m, n, Lie::padded_rows), gate(m, n), dy(m, n, Lie::transposed), gamma(1, n), y(m, n),
      other(m, n);
  Matrix<T> v(1, n), w(1, n), of_v(1, n), of_w(1, n);
  x.fill(random), gate.fill(random), dy.fill(random), gamma.fill(random);
  Stream stream;
  const auto row = [](auto& one) { return one.view().select(0, 0); };
  const auto equal = [](const auto& got, const auto& expected) {
    return relative_error(got, [&](auto r, auto c) { return wide(expected(r, c)); }) == 0;
  };
  // Results of the C function are y, v and w; those of the op are other, of_v and of_w.
  const auto clear = [&] {
    y.poison(), other.poison();
    for (Matrix<T>* one : {&v, &w, &of_v, &of_w})
      one->poison();
  };
  const auto same = [&] {
    stream.synchronize();
    CHECK(equal(y, other));
    clear();
  };
  clear();

  REQUIRE(kiln_log_softmax(Dl(x), Dl(y)) == KILN_OK);
  ops::log_softmax(stream, x.view(), other.view());
  same();
  REQUIRE(kiln_softmax_backward(Dl(x), Dl(dy), Dl(y)) == KILN_OK);
  ops::softmax_backward(stream, x.view(), dy.view(), other.view());
  same();
  REQUIRE(kiln_log_softmax_backward(Dl(x), Dl(dy), Dl(y)) == KILN_OK);
  ops::log_softmax_backward(stream, x.view(), dy.view(), other.view());
  same();
  REQUIRE(kiln_dropout(Dl(x), Dl(y), 0.25, 77) == KILN_OK);
  ops::dropout(stream, x.view(), other.view(), {.probability = 0.25, .seed = 77});
  same();
  REQUIRE(kiln_activation_backward(Dl(x), Dl(dy), Dl(y), "silu") == KILN_OK);
  ops::activation_backward(stream, x.view(), dy.view(), other.view(), ops::Activation::silu);
  same();
  REQUIRE(kiln_activation_mul_backward(Dl(x), Dl(gate), Dl(dy), nullptr, Dl(y), "gelu") == KILN_OK);
  ops::activation_mul_backward(stream, x.view(), gate.view(), dy.view(), {}, other.view(),
                               ops::Activation::gelu);
  same();
  REQUIRE(kiln_activation_mul_backward(Dl(x), Dl(gate), Dl(dy), Dl(y), nullptr, "gelu") == KILN_OK);
  ops::activation_mul_backward(stream, x.view(), gate.view(), dy.view(), other.view(), {},
                               ops::Activation::gelu);
  same();

  REQUIRE(kiln_layernorm_backward(Dl(x), Dl(gamma, true), Dl(dy), Dl(y), Dl(v, true), Dl(w, true), 1e-3) ==
          KILN_OK);
  ops::layernorm_backward(stream, x.view(), row(gamma), dy.view(), other.view(), row(of_v), row(of_w),
                          {.eps = 1e-3});
  stream.synchronize();
  CHECK((equal(v, of_v) && equal(w, of_w)));
  same();
  REQUIRE(kiln_rmsnorm_backward(Dl(x), nullptr, Dl(dy), Dl(y), Dl(v, true), 1e-3) == KILN_OK);
  ops::rmsnorm_backward(stream, x.view(), {}, dy.view(), other.view(), row(of_v), {.eps = 1e-3});
  stream.synchronize();
  CHECK(equal(v, of_v));
  same();

  Matrix<T> a(m, k, Lie::transposed), b(k, n), da(m, k), db(k, n), of_a(m, k), of_b(k, n);
  a.fill(random), b.fill(random);
  REQUIRE(kiln_matmul_backward(Dl(a), Dl(b), Dl(dy), Dl(da), Dl(db)) == KILN_OK);
  ops::matmul_backward(stream, a.view(), b.view(), dy.view(), of_a.view(), of_b.view());
  stream.synchronize();
  CHECK((equal(da, of_a) && equal(db, of_b)));
  da.poison(), db.poison();
  REQUIRE(kiln_linear_backward(Dl(a), Dl(b), Dl(x), Dl(dy), Dl(da), Dl(db), Dl(v, true), "gelu") == KILN_OK);
  ops::matmul_backward(stream, a.view(), b.view(), dy.view(), of_a.view(), of_b.view(),
                       {.activation = ops::Activation::gelu, .before = x.view(), .dbias = row(of_v)});
  stream.synchronize();
  CHECK((equal(da, of_a) && equal(db, of_b) && equal(v, of_v)));

  // q, k and v of one head
  Matrix<T> q(m, k), keys(m, k), o(m, n), of_o(m, n);
  Matrix<float> lse(1, m), of_lse(1, m);
  q.fill(random), keys.fill(random), o.poison(), of_o.poison(), lse.poison();
  REQUIRE(kiln_attention(Dl(q), Dl(keys), Dl(x), Dl(o), nullptr) == KILN_OK);
  ops::attention(stream, q.view(), keys.view(), x.view(), of_o.view());
  stream.synchronize();
  CHECK(equal(o, of_o));
  Dl<float> of_sums(lse, true);
  KilnAttentionOptions options = KILN_ATTENTION_DEFAULTS;
  options.scale = 0.5, options.causal = 1, options.align_last = 1, options.window_before = 3,
  options.soft_cap = 2;
  options.lse = of_sums;
  REQUIRE(kiln_attention(Dl(q), Dl(keys), Dl(x), Dl(o), &options) == KILN_OK);
  ops::attention(stream, q.view(), keys.view(), x.view(), of_o.view(),
                 {.scale = 0.5,
                  .causal = true,
                  .alignment = ops::CausalAlignment::last,
                  .window_before = 3,
                  .soft_cap = 2,
                  .lse = row(of_lse)});
  stream.synchronize();
  CHECK((equal(o, of_o) && equal(lse, of_lse)));
  Matrix<T> dq(m, k), dk(m, k), of_q(m, k), of_k(m, k);
  dq.poison(), dk.poison();
  options.lse = nullptr;
  REQUIRE(kiln_attention_backward(Dl(dy), Dl(q), Dl(keys), Dl(x), Dl(o), of_sums, Dl(dq), Dl(dk), Dl(y),
                                  &options) == KILN_OK);
  ops::attention_backward(stream, dy.view(), q.view(), keys.view(), x.view(), o.view(), row(lse), of_q.view(),
                          of_k.view(), other.view(),
                          {.scale = 0.5,
                           .causal = true,
                           .alignment = ops::CausalAlignment::last,
                           .window_before = 3,
                           .soft_cap = 2});
  stream.synchronize();
  CHECK((equal(dq, of_q) && equal(dk, of_k)));
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
  says(kiln_layernorm_backward(dx, nullptr, dy, nullptr, nullptr, nullptr, 1e-5),
       "kiln_layernorm_backward: no result is given; pass dx, dgamma or dbeta");
  says(kiln_layernorm_backward(dx, nullptr, nullptr, dy, nullptr, nullptr, 1e-5),
       "kiln_layernorm_backward: dy is null; pass a tensor");
  says(kiln_rmsnorm_backward(nullptr, nullptr, nullptr, nullptr, nullptr, 1e-5),
       "kiln_rmsnorm_backward: the gradient of the result is null; pass a tensor");
  says(kiln_linear_backward(dx, dx, nullptr, dx, dy, nullptr, nullptr, "gelu"), "kiln_linear_backward: ");
  says(kiln_attention(dx, dx, Dl(narrow), dy, nullptr), "kiln_attention: v's width and o's differ: 3 != 5");
  says(kiln_dropout(dx, dy, -1, 0), "kiln_dropout: the probability must be from 0 to 1");
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
