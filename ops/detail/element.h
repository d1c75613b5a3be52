// Defines the element types of ops and the types in which they compute.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>

#include <type_traits>

KILN_API_BEGIN
// Expands to X(T) for each element type.
#define KILN_OPS_ELEMENTS(X) X(float) X(double) X(bf16) X(f16)

namespace kiln::ops::detail {

// The type in which an op computes: f64 for f64, f32 for the others.
template <class T> using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

} // namespace kiln::ops::detail
KILN_API_END
