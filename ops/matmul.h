// Declares matrix products with a fused epilogue: c = activation(a b + bias).
//
//   ops::matmul(stream, a, b, c);                                  // a is [M, K], b is [K, N], c is [M, N]
//   ops::matmul(stream, a, b, c, {.activation = ops::Activation::gelu});
//   ops::linear(stream, x, weight, bias, y);                       // weight is [K, N], bias is [N]
//   ops::linear(stream, x, torch_weight.transpose(), bias, y);     // for a weight that is [N, K]
//
// Dtypes: f32, f64, bf16 and f16, the same for all tensors. Sums accumulate in f32 (f64 for f64); bias and
// activation are applied to the sums, which are then rounded to the dtype. Extents and strides are arbitrary;
// contiguous rows are fastest. If K is 0, the result is activation(bias), or activation(0).
//
// Errors: the functions throw UserError if the extents do not match, if the result overlaps an operand, or if
// several indices of the result refer to the same element. They return when the work is queued on the stream,
// and are thread-safe.
//
// The config is the one that `kiln tune matmul` found for the sizes and layouts, or else that of
// matmul_config. KILN_TUNE (see autotune/mode.h) determines which configs are looked up; with `off`,
// matmul_config is always used.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/detail/element.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
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

// The kernels that matmul and linear launch, for use with other configs (their dimensions are BM, BN and BK)
// or in the tuner.
template <class T> using MatmulKernel = Kernel<View<const T, 2>, View<const T, 2>, View<T, 2>>;
template <class T>
using LinearKernel = Kernel<View<const T, 2>, View<const T, 2>, View<const T, 1>, View<T, 2>>;
template <class T> const MatmulKernel<T>& matmul_kernel(Activation activation = Activation::none);
template <class T> const LinearKernel<T>& linear_kernel(Activation activation = Activation::none);

// Returns the config that matmul and linear use for a product of these extents if the tuner does not know
// one.
Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);

} // namespace kiln::ops
KILN_API_END
