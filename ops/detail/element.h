// The element types of ops, and what each computes in.
#pragma once

#include <kiln/dsl/dtype.h>

#include <type_traits>

// X(T) for each element type that every op takes.
#define KILN_OPS_ELEMENTS(X) X(float) X(double) X(bf16) X(f16)

namespace kiln::ops::detail {

// 16-bit floats are for memory: sums, exponentials and products are in f32.
template <class T> using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

} // namespace kiln::ops::detail
