// Measures the best rates of a device with kernels that copy, multiply and compute elementwise.
//
// Each function throws Stopped and the errors of launches.
#pragma once

#include <kiln/autotune/analytic/timed.h>
#include <kiln/dsl/config.h>

#include <cstdint>

namespace kiln::tune {

// Returns the seconds of a copy whose source and target have `bytes` bytes together.
double copy_seconds(Timed& timed, std::int64_t bytes, std::int64_t tile);
// Returns the seconds of a launch of `programs` programs that do almost nothing.
double empty_seconds(Timed& timed, std::int64_t programs);

struct ProductSizes {
  std::int64_t m, n, k;
};
// Returns the flops per second of dots with factors of type T and sums of type A, for T = float, double, bf16
// and std::int8_t. On the CPU the matrices are zero. Elsewhere they are not, since a GPU's power, and hence
// its clock, depends on how many bits change.
template <class T, class A> double dot_rate(Timed& timed, const ProductSizes& sizes, const Config& config);

// Returns the flops per second of alternating products and sums. Each element takes `steps` (32 or 256) of
// each.
template <int steps> double elementwise_rate(Timed& timed, std::int64_t elements, std::int64_t tile);

} // namespace kiln::tune
