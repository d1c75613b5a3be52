// Declares the softmax of the rows of a matrix.
//
//   ops::softmax(stream, x, y);              // x and y are [M, N]; y may be x
//
// Dtypes: f32, f64, bf16 and f16, the same for both tensors; the computation is in f32 (f64 for f64). The
// largest element of each row is subtracted first, so that nothing overflows. An element of -infinity gives
// zero; a row in which all elements are -infinity gives NaN. Extents and strides are arbitrary; contiguous
// rows are fastest.
//
// Errors: softmax throws UserError if the extents differ, if y overlaps x without being x, or if several
// indices of y refer to the same element. It returns when the work is queued on the stream, and is
// thread-safe.
//
// The config is the one that `kiln tune softmax` found for the sizes and layouts, or else one that depends on
// the width of the rows. KILN_TUNE (see autotune/mode.h) determines which configs are looked up.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

#define KILN_OPS_SOFTMAX(T)                                                                                  \
  void softmax(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y);
KILN_OPS_ELEMENTS(KILN_OPS_SOFTMAX)
#undef KILN_OPS_SOFTMAX

// The kernels that softmax launches. Their dimensions are BM (rows) and BN (columns). The first one requires
// that BN is at least as wide as the rows, and reads them once; the looped one works for any BN.
template <class T> using SoftmaxKernel = Kernel<View<const T, 2>, View<T, 2>>;
template <class T> const SoftmaxKernel<T>& softmax_kernel();
template <class T> const SoftmaxKernel<T>& softmax_looped_kernel();

} // namespace kiln::ops
KILN_API_END
