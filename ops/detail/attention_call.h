// Declares what the calls of attention and of its backward pass share: checks, options and arguments.
#pragma once

#include <kiln/ops/attention_options.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/op_kernel.h>

namespace kiln::ops::detail {

// Throws UserError unless q, k, v and o, sinks and numbers of the options, and the lambdas fit each other.
void check_attention(const Checks& check, const Array& q, const Array& k, const Array& v, const Array& o,
                     const AttentionOptions& options);
// The same for log-sum-exps, of which there is one for each query.
void check_lse(const Checks& check, const Array& lse, const Array& q);
// Throws UserError if an output overlaps a tensor that the lambdas read.
void check_apart_from_hooks(const Checks& check, const Argument& out, const AttentionHooks& hooks);

// The bits of attention_option that the options name, and the lambdas.
OpVariant attention_variant(const Checks& check, const AttentionOptions& options, DType compute,
                            const AttentionHooks& hooks);
// The arguments that AttentionScores takes. `width` is that of a head of q.
void add_scores_arguments(OpArguments& list, const OpVariant& variant, const AttentionOptions& options,
                          const AttentionHooks& hooks, std::int64_t width, std::int64_t first_batch);

// An array with a further last axis of one element.
Array with_last_axis(Array a);

// The largest of the powers of 2 from 16 to `most` that is not above what covers `tokens`.
std::int64_t block_of_tokens(std::int64_t tokens, std::int64_t most);

} // namespace kiln::ops::detail
