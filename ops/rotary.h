// Declares rotary position embedding, which rotates pairs of elements of a head by angles that grow with the
// token's position (Su et al., "RoFormer", arXiv 2104.09864), and its gradient.
//
//   ops::rotary(stream, q, q);                                     // [B, H, T, D]; token t is at position t
//   ops::rotary(stream, k, k, {.positions = p});                   // p: [T], or [B, 1, T]
//   ops::rotary(stream, x, y, {.pairs = ops::RotaryPairs::interleaved, .width = 64, .offset = 9});
//   ops::rotary(stream, x, y, {.cos = c, .sin = s});               // tables [positions, width / 2]
//
// x and y are [.., tokens, head size], with equal extents, ranks 1 to 8 and any strides; y may be x. Pair j
// of a token at position p is rotated by the angle p * theta^(-2 j / width), in radians, or by the angle
// whose cosine and sine are element [p, j] of the tables:
//
//   first' = first * cos - second * sin,   second' = second * cos + first * sin
//
// where first and second are the elements of the pair. Elements of a head from `width` on are copied. Each
// tensor has a float dtype of its own. The rotation is computed in f32 (f64 if a tensor is of f64), and the
// angle in f64, so that it is accurate for every position.
//
// With KILN_DEBUG=1, a position outside of the tables is an error of the stream; without it, the rotated
// elements of such a token become zero.
//
// Errors: the functions throw UserError if extents or dtypes do not match, if the width is odd or exceeds the
// head size, if only one of cos and sin is given, if y overlaps an input without being x, or if several
// indices of y refer to the same element. They return when the work is queued on the stream, and are
// thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/rotary_options.h>

KILN_API_BEGIN
namespace kiln::ops {

void rotary(detail::StreamAt stream, const Input& x, const Output& y, const RotaryOptions& options = {});
// Computes the gradient dx with respect to x from dy, that with respect to y: it rotates by the opposite
// angles. Pass the options of the forward call. dx may be dy.
void rotary_backward(detail::StreamAt stream, const Input& dy, const Output& dx,
                     const RotaryOptions& options = {});

} // namespace kiln::ops
KILN_API_END
