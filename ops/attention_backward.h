// Declares the backward pass of attention.
//
//   ops::attention(stream, q, k, v, o, {.causal = true, .lse = lse});
//   ...                                                        // dout: the gradient with respect to o
//   ops::attention_backward(stream, dout, q, k, v, o, lse, dq, dk, dv, {.causal = true});
//
// q, k, v, o and lse are those of the call of ops::attention (attention.h). Pass the options, the score and
// the mask of that call here, too; the option `lse` is ignored. dout has the extents of o, and dq, dk and dv
// those of q, k and v. `{}` leaves out a gradient, which then costs nothing. dk and dv are summed over the
// heads of q that a key head serves. The option `dsinks` is the result for the gradient with respect to
// `sinks`. Any strides and float dtypes are allowed; lse should be of f32 (f64 if a tensor is of f64),
// because its rounding error becomes a relative error of the weights.
//
// The weights are computed again from q, k and lse, so that nothing of the size queries x keys is stored. A
// workspace holds one or two numbers for each query, and on CPUs also sums for dq. Sums are in f32 (f64 if a
// tensor is of f64). Before they are multiplied, weights are rounded to the dtype of dout, and gradients of
// scores to that of q (for dk) and k (for dq). Each block of a gradient is computed by one program, without
// atomic operations, so that its bits are the same in each run. On CPUs they may depend on which gradients
// are computed and, if there are few key heads and batches, on the number of threads.
//
// With .batch_invariant, the bits of dq, dk and dv of a sequence depend neither on other batches, sequences
// and key heads, nor on the number of threads, nor on which gradients are computed. Besides, dq of a query
// does not depend on the other queries, and dk and dv of a key depend on the other keys only through o and
// lse, which should be results of a call with the option. dsinks is a sum over all batches.
//
// For ragged batches, the gradients are those of a call for each sequence; rows of tokens that belong to no
// sequence are not written.
//
// A score lambda is differentiated with respect to the score that it gets. The operations that lead from this
// score to the returned one must be elementwise and on floats. Tensors that the lambda reads get no gradient.
// A query that sees no key has gradients of zero.
//
// Errors: attention_backward throws UserError if extents or dtypes do not match, if a gradient overlaps
// another tensor of the call or has several indices that refer to the same element, or for a lambda that has
// no derivative. It returns when the work is queued on the stream, and is thread-safe.
#pragma once

#include <kiln/ops/attention.h>

KILN_API_BEGIN
namespace kiln::ops {

namespace detail {

// The tensors of a call.
struct AttentionGradients {
  const Input &dout, &q, &k, &v, &o, &lse;
  const Output &dq, &dk, &dv;
};
void attention_backward(StreamAt stream, const AttentionGradients& tensors, const AttentionOptions& options,
                        const AttentionHooks& hooks);

} // namespace detail

// Computes the gradients; see above. `hooks` are results of ops::score and ops::mask, at most one of each. A
// score gets tiles of f64 if o is of f64, as in ops::attention.
template <class O, class... Hooks>
void attention_backward(detail::StreamAt stream, const Input& dout, const Input& q, const Input& k,
                        const Input& v, const O& o, const Input& lse, const Output& dq, const Output& dk,
                        const Output& dv, const AttentionOptions& options = {}, const Hooks&... hooks) {
  detail::AttentionHooks all;
  if constexpr (sizeof...(Hooks) > 0) {
    using T = std::remove_const_t<typename detail::OutputElement<O>::type>;
    (detail::add_hook<std::conditional_t<std::is_same_v<T, double>, double, float>>(all, hooks), ...);
  }
  detail::attention_backward(stream, {dout, q, k, v, Input(o), lse, dq, dk, dv}, options, all);
}

} // namespace kiln::ops
KILN_API_END
