// Kernels that show what a device can do at best, and how long they take. Each throws Stopped, and what a
// launch throws.
#pragma once

#include <kiln/autotune/analytic/timed.h>
#include <kiln/dsl/config.h>

#include <cstdint>

namespace kiln::tune {

// Seconds of a copy whose source and target have so many bytes together.
double copy_seconds(Timed& timed, std::int64_t bytes, std::int64_t tile);
// Seconds of a launch of so many programs with next to nothing to do.
double empty_seconds(Timed& timed, std::int64_t programs);

struct ProductSizes {
  std::int64_t m, n, k;
};
// Flops a second of dots of T whose sums are of A: of float, double, bf16 and std::int8_t. The matrices are
// zeros on the CPU; elsewhere not, since a GPU's power, and with it its clock, goes by the bits that change.
template <class T, class A> double dot_rate(Timed& timed, const ProductSizes& sizes, const Config& config);

// Flops a second of products and sums by turns; `steps`, 32 or 256, is how many of each an element takes.
template <int steps> double elementwise_rate(Timed& timed, std::int64_t elements, std::int64_t tile);

} // namespace kiln::tune
