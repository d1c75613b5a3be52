// Tests all mathematical functions with NaN, infinities, zeros of both signs, denormals and the largest
// numbers.
#include "error_test.h"
#include "exact_gelu.h"
#include "test_seed.h"

#include <kiln/dsl/function_list.h>

#include <cmath>
#include <limits>
#include <random>
#include <string_view>

using namespace kiln;

namespace {

KILN_DIM(BN);

namespace exact {

using namespace std;
long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double gelu(long double x) { return kiln::test::exact_gelu(x); }
long double rsqrt(long double x) { return 1 / std::sqrt(x); }
long double round(long double x) { return std::nearbyint(x); } // ties to even

} // namespace exact

template <class T> std::vector<T> unusual_numbers(std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0),
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::denorm_min(),
                           Limits::denorm_min() * 3,
                           Limits::min(),
                           Limits::min() - Limits::denorm_min(),
                           Limits::max(),
                           Limits::epsilon(),
                           T(0.5),
                           T(1),
                           T(1.5),
                           T(2),
                           T(2.5),
                           T(88.5),
                           T(103.5),
                           T(710),
                           T(1e6)};
  std::uniform_int_distribution<std::int64_t> mantissa(1, 1 << 22);
  for (int i = 0; i < 10; ++i)
    values.push_back(Limits::denorm_min() * static_cast<T>(mantissa(random)));
  for (std::size_t i = 0, n = values.size(); i < n; ++i)
    values.push_back(-values[i]);
  return values;
}

// The error of `got` in units in the last place of T. All denormals have the same unit.
template <class T> double ulps(T got, long double exact) {
  const T near = static_cast<T>(exact);
  if (std::isnan(near) || std::isnan(got)) return std::isnan(near) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(near) || std::isinf(got)) {
    // The largest finite number and infinity count as neighbours.
    const T finite = std::numeric_limits<T>::max();
    return near == got || (std::fabs(near) >= finite && std::fabs(got) >= finite && (near > 0) == (got > 0))
               ? 0
               : INFINITY;
  }
  const T unit = std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
  return static_cast<double>(std::fabs(got - exact) / unit);
}

template <class T, class Function, class Reference>
void check(const char* name, const std::vector<T>& x, const std::vector<T>& y, Function function,
           Reference reference) {
  const auto tested = kernel(name, [&](View<const T, 1> x, View<const T, 1> y, View<T, 1> z) {
    auto [i] = program_tile(z, BN);
    z.tile(i).store(function(x.tile(i).load(), y.tile(i).load()));
  });
  const double bound = std::string_view(name) == "gelu" ? 8 : 4;
  std::vector<T> z(x.size());
  Stream stream;
  tested.launch(stream, {BN = 32}, TensorView(x), TensorView(y), TensorView(z));
  stream.synchronize();
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(name, i, x[i], y[i], z[i]);
    REQUIRE(ulps(z[i], reference(static_cast<long double>(x[i]), static_cast<long double>(y[i]))) <= bound);
  }
}

} // namespace

TEMPLATE_TEST_CASE("math functions of unusual numbers", "", float, double) {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto values = unusual_numbers<TestType>(random);
#define CHECK_FUNCTION(NAME, OPERATION)                                                                      \
  check(                                                                                                     \
      #NAME, values, values, [](auto x, auto) { return kiln::NAME(x); },                                     \
      [](long double x, long double) { return exact::NAME(x); });
  KILN_FLOAT_FUNCTIONS(CHECK_FUNCTION)
#undef CHECK_FUNCTION
  std::vector<TestType> x, y;
  for (TestType a : values)
    for (TestType b : values)
      x.push_back(a), y.push_back(b);
#define CHECK_FUNCTION(NAME, OPERATION)                                                                      \
  check(                                                                                                     \
      #NAME, x, y, [](auto a, auto b) { return kiln::NAME(a, b); },                                          \
      [](long double a, long double b) { return std::NAME(a, b); });
  KILN_FLOAT_BINARY_FUNCTIONS(CHECK_FUNCTION)
#undef CHECK_FUNCTION
}
