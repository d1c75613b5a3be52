// Matrix products with a fused epilogue: c = activation(a b + bias).
//
//   ops::matmul(stream, a, b, c);                                             // [M, K] by [K, N]
//   ops::matmul(stream, a, b, c, {.activation = ops::Activation::gelu});
//   ops::linear(stream, x, weight, bias, y);                                  // bias: [N]
//   ops::linear(stream, x, torch_weight.transpose(), bias, y);                // weights as [N, K]
//
// f32, f64, bf16 and f16; sums are in f32, for f64 in f64, and the epilogue is computed on the sums. Any
// extents and strides; contiguous rows are fastest. An empty K gives activation(bias). UserError if the
// extents do not match, if the result overlaps an operand, or if several of its indices are one element.
// Returns when the work is queued. Thread-safe.
//
// The config is what `kiln tune matmul` found for the sizes and layouts, else matmul_config's; KILN_TUNE
// (autotune/mode.h) says what is asked, and `off` makes it matmul_config's always.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops {

struct MatmulOptions {
  Activation activation = Activation::none;
};

#define KILN_OPS_MATMUL(T)                                                                                   \
  void matmul(detail::StreamAt stream, TensorView<const T, 2> a, TensorView<const T, 2> b,                   \
              TensorView<T, 2> c, MatmulOptions options = {});                                               \
  void linear(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 2> weight,              \
              TensorView<const T, 1> bias, TensorView<T, 2> y, MatmulOptions options = {});
KILN_OPS_ELEMENTS(KILN_OPS_MATMUL)
#undef KILN_OPS_MATMUL

// The kernels behind them, to be launched with other configs (dimensions BM, BN and BK), tuned or explained.
template <class T> using MatmulKernel = Kernel<View<const T, 2>, View<const T, 2>, View<T, 2>>;
template <class T>
using LinearKernel = Kernel<View<const T, 2>, View<const T, 2>, View<const T, 1>, View<T, 2>>;
template <class T> const MatmulKernel<T>& matmul_kernel(Activation activation = Activation::none);
template <class T> const LinearKernel<T>& linear_kernel(Activation activation = Activation::none);

// The config that matmul and linear use for a product of these extents where the tuner knows none.
Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);

} // namespace kiln::ops
