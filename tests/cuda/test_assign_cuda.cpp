// Tests whole-tensor expressions on CUDA devices, also with temporaries.
#include "played.h"
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/graph.h>

#include <on_device.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// The same random floats on the device and on the host.
struct Both {
  Tensor<float, 2> host, device;
  Both(std::mt19937_64& random, Device d, std::int64_t rows, std::int64_t cols)
      : host(Tensor<float, 2>::empty({rows, cols})) {
    for (float& x : host)
      x = static_cast<float>(random() % 2000) - 1000;
    device = host.to(d);
  }
  bool same() { // call it after the commands have finished
    auto now = device.to(Device::cpu());
    return std::equal(now.begin(), now.end(), host.begin());
  }
};

} // namespace

TEST_CASE("whole-tensor expressions give the same results on a CUDA device as on the CPU") {
  FreshFake fresh;
  Played played;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device), cpu;
  for (int i = 0; i < 6; ++i) {
    const auto rows = static_cast<std::int64_t>(random() % 90 + 1),
               cols = static_cast<std::int64_t>(random() % 300 + 1);
    INFO(rows << " x " << cols);
    Both x(random, device, rows, cols), row(random, device, 1, cols), column(random, device, rows, 1),
        out(random, device, rows, cols);
    auto expression = [](auto& x, auto& row, auto& column) {
      return relu(x.view() * 0.5f + row.view()) - column.view();
    };
    assign(stream, out.device, expression(x.device, row.device, column.device));
    assign(cpu, out.host, expression(x.host, row.host, column.host));
    stream.synchronize();
    cpu.synchronize();
    CHECK(out.same());
    assign(stream, out.device.view().transpose(), out.device.view().transpose() * 2);
    assign(cpu, out.host.view().transpose(), out.host.view().transpose() * 2);
    stream.synchronize();
    cpu.synchronize();
    CHECK(out.same());
    assign(stream, out.device.view().select(0, 0), i);
    assign(cpu, out.host.view().select(0, 0), i);
    stream.synchronize();
    cpu.synchronize();
    CHECK(out.same());
  }
}

TEST_CASE("an output that overlaps an operand goes through a temporary in the order of the stream") {
  FreshFake fresh;
  Played played;
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device), cpu;
  Both x(random, device, 50, 60);
  Buffer::trim();
  const long long memory = fake().live("memory"), allocated = fake().calls("cuMemAllocFromPoolAsync");
  auto shift = [](Stream& s, Tensor<float, 2>& t) {
    assign(s, t.view().slice(0, 1, 50), t.view().slice(0, 0, 49) + 1);
  };
  shift(stream, x.device);
  shift(cpu, x.host);
  stream.synchronize();
  cpu.synchronize();
  CHECK(x.same());
  CHECK(fake().launch_count() == 2);
  CHECK(fake().live("memory") == memory);
  CHECK(fake().calls("cuMemAllocFromPoolAsync") == allocated + 1);
  // It does not wait for anything, so it can be captured and replayed.
  cuda::GraphCapture capture(stream);
  shift(stream, x.device);
  cuda::Graph graph = capture.end();
  for (int i = 0; i < 3; ++i) {
    graph.launch(stream);
    shift(cpu, x.host);
  }
  stream.synchronize();
  cpu.synchronize();
  CHECK(x.same());
  graph = {};
  CHECK(fake().live("memory") == memory);
}

TEST_CASE("a temporary without memory for it is a user error with the sizes") {
  FreshFake fresh;
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device);
  Both x(random, device, 300, 300);
  Buffer::trim();
  fake().set("memory_bytes", 300 * 300 * 4 + 1000);
  const std::string here = KILN_HERE(2);
  auto shift = [&] {
    assign(stream, x.device.view().slice(0, 1, 300), x.device.view().slice(0, 0, 299) + 1);
  };
  std::string text = error_of<UserError>(shift);
  INFO(text);
  CHECK(text.starts_with(here + ": no memory for a temporary of 358800 bytes on cuda:0, which has "));
  CHECK(text.ends_with("; free other buffers, or use an output that overlaps no operand"));
  CHECK(fake().launch_count() == 0);
  fake().set("memory_bytes", 1 << 30);
  shift();
  stream.synchronize();
  CHECK(fake().launch_count() == 2);
}

TEST_CASE("operands that a CUDA device cannot access are named") {
  FreshFake fresh;
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device), cpu;
  Both x(random, device, 30, 30);
  const std::string here = KILN_HERE(1);
  auto from_host = [&] { assign(stream, x.device, x.device.view() + x.host.view()); };
  CHECK(error_of<UserError>(from_host) == here +
                                              ": assign: operand 1 of the expression is memory of the host, "
                                              "which kernels on cuda:0 do not reach; copy it to a Buffer of "
                                              "cuda:0");
  const std::string there = KILN_HERE(1);
  auto to_device = [&] { assign(cpu, x.device, x.host.view() + 1); };
  CHECK(error_of<UserError>(to_device) ==
        there + ": assign: the output is memory of cuda:0, which kernels on cpu "
                "do not reach; launch on a stream of cuda:0, or copy it to the "
                "host");
}

TEST_CASE("assign on a driver without pools", "[.old_assign]") {
  Played played;
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device), cpu;
  Both x(random, device, 30, 30);
  auto shift = [](Stream& s, Tensor<float, 2>& t) {
    assign(s, t.view().slice(0, 1, 30), t.view().slice(0, 0, 29) + 1);
  };
  shift(stream, x.device);
  shift(cpu, x.host);
  stream.synchronize();
  CHECK(fake().launch_count() == 2);
  cuda::GraphCapture capture(stream);
  shift(stream, x.device);
  cuda::Graph graph = capture.end(); // owns the temporary
  for (int i = 0; i < 3; ++i) {
    graph.launch(stream);
    shift(cpu, x.host);
  }
  stream.synchronize();
  cpu.synchronize();
  CHECK(x.same());
}

TEST_CASE("assign on an older driver") {
  int code = 0;
  std::string output =
      run_again("[.old_assign]", {std::string("KILN_CUDA_LIBRARY=") + FAKE_CUDA_OLD_LIBRARY}, code);
  INFO(output);
  CHECK(code == 0);
  CHECK(output.find("1 test case") != std::string::npos);
}
