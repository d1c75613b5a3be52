// Softmax over the rows of a matrix of any width.
//
//   ops::softmax(stream, x, y);              // y may be x
//
// f32, f64, bf16 and f16, computed in f32 (f64 in f64). A row's largest element is subtracted first, so
// nothing overflows; elements of -infinity give zero, and a row of nothing else gives NaN. Any strides;
// contiguous rows are fastest. UserError if the extents differ, or if y overlaps
// another tensor in part. Returns when the work is queued. Thread-safe.
//
// The config is what `kiln tune softmax` found for the sizes and layouts, else one by the rows' width;
// KILN_TUNE (autotune/mode.h) says what is asked.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops {

#define KILN_OPS_SOFTMAX(T)                                                                                  \
  void softmax(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y);
KILN_OPS_ELEMENTS(KILN_OPS_SOFTMAX)
#undef KILN_OPS_SOFTMAX

// The kernels behind it, of dimensions BM (rows) and BN (columns): one for BN at least as wide as the rows,
// which reads them once, and one for any BN.
template <class T> using SoftmaxKernel = Kernel<View<const T, 2>, View<T, 2>>;
template <class T> const SoftmaxKernel<T>& softmax_kernel();
template <class T> const SoftmaxKernel<T>& softmax_looped_kernel();

} // namespace kiln::ops
