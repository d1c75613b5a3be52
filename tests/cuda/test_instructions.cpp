// Tests that a GPU and the emulated GPU give the same bits for instructions whose results PTX defines.
#include "cuda_test.h"
#include "gpu_test.h"
#include "random_instructions.h"
#include "test_seed.h"

#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/runtime/cuda/launch.h>

#include <bit>
#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::uint32_t blocks = 2, threads = 128;
using Words = std::vector<std::uint32_t>;

// Words of different kinds: small integers, floats of similar magnitude, and arbitrary bits.
Words random_words(std::mt19937_64& random, std::size_t n) {
  Words words(n);
  for (auto& w : words)
    switch (random() % 4) {
    case 0: w = static_cast<std::uint32_t>(random() % 64); break;
    case 1:
      w = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(random() % 4001) - 2000) /
                                       64);
      break;
    default: w = static_cast<std::uint32_t>(random());
    }
  return words;
}

Words emulate(const std::string& ptx, const Words& in, std::uint64_t seed) {
  emulator::Gpu gpu({.arch = "sm_80", .seed = seed, .checks = emulator::Checks::all()});
  const std::uint64_t bytes = in.size() * 4, from = gpu.allocate(bytes, "in"),
                      to = gpu.allocate(bytes, "out");
  gpu.write(from, in.data(), bytes);
  const std::uint64_t arguments[] = {from, to};
  auto report = gpu.launch(emulator::Module::parse(ptx, "random.ptx"), "k",
                           {.grid = {blocks}, .block = {threads}}, arguments);
  INFO(report.text());
  REQUIRE(report.ok());
  Words out(in.size());
  gpu.read(out.data(), to, bytes);
  return out;
}

bool has_real_gpu() { return cuda::available().usable && !driver_is_fake(); }

Words execute(const std::string& ptx, const Words& in) {
  auto function = cuda::Module::load(cuda::DeviceState::get(0), ptx, "k")->function("k");
  const auto bytes = static_cast<std::int64_t>(in.size() * 4);
  Stream stream(Device::cuda(0));
  Buffer from(Device::cuda(0), bytes), to(Device::cuda(0), bytes);
  copy(stream, from.data(), in.data(), bytes);
  auto a = reinterpret_cast<std::uint64_t>(from.data()), b = reinterpret_cast<std::uint64_t>(to.data());
  void* arguments[] = {&a, &b};
  cuda::launch(stream, function, {blocks, 1, 1}, {threads, 1, 1}, 0, arguments, {},
               SourceLocation("site.cpp", 1));
  Words out(in.size());
  copy(stream, out.data(), to.data(), bytes);
  stream.synchronize();
  return out;
}

} // namespace

TEST_CASE("random instructions give the same bits in any order of warps, and on a GPU", "[gpu]") {
  const std::uint64_t first = test::fresh_seed();
  int count = has_real_gpu() ? 300 : 30;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::atoi(text);
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::string ptx = random_instructions(seed, 40 + static_cast<int>(seed % 200));
    INFO(ptx);
    if (seed < first + 4 && !gpu::ptxas_path().empty()) {
      const auto made = gpu::assemble(ptx, "sm_80");
      INFO(made.log);
      REQUIRE(made.ok);
    }
    const Words in = random_words(random, std::size_t{blocks} * threads * words_per_thread);
    const Words out = emulate(ptx, in, seed);
    REQUIRE(emulate(ptx, in, seed + 1) == out);
    if (has_real_gpu()) REQUIRE(execute(ptx, in) == out);
  }
}

TEST_CASE("approximations differ from a GPU's by at most the sum of both error bounds", "[gpu]") {
  const OnGpu gpu;
  if (!gpu || gpu.is_fake()) {
    WARN("skipped: there is no GPU to compare with");
    return;
  }
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  struct Case {
    const char* text;
    double relative, absolute; // bounds of one implementation; satisfying one of them is enough
  };
  const Case cases[] = {
      {"ex2.approx.ftz.f32 %d, %a;", 0x1p-22, 0}, {"lg2.approx.f32 %d, %a;", 0x1p-22, 0x1p-22},
      {"sin.approx.f32 %d, %a;", 0, 0x1p-20},     {"cos.approx.f32 %d, %a;", 0, 0x1p-20},
      {"tanh.approx.f32 %d, %a;", 0x1p-10, 0},    {"rsqrt.approx.f32 %d, %a;", 0x1p-21, 0},
      {"rcp.approx.f32 %d, %a;", 0x1p-22, 0},     {"sqrt.approx.f32 %d, %a;", 0x1p-22, 0},
  };
  Words in(std::size_t{blocks} * threads);
  for (int round = 0; round < 50; ++round)
    for (const Case& c : cases) {
      for (auto& w : in) // normal numbers up to pi, for which all of these have an error bound
        w = std::bit_cast<std::uint32_t>(
            static_cast<float>(static_cast<double>(random() % 6'000'001 + 1) / 2e6 - 1.5));
      const std::string ptx = one_approximation(c.text);
      const Words found = execute(ptx, in), expected = emulate(ptx, in, 0);
      for (std::size_t n = 0; n < in.size(); ++n) {
        const double a = std::bit_cast<float>(found[n]), b = std::bit_cast<float>(expected[n]);
        CAPTURE(c.text, std::bit_cast<float>(in[n]), a, b);
        if (a != a || std::isinf(a))
          REQUIRE((a == b || (a != a && b != b)));
        else
          REQUIRE(std::fabs(a - b) <= std::max(2 * c.relative * std::fabs(b), 2 * c.absolute));
      }
    }
}
