// Declares fused elementwise ops on matrices: activation functions, and gated ones as in SwiGLU.
//
//   ops::activation(stream, x, y, ops::Activation::gelu);         // y = gelu(x)
//   ops::activation_mul(stream, gate, up, y);                     // y = silu(gate) * up
//
// All tensors are [M, N]; y may be one of the inputs. Dtypes: f32, f64, bf16 and f16, the same for all
// tensors. The functions compute in f32 (f64 for f64) and round the result once. Extents and strides are
// arbitrary; contiguous matrices are fastest. For other expressions use `assign` (see
// jit/runtime/assign/assign.h).
//
// Errors: the functions throw UserError if the extents differ, if y overlaps an input without being that
// input, or if several indices of y refer to the same element. They return when the work is queued on the
// stream, and are thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

#define KILN_OPS_ELEMENTWISE(T)                                                                              \
  void activation(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y,                     \
                  Activation activation);                                                                    \
  void activation_mul(detail::StreamAt stream, TensorView<const T, 2> gate, TensorView<const T, 2> up,       \
                      TensorView<T, 2> y, Activation activation = Activation::silu);
KILN_OPS_ELEMENTS(KILN_OPS_ELEMENTWISE)
#undef KILN_OPS_ELEMENTWISE

// The kernels that activation and activation_mul launch. Their dimensions are BM (rows) and BN (columns).
template <class T> using ActivationKernel = Kernel<View<const T, 2>, View<T, 2>>;
template <class T> using ActivationMulKernel = Kernel<View<const T, 2>, View<const T, 2>, View<T, 2>>;
template <class T> const ActivationKernel<T>& activation_kernel(Activation activation);
template <class T> const ActivationMulKernel<T>& activation_mul_kernel(Activation activation);

} // namespace kiln::ops
KILN_API_END
