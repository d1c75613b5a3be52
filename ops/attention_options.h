// Declares the options of attention (attention.h), which its backward pass takes too.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

// Which key a query's own position is: query i sits at key i, or the last query at the last key.
enum class CausalAlignment : std::uint8_t { first, last };

struct AttentionOptions {
  double scale = 0; // 0: 1 / sqrt(width)
  bool causal = false;
  CausalAlignment alignment = CausalAlignment::first; // for `causal` and the windows
  // How many keys before and after its own position a query sees; negative: all.
  std::int64_t window_before = -1, window_after = -1;
  double soft_cap = 0; // above 0: scores become soft_cap * tanh(score / soft_cap)
  // The probability with which a weight is dropped, from 0 to below 1; the others are divided by 1 - dropout.
  // The weight of a query and a key is kept if rand(seed, i) >= dropout (dsl/random.h), where i is the index
  // of its score in a contiguous tensor [batches, heads, queries, keys] of all batches of the call. So the
  // backward pass with the same seed drops the same weights. lse does not depend on it.
  double dropout = 0;
  std::uint64_t seed = 0;
  Input sinks = {}; // [heads]: the score of a further key for each head, whose value is zero
  // Where the sequences of ragged batches begin among the tokens of q and of k, and where the last one ends:
  // [sequences + 1], of i32 or i64, in the memory of the device. See attention.h.
  Input query_offsets = {}, key_offsets = {};
  Output lse = {}; // [.., heads, queries]: the logarithm of the sum of exponentials
  // Whether a query's bits depend only on the query, the keys and values and the other options, but not on the
  // other queries, heads and batches, or on the number of threads. Of attention only.
  bool batch_invariant = false;
  Output dsinks = {}; // of attention_backward only: the gradient of sinks
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
