// Tests that kernels of tile IR launch like kernels recorded from lambdas.
#include <kiln/kiln.h>

#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/runtime/kernel/ir_kernel.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

const auto scale = kernel("scale_text", [](View<const float, 2> x, Scalar<float> factor, View<float, 2> out) {
  auto [m, n] = program_tile(out, BM, BN);
  out.tile(m, n).store(x.tile(m, n).load() * factor);
});

std::vector<std::uint64_t> words_of(const float* x, float factor, float* out, std::int64_t m,
                                    std::int64_t n) {
  std::uint32_t bits;
  std::memcpy(&bits, &factor, sizeof bits);
  auto um = static_cast<std::uint64_t>(m), un = static_cast<std::uint64_t>(n);
  return {reinterpret_cast<std::uintptr_t>(x),   um, un, un, 1, bits,
          reinterpret_cast<std::uintptr_t>(out), um, un, un, 1};
}

IrKernel from_text(const Config& config) {
  return IrKernel(std::shared_ptr<const ir::Kernel>(ir::parse(ir::print(*scale.record(config)))));
}

} // namespace

TEST_CASE("a kernel's text launches on the CPU and an emulated GPU, also with knobs that it lacks") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const std::int64_t m = 1 + static_cast<std::int64_t>(random() % 40),
                     n = 1 + static_cast<std::int64_t>(random() % 70);
  std::vector<float> x(static_cast<std::size_t>(m * n)), out(x.size(), NAN);
  for (float& v : x)
    v = normal(random);
  Config config{BM = 8, BN = 16};
  config.set("other_knob", 3);
  const IrKernel text = from_text({BM = 8, BN = 16});
  for (Device device : {Device::cpu(), Device::emulated("sm_80")}) {
    INFO(to_string(device));
    Stream stream(device);
    const auto bytes = static_cast<std::int64_t>(x.size() * sizeof(float));
    Buffer in(device, bytes), result(device, bytes);
    copy(stream, in.data(), x.data(), bytes);
    text.launch(stream, config, nullptr,
                words_of(static_cast<float*>(in.data()), 3, static_cast<float*>(result.data()), m, n));
    copy(stream, out.data(), result.data(), bytes);
    stream.synchronize();
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(out[i] == 3 * x[i]);
  }
}

TEST_CASE("errors of launching a kernel's text have no source location") {
  const IrKernel text = from_text({BM = 8, BN = 16});
  std::vector<float> x(4);
  Stream stream;
  const auto few = std::vector<std::uint64_t>(3);
  CHECK_THROWS_WITH(text.launch(stream, {BM = 8, BN = 16}, nullptr, few),
                    "kernel \"scale_text\" takes 11 words of arguments, and 3 were given");
  auto words = words_of(nullptr, 1, x.data(), 2, 2);
  CHECK_THROWS_WITH(text.launch(stream, {BM = 8, BN = 16}, nullptr, words),
                    Catch::StartsWith("kernel \"scale_text\": argument 1 is null"));
  words = words_of(x.data(), 1, x.data(), 2, 2);
  CHECK_THROWS_WITH(text.launch(stream, {BM = 8}, nullptr, words),
                    Catch::Contains("dimension BN has no size"));
}
