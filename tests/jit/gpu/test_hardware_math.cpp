// Tests exp, exp2 and rsqrt of the GPU back end on a simulated machine with approximations off by an ulp.
#include "simulated_device.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BN);

// The difference between a result and the exact value, in units of the distance between floats there.
double ulps(float found, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(found) ? 0 : INFINITY;
  if (!std::isfinite(rounded) || !std::isfinite(found)) return found == rounded ? 0 : INFINITY;
  const double ulp = static_cast<double>(std::nextafter(std::abs(rounded), INFINITY)) - std::abs(rounded);
  return std::abs(found - exact) / ulp;
}

using Function = double (*)(double);

void compare(const char* name, const std::shared_ptr<ir::Kernel>& recorded, Function function,
             std::uint64_t seed, float scale) {
  CAPTURE(name, seed);
  constexpr std::size_t count = 4096;
  auto lowered = passes::lower_generic(*recorded, {Config{BN = static_cast<std::int64_t>(count)},
                                                   {LayoutClass::Aligned, LayoutClass::Aligned}});
  test::SimulatedKernel simulated(*lowered, 4);
  std::mt19937_64 random(seed);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  alignas(16) static float x[count], y[count];
  const float special[] = {0.0f,    -0.0f,   1.0f,      -1.0f,   infinity, -infinity, NAN,
                           1e-40f,  -1e-40f, 88.7228f,  88.723f, 100.0f,   1e30f,     -87.3f,
                           -87.4f,  -103.9f, -104.1f,   -1e30f,  127.99f,  128.0f,    -126.5f,
                           -149.2f, -151.0f, 0x1p-126f, 0x1p127f};
  for (std::size_t i = 0; i < count; ++i)
    x[i] = i < std::size(special) ? special[i]
           : i % 2                ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
                   : scale * static_cast<float>(std::uniform_real_distribution<>(-1, 1)(random));
  auto word = [](auto v) { return reinterpret_cast<std::uint64_t>(v); };
  const std::uint64_t words[] = {word(+x), count, 1, word(+y), count, 1};
  simulated.run(words, {1}, false, seed);
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(x[i], y[i], function(x[i]));
    REQUIRE(ulps(y[i], function(x[i])) <= 2);
  }
}

template <class F> std::shared_ptr<ir::Kernel> map(F f) {
  return record("map", [=](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    y.tile(i).store(f(x.tile(i).load()));
  });
}

} // namespace

TEST_CASE("exp, exp2 and rsqrt of f32 are within 2 ulp on a simulated GPU") {
  if (!test::simulates) return; // TSan does not follow fibers
  const std::uint64_t seed = test::fresh_seed();
  compare("exp", map([](auto x) { return exp(x); }), [](double x) { return std::exp(x); }, seed, 110);
  compare("exp2", map([](auto x) { return exp2(x); }), [](double x) { return std::exp2(x); }, seed, 152);
  compare(
      "rsqrt", map([](auto x) { return rsqrt(x); }), [](double x) { return 1 / std::sqrt(x); }, seed, 1e3f);
}
