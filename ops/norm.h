// Normalisation of the rows of a matrix of any width.
//
//   ops::layernorm(stream, x, gamma, beta, y);           // (x - mean) / sqrt(variance + eps) * gamma + beta
//   ops::rmsnorm(stream, x, gamma, y, {.eps = 1e-6});    // x / sqrt(mean of x^2 + eps) * gamma
//
// f32, f64, bf16 and f16, computed in f32 (f64 in f64); y may be x. The variance is of the differences from
// the mean, not of squares. Any strides; contiguous rows are fastest. UserError if the extents differ, or if
// y overlaps another tensor in part. Return when the work is queued. Thread-safe.
//
// The config is what `kiln tune layernorm` found for the sizes and layouts, else one by the rows' width;
// KILN_TUNE (autotune/mode.h) says what is asked.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops {

struct NormOptions {
  double eps = 1e-5;
};

#define KILN_OPS_NORM(T)                                                                                     \
  void layernorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,            \
                 TensorView<const T, 1> beta, TensorView<T, 2> y, NormOptions options = {});                 \
  void rmsnorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,              \
               TensorView<T, 2> y, NormOptions options = {});
KILN_OPS_ELEMENTS(KILN_OPS_NORM)
#undef KILN_OPS_NORM

// The kernels behind them, of dimensions BM (rows) and BN (columns): for BN at least as wide as the rows,
// which are then read once, and for any BN. Their last parameter is eps.
template <class T>
using LayernormKernel =
    Kernel<View<const T, 2>, View<const T, 1>, View<const T, 1>, View<T, 2>, Scalar<detail::Accumulator<T>>>;
template <class T>
using RmsnormKernel = Kernel<View<const T, 2>, View<const T, 1>, View<T, 2>, Scalar<detail::Accumulator<T>>>;
template <class T> const LayernormKernel<T>& layernorm_kernel();
template <class T> const LayernormKernel<T>& layernorm_looped_kernel();
template <class T> const RmsnormKernel<T>& rmsnorm_kernel();
template <class T> const RmsnormKernel<T>& rmsnorm_looped_kernel();

} // namespace kiln::ops
