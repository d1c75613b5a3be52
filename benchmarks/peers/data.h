// Makes random operands, and results that hold poison until a kernel writes them.
#pragma once

#include <kiln/kiln.h>

#include "samples/support.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace benchmarks {

using samples::Error;

template <class T> const char* dtype_name() {
  return std::is_same_v<T, float> ? "f32" : std::is_same_v<T, kiln::bf16> ? "bf16" : "i8";
}

// Uniform in [-1, 1), or integers from -64 to 63, with which no CPU's 8-bit products saturate.
template <class T, int Rank> kiln::Tensor<T, Rank> random(const kiln::Extent (&extents)[Rank]) {
  static std::uint64_t state = std::random_device{}() | 1u;
  auto t = kiln::Tensor<T, Rank>::empty(extents);
  for (T& x : t) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if constexpr (std::is_integral_v<T>)
      x = static_cast<T>(static_cast<std::int64_t>(state >> 57) - 64);
    else
      x = T(static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f);
  }
  return t;
}

// NaN, or the smallest integer, which is not the result of any product here.
template <class T> T poison() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::min();
  else
    return T(NAN);
}
template <class T, int Rank> kiln::Tensor<T, Rank> poisoned(const kiln::Extent (&extents)[Rank]) {
  auto t = kiln::Tensor<T, Rank>::empty(extents);
  t.fill(poison<T>());
  return t;
}

template <class T> double number(T x) {
  if constexpr (std::is_same_v<T, kiln::bf16>)
    return static_cast<double>(float(x));
  else
    return static_cast<double>(x);
}

// About `count` random indices below n, the first and the last among them.
inline std::vector<std::int64_t> some_indices(std::int64_t n, std::int64_t count) {
  static std::mt19937_64 random{std::random_device{}()};
  std::vector<std::int64_t> indices{0, n - 1};
  for (std::int64_t i = 2; i < count; ++i)
    indices.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)));
  return indices;
}

} // namespace benchmarks
