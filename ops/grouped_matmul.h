// Declares products of groups of rows, each with a matrix of its own, as in a mixture of experts.
//
//   ops::grouped_matmul(stream, a, b, offsets, c);    // a is [rows, K], b is [groups, K, N], c is [rows, N]
//   ops::grouped_matmul_backward_b(stream, a, dc, offsets, db);                     // db is [groups, K, N]
//   ops::grouped_matmul(stream, dc, b.permute({0, 2, 1}), offsets, da);             // the gradient of a
//
// Group g consists of the rows offsets[g] to offsets[g + 1] - 1. `offsets` is [groups + 1], of i32 or i64, in
// the memory of the device, so that the host need not know the sizes of the groups. Groups may be empty; rows
// that belong to none are neither read nor written. Offsets must not decrease, and must be between 0 and the
// number of rows: with KILN_DEBUG=1, others are an error of the stream, and without it no access leaves the
// tensors, but the result is undefined. ops::group_by_expert computes them (routing.h).
//
// The result of grouped_matmul has the same epilogue as that of matmul (matmul.h):
//
//   activation(alpha (a b[g]) + bias[g]) * times + residual + beta c
//
// where bias is [groups, N], and times and residual have the extents of c. residual and times may be c. So a
// gated layer is one product with the weights of `up`, and one with those of `gate` and times = up.
//
// The gradient with respect to b is db[g] = alpha (a_g^T dc_g) + beta db[g], where a_g and dc_g are the rows
// of group g; a product of no rows is 0. The gradient of the bias is that of b for an `a` of ones:
//
//   ops::grouped_matmul_backward_b(stream, one.broadcast_to({rows, 1}), dc, offsets, dbias_as_groups_1_N);
//
// Dtypes, strides, errors and threads are as in matmul.h, for floats only. Results are the same from run to
// run, but the sums of a row may be rounded differently if the groups have other sizes, unless
// batch_invariant is given.
#pragma once

#include <kiln/ops/matmul.h>

KILN_API_BEGIN
namespace kiln::ops {

void grouped_matmul(detail::StreamAt stream, const Input& a, const Input& b, const Input& offsets,
                    const Output& c, const MatmulOptions& options = {});

struct GroupedBackwardOptions {
  double alpha = 1, beta = 0;
};
void grouped_matmul_backward_b(detail::StreamAt stream, const Input& a, const Input& dc, const Input& offsets,
                               const Output& db, const GroupedBackwardOptions& options = {});

} // namespace kiln::ops
KILN_API_END
