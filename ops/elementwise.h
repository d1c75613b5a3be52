// Declares fused elementwise ops: activation functions, and gated ones as in SwiGLU.
//
//   ops::activation(stream, x, y, ops::Activation::gelu);         // y = gelu(x)
//   ops::activation_mul(stream, gate, up, y);                     // y = silu(gate) * up
//
// Tensors of any rank up to 8 and any strides; the inputs broadcast to y, and y may be one of them. Each has
// a float dtype of its own. The functions compute in f32, or in f64 if a tensor is of f64, and round the
// result once. For other expressions use `assign` (see jit/runtime/assign/assign.h).
//
// Errors: the functions throw UserError if the extents do not broadcast, or if several indices of y refer to
// the same element. They return when the work is queued on the stream, and are thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

void activation(detail::StreamAt stream, const Input& x, const Output& y, Activation activation);
void activation_mul(detail::StreamAt stream, const Input& gate, const Input& up, const Output& y,
                    Activation activation = Activation::silu);

} // namespace kiln::ops
KILN_API_END
