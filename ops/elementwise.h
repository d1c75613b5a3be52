// Fused elementwise ops on matrices.
//
//   ops::activation(stream, x, y, ops::Activation::gelu);         // y = gelu(x); y may be x
//   ops::activation_mul(stream, gate, up, y);                     // y = silu(gate) * up, as in SwiGLU
//
// f32, f64, bf16 and f16, computed in f32 (f64 in f64). Any strides; contiguous matrices are fastest. For
// other expressions write `assign` (see jit/runtime/assign/assign.h). UserError if the extents differ, or if y
// overlaps another tensor in part. Return when the work is queued. Thread-safe.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops {

#define KILN_OPS_ELEMENTWISE(T)                                                                              \
  void activation(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y,                     \
                  Activation activation);                                                                    \
  void activation_mul(detail::StreamAt stream, TensorView<const T, 2> gate, TensorView<const T, 2> up,       \
                      TensorView<T, 2> y, Activation activation = Activation::silu);
KILN_OPS_ELEMENTS(KILN_OPS_ELEMENTWISE)
#undef KILN_OPS_ELEMENTWISE

// The kernels behind them, of dimensions BM and BN.
template <class T> using ActivationKernel = Kernel<View<const T, 2>, View<T, 2>>;
template <class T> using ActivationMulKernel = Kernel<View<const T, 2>, View<const T, 2>, View<T, 2>>;
template <class T> const ActivationKernel<T>& activation_kernel(Activation activation);
template <class T> const ActivationMulKernel<T>& activation_mul_kernel(Activation activation);

} // namespace kiln::ops
