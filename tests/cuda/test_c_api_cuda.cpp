// Tests the C functions with DLPack tensors on a CUDA device.
#include "played.h"

#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/ops/c_api.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

struct Dl {
  std::int64_t shape[2];
  DLTensor tensor{};
  explicit Dl(Tensor<float, 2>& t) : shape{t.extent(0), t.extent(1)} {
    tensor.data = t.data();
    tensor.device = {t.device().is_cpu() ? kDLCPU : kDLCUDA, t.device().index()};
    tensor.ndim = 2;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape;
  }
  operator DLTensor*() { return &tensor; }
};

} // namespace

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
