// Tests the C functions with DLPack tensors on a CUDA device.
#include "gpu_test.h"
#include "ops/arena.h"
#include "ops/dl_tensor.h"

#include <kiln/jit/runtime/cuda/graph.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

TEST_CASE("the C functions accept tensors on a CUDA device") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(1);
  auto host = Tensor<float, 2>::zeros({5, 70});
  for (std::int64_t i = 0; i < host.size(); ++i)
    host.data()[i] = static_cast<float>(i % 13);
  auto x = host.to(device), y = Tensor<float, 2>::zeros(device, {5, 70});
  REQUIRE(kiln_softmax(Dl(x), Dl(y), nullptr) == KILN_OK);
  CHECK(fake().last_launch().stream == nullptr);
  CHECK(fake().last_launch().device == 1);
  auto found = y.to(Device::cpu());
  for (std::int64_t r = 0; r < 5; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < 70; ++c)
      total += std::exp(static_cast<double>(host.data()[r * 70 + c]));
    for (std::int64_t c = 0; c < 70; ++c)
      REQUIRE(found.data()[r * 70 + c] ==
              Approx(std::exp(static_cast<double>(host.data()[r * 70 + c])) / total).epsilon(1e-5));
  }
  auto elsewhere = host.to(Device::cuda(0));
  CHECK(kiln_softmax(Dl(host), Dl(y), nullptr) == KILN_USER_ERROR);
  CHECK(kiln_last_error() ==
        std::string("kiln_softmax: x is on cpu and the result on cuda:1; copy one of them"));
  CHECK(kiln_softmax(Dl(elsewhere), Dl(y), nullptr) == KILN_USER_ERROR);
  CHECK(kiln_last_error() ==
        std::string("kiln_softmax: x is on cuda:0 and the result on cuda:1; copy one of them"));
  Dl nowhere(y);
  nowhere.tensor.device.device_id = 99;
  CHECK(kiln_softmax(Dl(x), nowhere, nullptr) == KILN_USER_ERROR);
  INFO(kiln_last_error());
  CHECK(std::string(kiln_last_error()).starts_with("kiln_softmax: "));
}

TEST_CASE(
    "the C functions queue their work on the stream of the caller, from which a graph can be captured") {
  FreshFake fresh;
  Played played;
  const Device device = Device::cuda(0);
  auto host = Tensor<float, 2>::zeros({5, 70});
  host.fill(3);
  auto x = host.to(device), y = Tensor<float, 2>::zeros(device, {5, 70});
  Stream stream(device);
  kiln_set_cuda_stream(stream.cuda_handle());
  cuda::GraphCapture capture(stream);
  REQUIRE(kiln_softmax(Dl(x), Dl(y), nullptr) == KILN_OK);
  cuda::Graph graph = capture.end();
  kiln_set_cuda_stream(nullptr);
  CHECK(y.to(Device::cpu()).data()[0] == 0);
  graph.launch(stream);
  stream.synchronize();
  CHECK(fake().last_launch().stream == stream.cuda_handle());
  CHECK(y.to(Device::cpu()).data()[0] == Approx(1.0 / 70));
  REQUIRE(kiln_softmax(Dl(x), Dl(y), nullptr) == KILN_OK);
  CHECK(fake().last_launch().stream == nullptr);
}

TEST_CASE("named scores and masks of attention on a CUDA device agree with those on the CPU", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  constexpr std::int64_t batches = 2, heads = 2, queries = 7, keys = 11, width = 16;
  std::vector<float> found[2];
  for (const Device device : {Device::cpu(), gpu.device()}) {
    Arena arena(device);
    const std::array of_q{batches, heads, queries, width}, of_k{batches, heads, keys, width};
    auto q = arena.input<float>(of_q), k = arena.input<float>(of_k), v = arena.input<float>(of_k),
         dout = arena.input<float>(of_q), o = arena.result<float>(of_q), dq = arena.result<float>(of_q);
    auto lse = arena.result<float>(std::array{batches, heads, queries});
    auto slopes = arena.input<float>(std::array{heads});
    auto bias = arena.input<bf16>(std::array{queries, keys}),
         relative = arena.input<bf16>(std::array{heads, std::int64_t{5}});
    const auto short_length = [](Random& r, std::int64_t) { return r.integer(2, keys); };
    auto prefix = arena.input<std::int32_t>(std::array{batches}, short_length);
    auto lengths = arena.input<std::int64_t>(std::array{batches}, short_length);
    const auto halves = [](Random&, std::int64_t i) { return i % 2; };
    auto documents = arena.input<std::int32_t>(std::array{batches, queries}, halves),
         key_documents = arena.input<std::int32_t>(std::array{batches, keys}, halves);
    arena.fill(gpu.seed());
    Dl list[] = {{q, device},    {k, device},  {v, device},  {o, device},
                 {dout, device}, {dq, device}, {lse, device}};
    Dl named[] = {{slopes, device},  {bias, device},      {relative, device},     {prefix, device},
                  {lengths, device}, {documents, device}, {key_documents, device}};
    KilnAttentionOptions options = KILN_ATTENTION_DEFAULTS;
    options.causal = options.align_last = 1, options.lse = list[6];
    options.alibi_slopes = named[0], options.bias = named[1], options.relative_bias = named[2];
    options.prefix_lengths = named[3], options.key_lengths = named[4];
    options.documents = named[5], options.key_documents = named[6];
    REQUIRE(kiln_attention(list[0], list[1], list[2], list[3], &options) == KILN_OK);
    REQUIRE(kiln_attention_backward(list[4], list[0], list[1], list[2], list[3], list[6], list[5], nullptr,
                                    nullptr, &options) == KILN_OK);
    Stream stream(device);
    std::vector<float>& values = found[device.is_cpu() ? 0 : 1];
    values.resize(2 * static_cast<std::size_t>(o.size()));
    copy(stream, values.data(), o.data(), o.size() * 4);
    copy(stream, values.data() + o.size(), dq.data(), o.size() * 4);
    stream.synchronize();
  }
  for (std::size_t i = 0; i < found[0].size(); ++i)
    REQUIRE(found[1][i] == Approx(found[0][i]).epsilon(1e-4).margin(1e-5));
}
