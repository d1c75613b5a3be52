// Declares matrix products with a fused epilogue, also of batches.
//
//   ops::matmul(stream, a, b, c);                                  // a is [M, K], b is [K, N], c is [M, N]
//   ops::matmul(stream, a, b, c, {.activation = ops::Activation::gelu});
//   ops::linear(stream, x, weight, bias, y);                       // weight is [K, N], bias is [N]
//   ops::linear(stream, x, torch_weight.transpose(), bias, y);     // for a weight that is [N, K]
//   ops::matmul(stream, q, k.transpose(), scores, {.alpha = 0.125});   // [B, H, M, K], [B, H, N, K]
//
// The last two axes of a, b and c are those of the matrices; the axes in front of them are batches, to which
// a and b broadcast. Strides are arbitrary; contiguous rows are fastest. The result is
//
//   activation(alpha (a b) + bias) * times + residual + beta c
//
// where bias is [N], and times and residual have the extents of c. If K is 0, a b is 0. c is not read unless
// beta is given. residual and times may be c.
//
// Each tensor has a float dtype of its own. Products of two tensors of one dtype use the instructions that
// the device has for it, sums are in f32 (f64 if a tensor is of f64), and the result is rounded once. If a
// and b are i8 or u8 and c is i32, sums are exact in i32, and there is no epilogue but beta = 1.
//
// Errors: the functions throw UserError if the extents do not match, if the result overlaps an operand in a
// way that is not named above, or if several indices of the result refer to the same element. They return
// when the work is queued on the stream, and are thread-safe.
//
// The config is the one that `kiln tune matmul` found for the sizes and layouts, or else that of
// matmul_config. KILN_TUNE (see autotune/mode.h) determines which configs are looked up; with `off`,
// matmul_config is always used.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

struct MatmulOptions {
  Activation activation = Activation::none;
  double alpha = 1, beta = 0;
  Input bias = {}, times = {}, residual = {};
};

void matmul(detail::StreamAt stream, const Input& a, const Input& b, const Output& c,
            const MatmulOptions& options = {});
// The same as matmul with a bias: y = activation(x weight + bias).
void linear(detail::StreamAt stream, const Input& x, const Input& weight, const Input& bias, const Output& y,
            const MatmulOptions& options = {});

// Returns the config that matmul and linear use for a product of these extents if the tuner does not know
// one.
Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);

} // namespace kiln::ops
KILN_API_END
