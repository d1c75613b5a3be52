// Declares layer normalisation and root-mean-square normalisation along the last axis, and their gradients.
//
//   ops::layernorm(stream, x, gamma, beta, y);           // (x - mean) / sqrt(variance + eps) * gamma + beta
//   ops::rmsnorm(stream, x, gamma, y, {.eps = 1e-6});    // x / sqrt(mean of x^2 + eps) * gamma
//   ops::rmsnorm(stream, x, gamma, y, {.residual = r, .sum = r});   // r += x; y = norm of r
//   ops::layernorm_backward(stream, x, gamma, dy, dx, dgamma, dbeta);
//   ops::rmsnorm_backward(stream, r, gamma, dy, dr, dgamma, {.dsum = dr});   // dr += its gradient
//
// x and y have the same extents, any rank from 1 to 8 and any strides; contiguous rows are fastest. gamma and
// beta are [extent of the last axis]; `{}` leaves one out. y may be x. Each tensor has a float dtype of
// its own; the computation is in f32, or in f64 if a tensor is of f64. The variance is the mean of the
// squared differences from the mean.
//
// Errors: the functions throw UserError if extents or dtypes do not match, if a result overlaps an input in a
// way that is not named here, or if several indices of a result refer to the same element. They return when
// the work is queued on the stream, and are thread-safe.
//
// The config is the one that the tuner found for the sizes, layouts and options (see "Tuning" in ops/README);
// KILN_TUNE (see autotune/mode.h) determines which configs are looked up. Otherwise the config depends on the
// width of the rows.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

struct NormOptions {
  double eps = 1e-5; // added to the variance, or to the mean of squares
  // If `residual` is given, x + residual is normalised instead of x. If `sum` is given, too, x + residual is
  // stored there, and the stored sum, rounded to its dtype, is normalised. Both have the extents of x. sum
  // may be x or residual, and y may be residual, but y and sum must not overlap. sum without residual is an
  // error.
  Input residual = {};
  Output sum = {};
  // Whether the bits of a row do not depend on the number of rows, as long as the strides are the same, and
  // the axes in front of the row merge to one in all of the calls, as those of contiguous tensors do, or in
  // none.
  bool batch_invariant = false;
};

void layernorm(detail::StreamAt stream, const Input& x, const Input& gamma, const Input& beta,
               const Output& y, const NormOptions& options = {});
void rmsnorm(detail::StreamAt stream, const Input& x, const Input& gamma, const Output& y,
             const NormOptions& options = {});

// --- Gradients ---------------------------------------------------------------------------------------------

struct NormBackwardOptions {
  double eps = 1e-5; // as in the forward call
  // For a forward call with a residual, pass its `sum` as x, or else the same x and residual. dx is then the
  // gradient with respect to each of the two. If `sum` has other uses, `dsum` is the gradient with respect to
  // it from these; it is added to dx.
  Input residual = {}, dsum = {};
  bool accumulate = false; // adds to the present contents of dgamma and dbeta
  // Whether the bits of a row of dx do not depend on the number of rows, under the conditions of NormOptions.
  bool batch_invariant = false;
};

// Compute the gradients dx, dgamma and dbeta with respect to x, gamma and beta from dy, that with respect to
// y. Mean and variance are computed from x again. `{}` leaves out gamma, which then counts as 1, or a result,
// but not all results. x, residual, dy, dsum and dx have the same extents; dx may be any of the others.
// dgamma and dbeta overlap no other tensor. They are sums over all rows: rows are added in groups, whose
// sizes depend on the number of rows alone, and then the sums of the groups in order. So they have the same
// bits from run to run and with any number of threads. The sums of the groups take the memory of at most 128
// rows (512 on a GPU) for each of dgamma and dbeta.
void layernorm_backward(detail::StreamAt stream, const Input& x, const Input& gamma, const Input& dy,
                        const Output& dx, const Output& dgamma, const Output& dbeta,
                        const NormBackwardOptions& options = {});
void rmsnorm_backward(detail::StreamAt stream, const Input& x, const Input& gamma, const Input& dy,
                      const Output& dx, const Output& dgamma, const NormBackwardOptions& options = {});

} // namespace kiln::ops
KILN_API_END
