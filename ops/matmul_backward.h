// Declares the gradients of matrix products.
//
//   ops::matmul_backward(stream, a, b, dc, da, db);                     // da = dc b^T, db = a^T dc
//   ops::linear_backward(stream, x, weight, dy, dx, dweight, {.dbias = dbias});
//   ops::linear_backward(stream, x, weight, dy, dx, dweight,
//                        {.activation = ops::Activation::gelu, .before = z});          // y = gelu(z)
//
// These are the gradients of c = activation(alpha (a b) + bias) from dc, that of c. a is [.., M, K], b is
// [.., K, N] and dc is [.., M, N]; the axes in front are batches, to which a and b broadcast as in matmul. da
// and db have the extents of a and b, and dbias is [N]: each is summed over the batches that share an
// element. `{}` leaves out a result. The gradient of matmul's `residual` is dc itself.
//
// Each tensor has a float dtype of its own; strides are arbitrary. The gradients are products on transposed
// views, which are computed as matmul.h says, with sums in f32 (f64 if a tensor is of f64) and one rounding.
// A sum over batches is part of the product where the strides allow it, as for contiguous x and dy of a
// linear layer; otherwise there is a product for each batch, and their sums are kept in f32 or f64. With an
// activation, the gradient of its argument is kept in memory in the dtype of dc. The bits are the same from
// run to run.
//
// Errors: the functions throw UserError if extents do not match, or if a result overlaps an input or another
// result. They return when the work is queued on the stream, and are thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/shape.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

struct MatmulBackwardOptions {
  // The activation of the forward call, and its argument, alpha (a b) + bias, with the extents of dc.
  Activation activation = Activation::none;
  Input before = {};
  double alpha = 1;
  Output dbias = {};
  bool accumulate = false;               // adds to what da, db and dbias hold
  Precision precision = Precision::ieee; // of the products of f32; see matmul.h
  // Whether the bits of a row of da are the same for any number of rows, place of the row, batch and number
  // of threads, as in matmul. db and dbias are sums over all rows.
  bool batch_invariant = false;
};

void matmul_backward(detail::StreamAt stream, const Input& a, const Input& b, const Input& dc,
                     const Output& da, const Output& db, const MatmulBackwardOptions& options = {});
// Computes the gradients of ops::linear, for which b is the weight.
void linear_backward(detail::StreamAt stream, const Input& x, const Input& weight, const Input& dy,
                     const Output& dx, const Output& dweight, const MatmulBackwardOptions& options = {});

} // namespace kiln::ops
KILN_API_END
