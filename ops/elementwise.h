// Declares fused elementwise ops: activation functions, gated ones as in SwiGLU, their gradients, and
// dropout.
//
//   ops::activation(stream, x, y, ops::Activation::gelu);         // y = gelu(x)
//   ops::activation_mul(stream, gate, up, y);                     // y = silu(gate) * up
//   ops::activation_backward(stream, x, dy, dx, ops::Activation::gelu);
//   ops::activation_mul_backward(stream, gate, up, dy, dgate, dup);
//   ops::dropout(stream, x, y, {.probability = 0.1, .seed = step});
//   ops::dropout(stream, dy, dx, {.probability = 0.1, .seed = step});     // its gradient
//
// Tensors of any rank up to 8 and any strides. Each has a float dtype of its own. The functions compute in
// f32, or in f64 if a tensor is of f64, and round the result once. For other expressions use `assign` (see
// jit/runtime/assign/assign.h).
//
// Errors: the functions throw UserError if the extents do not match, if a result overlaps an input in a way
// that is not named below, or if several indices of it refer to the same element. They return when the work
// is queued on the stream, and are thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

// The inputs broadcast to y, which may be one of them or overlap them.
void activation(detail::StreamAt stream, const Input& x, const Output& y, Activation activation);
void activation_mul(detail::StreamAt stream, const Input& gate, const Input& up, const Output& y,
                    Activation activation = Activation::silu);

// Computes dx = dy times the derivative at x, which the forward call got. At 0, the derivative of relu is 0.
// x and dy broadcast to dx, which may be one of them or overlap them.
void activation_backward(detail::StreamAt stream, const Input& x, const Input& dy, const Output& dx,
                         Activation activation);
// Computes dgate = dy * up times the derivative at gate, and dup = dy * activation(gate). All tensors have
// the same extents. `{}` leaves out a result. A result may be any of the inputs, such as dgate gate and dup
// up.
void activation_mul_backward(detail::StreamAt stream, const Input& gate, const Input& up, const Input& dy,
                             const Output& dgate, const Output& dup,
                             Activation activation = Activation::silu);

struct DropoutOptions {
  double probability = 0.5; // of an element to become zero, from 0 to 1
  std::uint64_t seed = 0;
  // If x is a part of a larger tensor, such as the part of one rank, these make the call drop the elements
  // that a call with the whole tensor would drop: the number of x's first element in the whole tensor, whose
  // elements are numbered in row-major order, and the extent of its last axis (0: that of x). For a matrix
  // with n columns, the rows from r on have {.first = r * n}, and the columns from c on have {.first = c,
  // .whole_columns = n}.
  std::int64_t first = 0, whole_columns = 0;
};
// Sets elements to zero at random, and divides the others by 1 - probability. x and y have the same extents;
// y may be x. The element with number i becomes zero if rand(seed, i) < probability (see dsl/random.h),
// regardless of strides, dtypes and device. So the gradient is dropout of dy with the same options. The
// number of an element is first + row * whole_columns + column, where `column` is its index along the last
// axis, and `row` numbers the indices along the other axes in row-major order.
void dropout(detail::StreamAt stream, const Input& x, const Output& y, const DropoutOptions& options = {});

} // namespace kiln::ops
KILN_API_END
