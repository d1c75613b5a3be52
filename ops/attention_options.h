// Declares the options of attention (attention.h), which its backward pass takes too.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

// The position of query i among the keys: `first` means i, and `last` means i + keys - queries, so that the
// last query is at the last key.
enum class CausalAlignment : std::uint8_t { first, last };

struct AttentionOptions {
  double scale = 0;                                   // 0: 1 / sqrt(width)
  bool causal = false;                                // a query sees no key after its own position
  CausalAlignment alignment = CausalAlignment::first; // for `causal` and the windows
  // How many keys before and after its own position a query sees, besides the one there; negative: all.
  std::int64_t window_before = -1, window_after = -1;
  double soft_cap = 0; // above 0: scores become soft_cap * tanh(score / soft_cap)
  // The probability with which a weight is dropped, from 0 to below 1; the others are divided by 1 - dropout.
  // The weight of a query and a key is kept if rand(seed, i) >= dropout (dsl/random.h), where i is the index
  // of its score in a contiguous tensor [batches, heads, queries, keys] of all batches of the call. So the
  // backward pass with the same seed drops the same weights. lse does not depend on it.
  double dropout = 0;
  std::uint64_t seed = 0;
  // For dropout, if q has only some of the heads, such as those of one rank: the number of q's first head
  // among all heads, and how many heads there are in all (0: those of q). They make the call drop the weights
  // that a call with all heads would drop.
  std::int64_t first_head = 0, whole_heads = 0;
  // [heads]: for each head, the score of one more key, whose value is zero and which every query sees. Scale,
  // soft_cap and lambdas do not apply to it.
  Input sinks = {};
  // For ragged batches: the tokens of q and of k at which each sequence begins, and then the end of the last
  // one: [sequences + 1], of i32 or i64, in the memory of the device. Both or none are given, and they may be
  // the same tensor. See attention.h.
  Input query_offsets = {}, key_offsets = {};
  Output lse = {}; // [.., heads, queries], of any float dtype: the logarithm of the sum of exponentials
  // Whether the bits of a query's result depend only on the query, its keys and values and the other options,
  // but not on the other queries, heads and batches, or on the number of threads. For gradients, see
  // attention_backward.h.
  bool batch_invariant = false;
  Output dsinks = {}; // for attention_backward only: the gradient with respect to sinks, which must be given
};

namespace detail {

struct Hook;

// The lambdas of a call without their types.
struct AttentionHooks {
  const Hook *score = nullptr, *mask = nullptr;
  const Input *score_views = nullptr, *mask_views = nullptr;
};

} // namespace detail

} // namespace kiln::ops
KILN_API_END
