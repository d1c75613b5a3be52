// Tests sin, cos and tan of small and huge angles in the same tile, on the device of KILN_TEST_DEVICE and on
// emulated GPUs. On GPUs, the elements of a thread share the code of the long argument reduction
// (jit/gpu/emit/rolled.cpp).
#include "on_device.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <kiln/kiln.h>
#include <limits>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

// The error of `got` in units in the last place of the exact value; 0 if both are NaN.
template <class T> double ulps(T got, long double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  const T near = static_cast<T>(exact);
  const T unit = std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
  return static_cast<double>(std::fabs(got - exact) / unit);
}

} // namespace

TEMPLATE_TEST_CASE("sin, cos and tan take near and huge angles in one tile", "", float, double) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // `of_row` has one angle for each row, so that several elements have the same angle.
  const auto angles = kernel("angles", [](View<const TestType, 2> x, View<const TestType, 1> of_row,
                                          View<TestType, 2> s, View<TestType, 2> c, View<TestType, 2> t) {
    auto [i, j] = program_tile(x, BM, BN);
    Tile a = x.tile(i, j).load();
    s.tile(i, j).store(sin(a));
    c.tile(i, j).store(cos(a) + expand<1>(sin(of_row.tile(i).load())) * TestType(0));
    t.tile(i, j).store(tan(a));
  });
  const std::int64_t rows = 5, columns = 67;
  auto x = Tensor<TestType, 2>::zeros({rows, columns});
  auto of_row = Tensor<TestType, 1>::zeros({rows});
  // One row has no huge angle, one has a single one, and the others have only huge angles, infinities and
  // NaN.
  std::uniform_real_distribution<double> near(-1e4, 1e4),
      exponent(16, std::numeric_limits<TestType>::max_exponent - 1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const double huge = std::ldexp(1 + std::fabs(near(random)) / 1e4, static_cast<int>(exponent(random)));
      const bool far = i == 1 ? j == 40 : i >= 2;
      x.data()[i * columns + j] = static_cast<TestType>(far ? (random() % 2 ? huge : -huge) : near(random));
    }
  x.data()[3 * columns + 2] = std::numeric_limits<TestType>::infinity();
  x.data()[3 * columns + 3] = -std::numeric_limits<TestType>::infinity();
  x.data()[4 * columns + 4] = std::numeric_limits<TestType>::quiet_NaN();
  for (std::int64_t i = 0; i < rows; ++i)
    of_row.data()[i] = static_cast<TestType>(i < 3 ? i : 1e6 * static_cast<double>(i));

  for (const Device& device : {test::test_device(), Device::emulated("sm_80"), Device::emulated("sm_90a")}) {
    auto on_device = x.to(device);
    auto rows_on_device = of_row.to(device);
    auto s = Tensor<TestType, 2>::zeros(device, {rows, columns}),
         c = Tensor<TestType, 2>::zeros(device, {rows, columns}),
         t = Tensor<TestType, 2>::zeros(device, {rows, columns});
    Stream stream(device);
    angles.launch(stream, {BM = 4, BN = 64}, on_device, rows_on_device, s, c, t);
    stream.synchronize();
    auto sines = s.to(Device::cpu()), cosines = c.to(Device::cpu()), tangents = t.to(Device::cpu());
    const double bound = sizeof(TestType) == 4 ? 2 : 4;
    for (std::int64_t k = 0; k < rows * columns; ++k) {
      const long double angle = x.data()[k];
      CAPTURE(to_string(device), k, x.data()[k], sines.data()[k], cosines.data()[k], tangents.data()[k]);
      REQUIRE(ulps(sines.data()[k], std::sin(angle)) <= bound);
      REQUIRE(ulps(cosines.data()[k], std::cos(angle)) <= bound);
      REQUIRE(ulps(tangents.data()[k], std::tan(angle)) <= bound);
    }
  }
}
