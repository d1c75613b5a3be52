// Declares softmax and its logarithm along one axis of a tensor, and their gradients.
//
//   ops::softmax(stream, x, y);                            // along the last axis; y may be x
//   ops::softmax(stream, x, y, {.axis = 1});
//   ops::log_softmax(stream, logits, y);
//   ops::softmax_backward(stream, y, dy, dx);              // y: the result of softmax; dx may be dy
//
// The tensors of a call have the same extents, any rank from 1 to 8 and any strides. A row is the elements
// along `axis`; contiguous rows are fastest. Each tensor has a float dtype of its own; the computation is in
// f32, or in f64 if a tensor is of f64. The largest element of each row is subtracted first, so that nothing
// overflows. An element of -infinity gives zero, or -infinity for log_softmax; a row in which all elements
// are -infinity gives NaN.
//
// Errors: the functions throw UserError if the extents differ, if there is no such axis, if the result
// overlaps an input without being that tensor, or if several indices of the result refer to the same element.
// They return when the work is queued on the stream, and are thread-safe.
//
// The config is the one that the tuner found for the sizes and layouts (see "Tuning" in ops/README), or else
// one that depends on the width of the rows. KILN_TUNE (see autotune/mode.h) determines which configs are
// looked up.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

struct SoftmaxOptions {
  int axis = -1; // counts from the last axis if negative
  // Whether the bits of a row do not depend on the number of rows, as long as the strides are the same, and
  // the axes in front of the row merge to one in all of the calls, as those of contiguous tensors do, or in
  // none.
  bool batch_invariant = false;
};

void softmax(detail::StreamAt stream, const Input& x, const Output& y, SoftmaxOptions options = {});
void log_softmax(detail::StreamAt stream, const Input& x, const Output& y, SoftmaxOptions options = {});

// Compute the gradient dx with respect to x from the result y and the gradient dy with respect to y:
// dx = y (dy - sum(y dy)) for softmax, and dx = dy - exp(y) sum(dy) for log_softmax. dx may be y or dy.
void softmax_backward(detail::StreamAt stream, const Input& y, const Input& dy, const Output& dx,
                      SoftmaxOptions options = {});
void log_softmax_backward(detail::StreamAt stream, const Input& y, const Input& dy, const Output& dx,
                          SoftmaxOptions options = {});

} // namespace kiln::ops
KILN_API_END
