// Declares products of groups of rows, where each group has a matrix of its own, as in a mixture of experts.
//
//   ops::grouped_matmul(stream, a, b, offsets, c);    // a is [rows, K], b is [groups, K, N], c is [rows, N]
//   ops::grouped_matmul_backward_b(stream, a, dc, offsets, db);                     // db is [groups, K, N]
//   ops::grouped_matmul(stream, dc, b.permute({0, 2, 1}), offsets, da);             // the gradient of a
//
// Group g consists of the rows offsets[g] to offsets[g + 1] - 1. `offsets` is [groups + 1], of i32 or i64, in
// the memory of the device, so that the host need not know the sizes of the groups. Groups may be empty; rows
// that belong to no group do not affect a result, and are not written. Offsets must not decrease, and must be
// between 0 and the number of rows. With KILN_DEBUG=1, other offsets are an error of the stream; without it,
// the result is undefined, but no access is outside of the tensors. ops::group_by_expert computes offsets
// (routing.h).
//
// The result of grouped_matmul has the same epilogue as that of matmul (matmul.h):
//
//   activation(alpha (a b[g]) + bias[g]) * times + residual + beta c
//
// where bias is [groups, N], and times and residual have the extents of c. times and residual may each be the
// same tensor as c. So a gated layer is two products: up, with the weights of `up`, and then activation(gate)
// * up, with the weights of `gate` and the option times = up.
//
// The gradient with respect to b is db[g] = alpha (a_g^T dc_g) + beta db[g], where a_g and dc_g are the rows
// of group g; for an empty group the product is 0. db must not overlap another tensor. The gradient with
// respect to the bias is that of b for an `a` of ones, here one.broadcast_to:
//
//   ops::grouped_matmul_backward_b(stream, one.broadcast_to({rows, 1}), dc, offsets, dbias_as_groups_1_N);
//
// Dtypes, strides, errors and thread safety are as in matmul.h, but a, b and c must be of floats. Results are
// the same from run to run, but the bits of a row may depend on the sizes of the groups, unless
// batch_invariant is given.
#pragma once

#include <kiln/ops/matmul.h>

KILN_API_BEGIN
namespace kiln::ops {

// Computes c from a, b and the options of matmul.
void grouped_matmul(detail::StreamAt stream, const Input& a, const Input& b, const Input& offsets,
                    const Output& c, const MatmulOptions& options = {});

struct GroupedBackwardOptions {
  double alpha = 1, beta = 0; // db is read only if beta is not 0
};
// Computes db, the gradient with respect to b.
void grouped_matmul_backward_b(detail::StreamAt stream, const Input& a, const Input& dc, const Input& offsets,
                               const Output& db, const GroupedBackwardOptions& options = {});

} // namespace kiln::ops
KILN_API_END
