// Declares the kernels of the backward pass of attention.
//
// Their arrays have four axes: batches, heads, tokens and the width, which is 1 for lse, delta and parts; the
// sinks and dsinks have one axis.
#pragma once

#include <kiln/ops/detail/attention_scores.h>
#include <kiln/ops/detail/op_kernel.h>

namespace kiln::ops::detail {

// delta, the sums of dout * o. The parameters are dout, o and delta and, with attention_option::sinks, the
// sinks, lse, and the parts of the gradient of the sinks that each query contributes.
extern const OpKernel attention_delta_kernel;
// Adds the parts for each sink: parts, dsinks and, for ragged batches, the offsets of queries.
extern const OpKernel attention_sinks_kernel;

// The parameters of the others begin with dout, q, k, v, lse and delta, and end with those of AttentionGrid
// and AttentionScores. Between them are dk and dv, or the one that the options name; dq; and dk, dv, dq and
// the sums for dq, which are of the dtype in which the kernel computes.
extern const OpKernel attention_keys_kernel, attention_queries_kernel, attention_heads_kernel;
inline constexpr std::uint32_t attention_has_dk = attention_option::first_own,
                               attention_has_dv = 2 * attention_option::first_own;

} // namespace kiln::ops::detail
