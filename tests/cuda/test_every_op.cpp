// Tests every op on a CUDA device: it is captured in a graph, whose replays compute the same bits as calls, and
// a warm call allocates nothing on the heap.
#include "gpu_test.h"
#include "ops/every_op.h"

#include <allocation_count.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/graph.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// Calls each op with two sets of inputs, captures it, and replays the graph with both of them.
void capture_every_op(Device device, std::uint64_t seed) {
  INFO("seed " << seed);
  Stream stream(device);
  EveryOp every(device, driver_is_fake() ? EveryOp::small() : EveryOp::Sizes());
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    std::vector<unsigned char> expected[2], before;
    for (std::uint64_t i : {0, 1}) {
      every.fill(seed + i);
      before = every.bytes();
      call.run(stream);
      stream.synchronize();
      expected[i] = every.bytes();
    }
    CHECK((expected[1] != before));
    every.fill(seed);
    before = every.bytes();
    cuda::GraphCapture capture(stream);
    call.run(stream);
    cuda::Graph graph = capture.end();
    CHECK((every.bytes() == before)); // nothing has run yet
    for (std::uint64_t i : {0, 1, 0}) {
      every.fill(seed + i);
      graph.launch(stream);
      stream.synchronize();
      CHECK((every.bytes() == expected[i]));
    }
  }
}

// A call that needs memory for intermediate results.
struct WithWorkspace {
  Device device = Device::cuda(0);
  Tensor<float, 2> x = Tensor<float, 2>::zeros(device, {30, 40}),
                   dy = Tensor<float, 2>::zeros(device, {30, 40});
  Tensor<float, 1> dgamma = Tensor<float, 1>::zeros(device, {40}),
                   dbeta = Tensor<float, 1>::zeros(device, {40});

  void call(Stream& stream) { ops::layernorm_backward(stream, x, {}, dy, {}, dgamma, dbeta); }
};

} // namespace

TEST_CASE("every op is captured in a graph and replayed", "[gpu]") {
  OnGpu gpu;
  if (gpu) capture_every_op(gpu.device(), gpu.seed());
}

TEST_CASE("the memory of a captured op lives as long as its graph") {
  FreshFake fresh;
  Played played;
  WithWorkspace op;
  Stream stream(op.device);
  op.call(stream); // compiles, and takes memory of the pool
  stream.synchronize();
  Buffer::trim();
  const auto before = alive();
  {
    cuda::GraphCapture capture(stream);
    op.call(stream);
    op.call(stream);
    cuda::Graph graph = capture.end();
    CHECK(fake().live("memory") == before.at("memory") + 1); // both calls use the same
    for (int i = 0; i < 3; ++i)
      graph.launch(stream);
    Buffer::trim();
    graph = {}; // while it runs
    stream.synchronize();
    cuda::GraphCapture discarded(stream);
    op.call(stream);
  }
  CHECK(alive() == before);
}

TEST_CASE("every op is captured on a driver without pools", "[.old_graphs]") {
  Played played;
  capture_every_op(Device::cuda(0), fresh_seed());
}

TEST_CASE("without pools the memory of a captured op belongs to its graph", "[.old_graphs]") {
  Played played;
  WithWorkspace op;
  Stream stream(op.device);
  op.call(stream);
  stream.synchronize();
  const int kernels = played.launches();
  Buffer::trim();
  const auto before = alive();
  {
    cuda::GraphCapture capture(stream);
    op.call(stream);
    op.call(stream);
    cuda::Graph graph = capture.end();
    Buffer::trim();
    CHECK(fake().live("memory") == before.at("memory") + 1);
    graph.launch(stream);
    cuda::Graph moved = std::move(graph);
    moved.launch(stream);
    moved = {}; // waits
    CHECK(played.launches() == kernels * 5);
    stream.synchronize();
    cuda::GraphCapture discarded(stream);
    op.call(stream);
  }
  CHECK(alive() == before);
  // Where Kiln does not capture the graph itself, no graph can own the memory.
  Stream other(op.device);
  auto& state = cuda::DeviceState::get(0);
  cuda::Current current(state);
  REQUIRE(state.driver().cuStreamBeginCapture(cuda::queue_of(other).handle(), 2) == cuda::Result::Success);
  CHECK_THAT(error_of<UserError>([&] { op.call(other); }),
             Catch::StartsWith("a temporary of ") &&
                 Catch::EndsWith(" bytes on a stream of cuda:0, whose driver has no memory pools, while a "
                                 "graph is captured; capture it with cuda::GraphCapture from this stream, so "
                                 "that the graph owns the memory"));
  cuda::GraphHandle graph = nullptr;
  REQUIRE(state.driver().cuStreamEndCapture(cuda::queue_of(other).handle(), &graph) == cuda::Result::Success);
  state.driver().cuGraphDestroy(graph);
}

TEST_CASE("ops are captured on an older driver") {
  int code = 0;
  const std::string output =
      run_again("[.old_graphs]", {std::string("KILN_CUDA_LIBRARY=") + FAKE_CUDA_OLD_LIBRARY}, code);
  INFO(output);
  CHECK(code == 0);
  CHECK(output.find("2 test cases") != std::string::npos);
}

TEST_CASE("a warm call of any op allocates nothing on a CUDA device") {
  FreshFake fresh;
  Played played;
  Stream stream(Device::cuda(0));
  EveryOp every(Device::cuda(0), EveryOp::small());
  int calls = 0;
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    every.fill(7);
    for (int i = 0; i < 2; ++i) {
      call.run(stream);
      stream.synchronize();
    }
    // The fake driver allocates on the heap for memory of its pools.
    if (rehearse([&] { call.run(stream); }).workspace_bytes > 0) continue;
    fake().swallow(1);
    const long before = allocation_count();
    call.run(stream);
    const long after = allocation_count();
    fake().swallow(0);
    CHECK(after == before);
    ++calls;
  }
  CHECK(calls >= 20);
}

// Hidden: the test below runs it in another process, because the mode is read once.
TEST_CASE("an op without a tuned config is captured in the mode that tunes", "[.tuned_graphs]") {
  Played played;
  const Device device = Device::cuda(0);
  Stream stream(device);
  auto a = Tensor<float, 2>::zeros(device, {40, 24}), b = Tensor<float, 2>::zeros(device, {24, 16}),
       c = Tensor<float, 2>::zeros(device, {40, 16});
  rehearse([&] { ops::matmul(stream, a, b, c); });
  cuda::GraphCapture capture(stream);
  ops::matmul(stream, a, b, c);
  cuda::Graph graph = capture.end();
  graph.launch(stream);
  stream.synchronize();
  CHECK(played.launches() == 1);
}
TEST_CASE("no search begins while a graph is captured") {
  int code = 0;
  const std::string output = run_again("[.tuned_graphs]", {"KILN_TUNE=tune"}, code);
  INFO(output);
  CHECK(code == 0);
}
