// Kernels on CUDA devices: what reaches the driver is what the kernel says.
#include "played.h"

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});

Tensor<float, 1> on_device(Device device, const std::vector<float>& values) {
  auto t = Tensor<float, 1>::empty(device, {static_cast<Extent>(values.size())});
  Stream stream(device);
  copy(stream, t.data(), values.data(), t.size() * 4);
  stream.synchronize();
  return t;
}

std::vector<float> on_host(const Tensor<float, 1>& t) {
  std::vector<float> values(static_cast<std::size_t>(t.size()));
  Stream stream(t.device());
  copy(stream, values.data(), t.data(), t.size() * 4);
  stream.synchronize();
  return values;
}

} // namespace

TEST_CASE("a kernel is compiled for the device, launched and computes") {
  FreshFake fresh;
  Played played;
  std::uint64_t seed = std::random_device{}();
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
  }
  CHECK(played.launches() == 3);
}

TEST_CASE("every kind of argument reaches the driver as the kernel takes it") {
  FreshFake fresh;
  Played played;
  std::uint64_t seed = std::random_device{}();
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
  auto* data = static_cast<double*>(in.data()); // the fake's memory is the host's
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
}
