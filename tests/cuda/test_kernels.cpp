// Tests kernels on CUDA devices: what reaches the driver, and what they compute.
#include "played.h"
#include "test_seed.h"

#include <allocation_count.h>
#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/cuda/memory.h>

#include <algorithm>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});
const std::string add_line = KILN_HERE(-4);

// Makes a kernel that no other test has compiled.
auto make_scale(float factor) {
  return kernel("scale", [factor](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() * factor);
  });
}

Tensor<float, 1> on_device(Device device, std::vector<float> values) {
  auto t = Tensor<float, 1>::empty({static_cast<Extent>(values.size())});
  std::copy(values.begin(), values.end(), t.begin());
  return t.to(device);
}

std::vector<float> on_host(const Tensor<float, 1>& t) {
  auto host = t.to(Device::cpu());
  return {host.begin(), host.end()};
}

std::uint64_t last_argument() {
  FakeLaunch l = fake().last_launch();
  return l.arguments[l.argument_count - 1];
}

} // namespace

TEST_CASE("a kernel is compiled for the device, launched and computes") {
  FreshFake fresh;
  Played played;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Device device = Device::cuda(0);
  Stream stream(device);
  for (std::size_t n : {std::size_t{1}, std::size_t{1000}, random() % 5000 + 1}) {
    auto x = random_floats(n, random()), y = random_floats(n, random()), expected = x;
    for (std::size_t i = 0; i < n; ++i)
      expected[i] += y[i];
    auto a = on_device(device, x), b = on_device(device, y);
    auto out = on_device(device, std::vector<float>(n, NAN));
    add.launch(stream, {BN = 256, num_warps = 8, num_stages = 3}, a, b, out);
    stream.synchronize();
    CHECK(on_host(out) == expected);
    FakeLaunch l = fake().last_launch();
    CHECK(l.kernel == std::string("add"));
    CHECK(l.grid[0] == (n + 255) / 256);
    CHECK(l.block[0] == 256);
    CHECK(l.stream == stream.cuda_handle());
    CHECK(last_argument() == 0);
  }
  CHECK(played.launches() == 3);
}

TEST_CASE("every kind of argument reaches the driver in the form that the kernel expects") {
  FreshFake fresh;
  Played played;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto mixed =
      kernel("mixed kinds",
             [](View<const double, 2> x, Scalar<bool> negate, Scalar<std::int8_t> a, raw::Ptr<float> p,
                Scalar<f16> h, Scalar<double> d, Scalar<std::uint64_t> u, View<double, 2> out) {
               auto [m, n] = program_tile(out, BM, BN);
               Tile t = x.tile(m, n).load() + cast<double>(a) + cast<double>(h) + d + cast<double>(u);
               Tile q = t + cast<double>(raw::load(p));
               out.tile(m, n).store(where(negate, -q, q));
             });
  Device device = Device::cuda(1);
  Stream stream(device);
  std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 20),
               cols = 1 + static_cast<std::int64_t>(random() % 70);
  Buffer in(device, rows * (cols + 3) * 8), out(device, rows * cols * 8), one(device, 4);
  TensorView<const double, 2> x(static_cast<const double*>(in.data()) + 1, {rows, cols}, {cols + 3, 1});
  TensorView<double, 2> y(static_cast<double*>(out.data()), {rows, cols});
  auto* data = static_cast<double*>(in.data()); // the fake driver's memory is memory of the host
  for (std::int64_t i = 0; i < rows * (cols + 3); ++i)
    data[i] = static_cast<double>(random() % 1000);
  *static_cast<float*>(one.data()) = 0.25f;
  for (bool negate : {false, true}) {
    mixed.launch(stream, {BM = 4, BN = 16}, x, negate, std::int8_t{-3}, static_cast<float*>(one.data()),
                 f16(1.5f), 1e9, std::uint64_t{1} << 40, y);
    stream.synchronize();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        double sum = x(r, c) - 3 + 1.5 + 1e9 + 0x1p40 + 0.25;
        REQUIRE(y(r, c) == (negate ? -sum : sum));
      }
  }
  CHECK(fake().last_launch().kernel == std::string("mixed_kinds")); // names in PTX have no blanks
}

TEST_CASE("a Grid of three axes becomes blocks along one, whichever axes the kernel reads") {
  FreshFake fresh;
  Played played;
  const std::string made = KILN_HERE(1);
  const auto mark = kernel("mark", [](View<int, 1> out) {
    auto at = (program_id(0) * num_programs(1) + program_id(1)) * 4 + program_id(2);
    raw::store(out.data() + at, cast<int>(at) + 7);
  });
  const auto first =
      kernel("first_axis", [](View<int, 1> out) { raw::atomic_add(out.data() + program_id(0), 1); });
  Device device = Device::cuda(0);
  Stream stream(device);
  auto out = Tensor<int, 1>::zeros(device, {60});
  mark.launch(stream, {}, Grid{3, 5, 4}, out);
  stream.synchronize();
  auto host = out.to(Device::cpu());
  for (int i = 0; i < 60; ++i)
    REQUIRE(host.data()[i] == i + 7);
  CHECK(fake().last_launch().grid[0] == 60);
  auto counts = Tensor<int, 1>::zeros(device, {3});
  first.launch(stream, {}, Grid{3, 5, 4}, counts);
  stream.synchronize();
  host = counts.to(Device::cpu());
  for (int i = 0; i < 3; ++i)
    CHECK(host.data()[i] == 20);
  int launched = fake().launch_count();
  mark.launch(stream, {}, Grid{3, 0, 4}, out);
  stream.synchronize();
  CHECK(fake().launch_count() == launched);
  const std::string here = KILN_HERE(1);
  auto too_many = [&] { mark.launch(stream, {}, Grid{1 << 20, 1 << 20, 1}, out); };
  CHECK(
      error_of<UserError>(too_many) ==
      here + ": kernel \"mark\" (" + made +
          "): the grid is 1048576 x 1048576 x 1 programs, and cuda:0 runs at most 2147483647 in one launch; "
          "use larger tiles, or launch parts");
}

TEST_CASE("the kernel learns whether views share memory") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = on_device(device, std::vector<float>(100, 1)), y = on_device(device, std::vector<float>(100, 2));
  add.launch(stream, {BN = 64}, x, y, y);
  stream.synchronize();
  CHECK(last_argument() == 1);
  CHECK(on_host(y) == std::vector<float>(100, 3));
  add.launch(stream, {BN = 64}, x.view().slice(0, 0, 50), x.view().slice(0, 0, 50),
             x.view().slice(0, 50, 100));
  stream.synchronize();
  CHECK(last_argument() == 0);
  add.launch(stream, {BN = 64}, x.view().slice(0, 0, 51), y.view().slice(0, 0, 51),
             x.view().slice(0, 49, 100));
  stream.synchronize();
  CHECK(last_argument() == 1);
  add.launch(stream, {BN = 64}, x, x, y); // views that are only read may overlap
  stream.synchronize();
  CHECK(last_argument() == 0);
}

TEST_CASE("the kernel learns whether a view has elements with two indices") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream stream(device);
  const auto fill = kernel("fill_rows", [](View<float, 2> out) {
    auto [m, n] = program_tile(out, BM, BN);
    out.tile(m, n).store(full(2.0f, BM, BN));
  });
  auto x = on_device(device, std::vector<float>(100, 1));
  struct Row {
    std::int64_t rows, step;
    std::uint64_t announced;
  };
  for (const Row& row : {Row{10, 10, 0}, Row{10, 9, 1}, Row{4, 0, 1}, Row{1, 0, 0}}) {
    INFO(row.rows << " rows, " << row.step << " apart");
    fill.launch(stream, {BM = 4, BN = 16}, TensorView<float, 2>(x.data(), {row.rows, 10}, {row.step, 1}));
    stream.synchronize();
    CHECK(last_argument() == row.announced);
  }
}

TEST_CASE("num_warps and max_registers are part of the code; options that the GPU lacks are not") {
  FreshFake fresh;
  auto scale = make_scale(1.25f);
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = on_device(device, std::vector<float>(100, 1));
  auto before = compile_statistics().compiled;
  auto launch = [&](const Config& config) {
    scale.launch(stream, config, x);
    stream.synchronize();
    return fake().last_launch().block[0];
  };
  CHECK(launch({BN = 64}) == 128);
  CHECK(launch({BN = 64, num_warps = 4}) == 128);
  CHECK(launch({BN = 64, num_warps = 4, num_stages = 5, num_ctas = 2}) == 128);
  CHECK(compile_statistics().compiled == before + 1);
  CHECK(launch({BN = 64, num_warps = 1}) == 32);
  CHECK(launch({BN = 64, num_warps = 32}) == 1024);
  CHECK(compile_statistics().compiled == before + 3);
  for (int warps : {3, 6, 33, 64, 1 << 20})
    CHECK(error_of<UserError>([&] { launch({BN = 64, num_warps = warps}); })
              .find("kernel scale: num_warps is " + std::to_string(warps) +
                    "; a block has 1, 2, 4, 8, 16 or 32 warps") != std::string::npos);
  CHECK(compile_statistics().compiled == before + 3);
  CHECK(launch({BN = 64, max_registers = 64}) == 128); // a different variant
  CHECK(compile_statistics().compiled == before + 4);
  for (int registers : {1, 23, 256})
    CHECK(error_of<UserError>([&] { launch({BN = 64, max_registers = registers}); })
              .find("kernel scale: max_registers is " + std::to_string(registers) +
                    "; a thread may have 24 to 255; leave it out for no limit") != std::string::npos);
}

TEST_CASE("if registers are spilled, the driver also assembles the other form and keeps the better one") {
  struct Row {
    int spills, assembled, local_bytes;
    bool limited;
  };
  // The first form of `scale` declares one block per multiprocessor.
  for (const Row& row : {Row{0, 1, 0, false}, Row{1, 2, 0, false}, Row{2, 1, 0, false}, Row{3, 2, 64, false},
                         Row{3, 1, 64, true}}) {
    FreshFake fresh;
    fake().set("spills", row.spills);
    static float factor = 3;
    auto scale = make_scale(++factor); // a different kernel in each iteration
    Device device = Device::cuda(0);
    Stream stream(device);
    auto x = on_device(device, std::vector<float>(100, 1));
    if (row.limited)
      scale.launch(stream, {BN = 64, max_registers = 64}, x);
    else
      scale.launch(stream, {BN = 64}, x);
    stream.synchronize();
    CAPTURE(row.spills, row.limited);
    CHECK(fake().calls("cuLinkComplete") == row.assembled);
    CHECK(fake().last_launch().local_bytes == row.local_bytes);
  }
}

// --- Memory ------------------------------------------------------------------------------------------------

TEST_CASE("memory that the device cannot access is a user error that names the argument and the owner") {
  std::string error, line;
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream stream(device), cpu;
  std::vector<float> host(100, 1);
  auto x = on_device(device, host), y = on_device(device, host), elsewhere = on_device(Device::cuda(1), host);
  const std::string title = ": kernel \"add\" (" + add_line + "): argument ";
  error = error_of<UserError>([&] { add.launch(stream, {BN = 64}, x, TensorView(host), y); });
  line = KILN_HERE(-1);
  CHECK(error ==
        line + title +
            "2 is memory of the host, which kernels on cuda:0 do not reach; copy it to a Buffer of cuda:0");
  error = error_of<UserError>([&] { add.launch(stream, {BN = 64}, x, y, elsewhere); });
  line = KILN_HERE(-1);
  CHECK(error ==
        line + title +
            "3 is memory of cuda:1, which kernels on cuda:0 do not reach; copy it to a Buffer of cuda:0");
  error = error_of<UserError>([&] { add.launch(cpu, {BN = 64}, x, TensorView(host), TensorView(host)); });
  line = KILN_HERE(-1);
  CHECK(error ==
        line + title +
            "1 is memory of cuda:0, which kernels on cpu do not reach; launch on a stream of cuda:0, or copy "
            "it "
            "to the host");
  CHECK(fake().launch_count() == 0);
  // Views without elements may have any pointer.
  add.launch(stream, {BN = 64}, TensorView<float, 1>(host.data(), {0}), TensorView<float, 1>(nullptr, {0}),
             x.view().slice(0, 0, 0));
  // The device can access pinned memory and, on some machines, all memory of the host.
  cuda::PinnedBuffer pinned(cuda::DeviceState::get(0), 400);
  TensorView<float, 1> in_host(static_cast<float*>(pinned.data()), {100});
  std::fill_n(in_host.data(), 100, 5.0f);
  add.launch(stream, {BN = 64}, in_host, y, in_host);
  stream.synchronize();
  CHECK(in_host(99) == 6);
  const auto raw_copy = kernel(
      "raw_copy", [](raw::Ptr<const float> from, raw::Ptr<float> to) { raw::store(to, raw::load(from)); });
  CHECK(error_of<UserError>([&] {
          raw_copy.launch(stream, {}, Grid{}, host.data(), y.data());
        }).find("argument 1 is memory of the host") != std::string::npos);
}

TEST_CASE("if kernels can access the host's memory, it is accepted") {
  FreshFake fresh;
  fake().set("pageable", 1);
  Played played;
  Device device = Device::cuda(16);
  Stream stream(device);
  std::vector<float> x(100, 1), y(100, 2), out(100);
  add.launch(stream, {BN = 64}, TensorView(x), TensorView(y), TensorView(out));
  stream.synchronize();
  CHECK(out == std::vector<float>(100, 3));
}

TEST_CASE("a kernel may be destroyed while it runs") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = on_device(device, std::vector<float>(100, 3));
  auto modules = fake().live("modules");
  {
    auto scale = make_scale(0.5f);
    fake().set("kernel_ms", 50);
    scale.launch(stream, {BN = 64}, x);
  }
  CHECK(fake().live("modules") == modules);
  stream.synchronize();
  CHECK(on_host(x) == std::vector<float>(100, 1.5f));
}

TEST_CASE("kernels and expressions run on streams of the caller, also on the default stream") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream own(device);
  auto x = on_device(device, std::vector<float>(100, 3)), y = on_device(device, std::vector<float>(100, 4));
  float expected = 4;
  for (void* handle : {own.cuda_handle(), static_cast<void*>(nullptr)}) {
    Stream adopted = Stream::adopt(device, handle);
    add.launch(adopted, {BN = 64}, x, y, y);
    assign(adopted, y, y.view() * 2.0f);
    adopted.synchronize();
    expected = 2 * (expected + 3);
    CHECK(on_host(y) == std::vector<float>(100, expected));
    CHECK(fake().last_launch().stream == handle);
  }
}

// --- Graphs and threads ------------------------------------------------------------------------------------

TEST_CASE("kernels are captured into graphs, also with the first launch of a variant") {
  FreshFake fresh;
  Played played;
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = on_device(device, std::vector<float>(100, 1)), one = on_device(device, std::vector<float>(100, 1));
  auto twice = make_scale(2);
  cuda::GraphCapture capture(stream);
  twice.launch(stream, {BN = 32}, x);
  add.launch(stream, {BN = 32}, x, one, x);
  cuda::Graph graph = capture.end();
  CHECK(graph.size() == 2);
  stream.synchronize();
  CHECK(on_host(x) == std::vector<float>(100, 1));
  for (int i = 0; i < 3; ++i)
    graph.launch(stream);
  stream.synchronize();
  CHECK(on_host(x) == std::vector<float>(100, 15)); // 1, 3, 7, 15
}

TEST_CASE("threads that launch a kernel for the first time compile it once") {
  FreshFake fresh;
  auto scale = make_scale(0.75f);
  Device device = Device::cuda(0);
  auto x = on_device(device, std::vector<float>(100, 1));
  auto before = compile_statistics().compiled;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      Stream stream(device);
      for (int i = 0; i < 20; ++i)
        scale.launch(stream, {BN = 64}, x);
      stream.synchronize();
    });
  for (auto& t : threads)
    t.join();
  CHECK(compile_statistics().compiled == before + 1);
  CHECK(fake().launch_count() == 160);
  CHECK(fake().calls("cuModuleLoadDataEx") == 1);
}

TEST_CASE("each device has its own module, from one cubin") {
  FreshFake fresh;
  auto scale = make_scale(0.875f);
  auto before = compile_statistics();
  for (int d : {0, 1}) {
    Stream stream(Device::cuda(d));
    auto x = on_device(Device::cuda(d), std::vector<float>(10, 1));
    scale.launch(stream, {BN = 16}, x);
    stream.synchronize();
    CHECK(fake().last_launch().device == d);
  }
  CHECK(compile_statistics().compiled == before.compiled + 1);
  CHECK(compile_statistics().disk_hits == before.disk_hits + 1);
  CHECK(fake().calls("cuModuleLoadDataEx") == 2);
  CHECK(fake().calls("cuLinkComplete") == 1);
}

TEST_CASE("warm_up compiles for a device, and the error of a forbidden compilation names it") {
  FreshFake fresh;
  auto scale = make_scale(0.9375f);
  const std::string made = __FILE__;
  Device device = Device::cuda(0);
  auto x = on_device(device, std::vector<float>(10, 1));
  Stream stream(device);
  scale.warm_up(device, {BN = 16});
  ScopedCompilePolicy policy(CompilePolicy::forbid);
  scale.launch(stream, {BN = 16}, x);
  stream.synchronize();
  std::string text = error_of<UserError>([&] { scale.launch(stream, {BN = 32, num_stages = 3}, x); });
  INFO(text);
  CHECK(
      text.find(": kernel scale is not compiled for the config {BN=32,num_warps=4}, layout classes (aligned) "
                "on cuda:0, and the compile policy forbids compiling it; call warm_up first, or ship the "
                "cache folder") != std::string::npos);
}

TEST_CASE("a warm launch does not allocate") {
  FreshFake fresh;
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = on_device(device, std::vector<float>(100, 1)), y = on_device(device, std::vector<float>(100, 1));
  auto fused = [&] { assign(stream, y, x.view() * 2.0f + y.view()); };
  for (int i = 0; i < 3; ++i) {
    add.launch(stream, {BN = 64}, x, x, y);
    fused();
  }
  fake().swallow(1);
  const long before = allocation_count();
  for (int i = 0; i < 1000; ++i) {
    add.launch(stream, {BN = 64}, x, x, y);
    fused();
  }
  const long after = allocation_count();
  fake().swallow(0);
  stream.synchronize();
  CHECK(after == before);
}
