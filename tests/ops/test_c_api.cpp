// Tests the C functions on DLPack tensors: each computes what its op computes, and refuses wrong arguments.
#include "c_functions.h"
#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

extern "C" {
int kiln_test_rmsnorm_in_c(float* x, float* y, double eps);
int kiln_test_sizes_in_c(void);
}

TEST_CASE("each C function computes what its op computes, to the bit") {
  Functions all;
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  Stream stream;
  for (Function& f : all.list()) {
    INFO(f.name);
    all.fill(seed);
    const auto before = all.bytes();
    f.in_cpp(stream);
    stream.synchronize();
    const auto expected = all.bytes();
    CHECK((expected != before));
    all.fill(seed);
    const int code = f.call();
    INFO(kiln_last_error());
    CHECK(code == KILN_OK);
    CHECK((all.bytes() == expected));
    CHECK(std::string(kiln_last_error()).empty());
  }
}

TEST_CASE(
    "each C function refuses dtypes, ranks, devices and null pointers that are wrong, and writes nothing") {
  Functions all;
  all.fill(fresh_seed());
  const auto before = all.bytes();
  for (Function& f : all.list()) {
    for (std::size_t i = 0; i < f.tensors.size(); ++i) {
      INFO(f.name << ", tensor " << i);
      const Dl right = f.tensors[i];
      const auto refused = [&](const char* text) {
        const int code = f.call();
        CHECK(code == KILN_USER_ERROR);
        CHECK_THAT(kiln_last_error(), Catch::StartsWith(f.name + ": ") && Catch::Contains(text));
        f.tensors[i] = right;
      };
      f.tensors[i].tensor.dtype = {kDLComplex, 64, 1};
      refused(" has DLPack type code 5 of 64 bits and 1 lanes; pass float32, ");
      f.tensors[i].tensor.dtype = {kDLUInt, 8, 1};
      f.tensors[i].tensor.byte_offset = 0;
      if (right.tensor.dtype.bits > 8) refused("");
      if (f.name.starts_with("kiln_activation") ||
          f.name.starts_with("kiln_rotary")) { // inputs broadcast, so that they may have fewer axes
        std::copy_backward(right.shape, right.shape + max_rank, f.tensors[i].shape + max_rank + 1);
        std::copy_backward(right.strides, right.strides + max_rank, f.tensors[i].strides + max_rank + 1);
        f.tensors[i].shape[0] = 2, f.tensors[i].strides[0] = 0, ++f.tensors[i].tensor.ndim;
      } else {
        f.tensors[i].tensor.ndim = 0;
      }
      refused("");
      f.tensors[i].tensor.device = {kDLVulkan, 0};
      refused(" is on DLPack device 7; copy it to the CPU or to a CUDA device");
      f.tensors[i].tensor.shape = nullptr;
      refused(" has no shape: it is null; set it to the extents");
    }
    Tensors pointers = f.pointers();
    pointers[0] = nullptr;
    CHECK(f.in_c(pointers) == KILN_USER_ERROR);
    CHECK_THAT(kiln_last_error(),
               Catch::StartsWith(f.name + ": ") && Catch::Contains(" is null; pass a tensor"));
  }
  CHECK((all.bytes() == before));
}

TEST_CASE("attention refuses named scores and masks of equal batches for ragged ones") {
  float numbers[16] = {};
  std::int32_t begins[] = {0, 1};
  std::int64_t shape[] = {1, 1, 16}, two = 2, ones[] = {1, 1, 1, 1};
  const auto made = [](void* data, DLDataType dtype, int rank, std::int64_t* extents) {
    return DLTensor{data, {kDLCPU, 0}, rank, dtype, extents, nullptr, 0};
  };
  const DLDataType i32{kDLInt, 32, 1}, f32{kDLFloat, 32, 1};
  const DLTensor x = made(numbers, f32, 3, shape), offsets = made(begins, i32, 1, &two),
                 lengths = made(begins, i32, 1, ones), documents = made(begins, i32, 2, ones),
                 lse = made(numbers, f32, 2, shape), slopes = made(numbers, f32, 1, ones),
                 bias = made(numbers, f32, 4, ones), relative = made(numbers, f32, 2, ones);
  using Options = KilnAttentionOptions;
  const std::function<void(Options&)> refused[] = {
      [&](Options& o) { o.bias = &bias; },
      [&](Options& o) { o.causal = 1, o.prefix_lengths = &lengths; },
      [&](Options& o) { o.key_lengths = &lengths; },
      [&](Options& o) { o.documents = &documents; },
      [&](Options& o) { o.key_documents = &documents; },
      [&](Options& o) { o.documents = o.key_documents = &documents; },
      [&](Options& o) { o.align_last = 1, o.alibi_slopes = &slopes; },
      [&](Options& o) { o.align_last = 1, o.relative_bias = &relative; }};
  float written[16];
  std::fill_n(written, 16, 7.0f);
  DLTensor y = made(written, f32, 3, shape);
  const std::string why =
      ": query_offsets is given with a bias, lengths, documents, or positions from the last key, which are "
      "of "
      "batches of equal lengths; call the function once for each sequence, or instead of documents begin a "
      "sequence at each of them";
  for (const auto& set : refused) {
    INFO("option " << &set - refused);
    Options o = KILN_ATTENTION_DEFAULTS;
    o.query_offsets = o.key_offsets = &offsets;
    set(o);
    CHECK(kiln_attention(&x, &x, &x, &y, &o) == KILN_USER_ERROR);
    CHECK(kiln_last_error() == "kiln_attention" + why);
    CHECK(kiln_attention_backward(&x, &x, &x, &x, &x, &lse, &y, nullptr, nullptr, &o) == KILN_USER_ERROR);
    CHECK(kiln_last_error() == "kiln_attention_backward" + why);
  }
  CHECK(std::all_of(written, written + 16, [](float number) { return number == 7.0f; }));
}

TEST_CASE("the C functions work in a program of C") {
  float x[6] = {1, 2, 2, 0, 0, 3}, y[6];
  CHECK(kiln_test_sizes_in_c());
  REQUIRE(kiln_test_rmsnorm_in_c(x, y, 1) == KILN_OK);
  for (int i = 0; i < 6; ++i)
    CHECK(y[i] == Approx(x[i] / 2)); // the mean of squares is 3 in both rows
}

TEST_CASE("a DLPack tensor without strides is row-major, and its byte offset counts") {
  std::vector<float> x = {9, 9, 1, 2, 3, 4, 5, 6}, y(6, NAN);
  std::int64_t shape[] = {2, 3};
  DLTensor of_x{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 8};
  DLTensor of_y{y.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  REQUIRE(kiln_activation(&of_x, &of_y, "none") == KILN_OK);
  CHECK(y == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("tensors of 8-bit floats have the codes of DLPack 1.1") {
  auto x = Tensor<f8e4m3, 2>::zeros({1, 3});
  auto z = Tensor<f8e5m2, 2>::zeros({1, 3});
  auto y = Tensor<float, 2>::zeros({1, 3});
  for (int i = 0; i < 3; ++i)
    x.data()[i] = f8e4m3(1.5f + static_cast<float>(i));
  Dl in(x.view()), other(z.view()), out(y.view());
  in.tensor.dtype.code = 10, other.tensor.dtype.code = 12;
  REQUIRE(kiln_activation(in, other, "none") == KILN_OK);
  REQUIRE(kiln_activation(other, out, nullptr) == KILN_OK);
  CHECK(std::vector<float>(y.begin(), y.end()) == std::vector<float>{1.5f, 2.5f, 3.5f});
}

TEST_CASE("the C functions report wrong arguments, and say why") {
  Matrix<float> x(4, 5), y(4, 5), narrow(4, 3);
  Matrix<double> other(4, 5);
  Dl dx(x.view()), dy(y.view()), dnarrow(narrow.view()), row(x.view().select(0, 0)), wrong(x.view());
  auto says = [](int code, const char* text) {
    CHECK(code == KILN_USER_ERROR);
    CHECK_THAT(kiln_last_error(), Catch::Contains(text));
  };
  says(kiln_softmax(nullptr, dy, nullptr), "kiln_softmax: x is null; pass a tensor");
  says(kiln_softmax(dx, nullptr, nullptr), "kiln_softmax: y is null; pass a tensor");
  CHECK(kiln_softmax(Dl(other.view()), dy, nullptr) == KILN_OK); // each tensor has a dtype of its own
  says(kiln_softmax(dnarrow, dy, nullptr), "kiln_softmax: x has extents {4, 3} and y {4, 5}");
  says(kiln_softmax(row, dy, nullptr), "kiln_softmax: x has extents {5} and y {4, 5}");
  says(kiln_activation(dx, dy, "swish"),
       "kiln_activation: activation is \"swish\"; choose none, relu, gelu or silu");
  says(kiln_layernorm_backward(dx, nullptr, dy, nullptr, nullptr, nullptr, nullptr),
       "kiln_layernorm_backward: no result is given; pass dx, dgamma or dbeta");
  says(kiln_layernorm_backward(dx, nullptr, nullptr, dy, nullptr, nullptr, nullptr),
       "kiln_layernorm_backward: dy is null; pass a tensor");
  says(kiln_rmsnorm_backward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
       "kiln_rmsnorm_backward: dy is null; pass a tensor");
  says(kiln_attention(dx, dx, dnarrow, dy, nullptr), "kiln_attention: v's width and o's differ: 3 != 5");
  KilnDropoutOptions dropout = KILN_DROPOUT_DEFAULTS;
  dropout.probability = -1;
  says(kiln_dropout(dx, dy, &dropout), "kiln_dropout: the probability must be from 0 to 1");
  KilnRotaryOptions rotary = KILN_ROTARY_DEFAULTS;
  rotary.pairs = "pairs";
  says(kiln_rotary(dx, dy, &rotary), "kiln_rotary: pairs is \"pairs\"; choose halves or interleaved");
  KilnMatmulOptions matmul = KILN_MATMUL_DEFAULTS;
  matmul.precision = "f32";
  says(kiln_matmul(dx, dx, dy, &matmul), "precision is \"f32\"; choose ieee or tf32");
  says(kiln_cache_append(dx, dx, dx, nullptr, nullptr), "kiln_cache_append: cache is null; pass a ");
  wrong.tensor.device = {kDLCUDA, 0};
  says(kiln_softmax(wrong, dy, nullptr),
       "kiln_softmax: x is on cuda:0 and the result on cpu; copy one of them");
  wrong.tensor.device = {kDLCPU, 0};
  wrong.tensor.dtype = {kDLInt, 32, 1};
  says(kiln_softmax(dx, wrong, nullptr), "kiln_softmax: y is of i32; pass f32, f64, ");
  CHECK(kiln_softmax(dx, dy, nullptr) == KILN_OK);
  CHECK(std::string(kiln_last_error()).empty());
}

TEST_CASE(
    "options of earlier versions have the defaults of what they lack, and those of later ones are refused") {
  Matrix<float> x(4, 5), y(4, 5);
  Random random;
  KILN_SEED(random);
  x.fill(random);
  Dl dx(x.view()), dy(y.view());
  KilnNormOptions options = KILN_NORM_DEFAULTS;
  options.sum =
      reinterpret_cast<DLTensor*>(std::uintptr_t{1}); // is behind the end of an earlier version's options
  options.size = offsetof(KilnNormOptions, sum);
  CHECK(kiln_rmsnorm(dx, nullptr, dy, &options) == KILN_OK);
  options.size = 0;
  CHECK(kiln_rmsnorm(dx, nullptr, dy, &options) == KILN_USER_ERROR);
  CHECK(kiln_last_error() == std::string("kiln_rmsnorm: options have the size 0; initialise them with the "
                                         "macro KILN_..._DEFAULTS of their type"));
  options.size = sizeof options + 8;
  CHECK(kiln_rmsnorm(dx, nullptr, dy, &options) == KILN_USER_ERROR);
  CHECK_THAT(kiln_last_error(), Catch::Contains("it is older than the header"));
}

TEST_CASE("the C functions name the argument whose memory they do not accept") {
  Matrix<float> x(4, 5), y(4, 5);
  Dl dx(x.view()), dy(y.view());
  auto says = [](int code, const std::string& text) {
    CHECK(code == KILN_USER_ERROR);
    CHECK(kiln_last_error() == text);
  };
  Dl wrong = dy;
  wrong.tensor.strides = nullptr;
  wrong.tensor.data = nullptr;
  wrong.tensor.byte_offset = 64;
  says(kiln_softmax(dx, wrong, nullptr),
       "kiln_softmax: y's 'data' is null with extents {4, 5}; pass the array, or an extent of zero");
  wrong.tensor.data = y.view().data();
  wrong.tensor.byte_offset = 2;
  says(kiln_activation(dx, wrong, "relu"), "kiln_activation: y's 'data' is not a multiple of 4 bytes, which "
                                           "its elements need; align the array");
  wrong.tensor.byte_offset = 0;
  wrong.shape[0] = -4;
  says(kiln_softmax(wrong, dy, nullptr),
       "kiln_softmax: x's 'extents': extent 0 is -4; extents must not be negative");
  Matrix<float> narrow(4, 3), square(4, 4);
  says(kiln_softmax(Dl(narrow.view()), dy, nullptr),
       "kiln_softmax: x has extents {4, 3} and y {4, 5}; pass tensors of the same extents");
  Dl s(square.view());
  says(kiln_matmul(s, s, s, nullptr),
       "kiln_matmul: c overlaps a, which is read while it is written; give it memory of its own");
}
