// Declares the normalisation of the rows of a matrix: layernorm and rmsnorm.
//
//   ops::layernorm(stream, x, gamma, beta, y);           // (x - mean) / sqrt(variance + eps) * gamma + beta
//   ops::rmsnorm(stream, x, gamma, y, {.eps = 1e-6});    // x / sqrt(mean of x^2 + eps) * gamma
//
// x and y are [M, N]; gamma and beta are [N]; y may be x. Dtypes: f32, f64, bf16 and f16, the same for all
// tensors; the computation is in f32 (f64 for f64). The variance is the mean of the squared differences from
// the mean. Extents and strides are arbitrary; contiguous rows are fastest.
//
// Errors: the functions throw UserError if the extents do not match, if y overlaps x without being x, if y
// overlaps gamma or beta, or if several indices of y refer to the same element. They return when the work is
// queued on the stream, and are thread-safe.
//
// The config of layernorm is the one that `kiln tune layernorm` found for the sizes and layouts; KILN_TUNE
// (see autotune/mode.h) determines which configs are looked up. Otherwise, and always for rmsnorm, the config
// depends on the width of the rows.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

struct NormOptions {
  double eps = 1e-5; // added to the variance, or to the mean of squares
};

#define KILN_OPS_NORM(T)                                                                                     \
  void layernorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,            \
                 TensorView<const T, 1> beta, TensorView<T, 2> y, NormOptions options = {});                 \
  void rmsnorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,              \
               TensorView<T, 2> y, NormOptions options = {});
KILN_OPS_ELEMENTS(KILN_OPS_NORM)
#undef KILN_OPS_NORM

// The kernels that layernorm and rmsnorm launch. Their dimensions are BM (rows) and BN (columns), and their
// last parameter is eps. The first kernel of each kind requires that BN is at least as wide as the rows, and
// reads them once; the looped kernel works for any BN.
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
KILN_API_END
