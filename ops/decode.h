// Declares attention of a few queries of each sequence with a cache of keys and values, as in decoding.
//
//   ops::attention_decode(stream, q, cache, lengths, o);                    // q, o: [batch, heads, width]
//   ops::attention_decode(stream, q, cache, lengths, o, {.appended = 4});   // [batch, heads, 4, width]
//
// q is [batch, heads, queries, width] and o is [batch, heads, queries, width of values]; if there is one
// query, both may lack the axis of queries. The cache is contiguous or paged, of floats or of i8
// (kv_cache.h). The number of heads is a multiple of that of the cache's key heads, each of which serves
// equally many neighbouring heads; the products of these heads are computed together. Strides are arbitrary;
// a cache whose rows are contiguous is fastest. q, o, lse, sinks and a cache of floats have float dtypes of
// their own; sums and exponentials are in f32 (f64 if a tensor is of f64). Before the weights are multiplied
// by the values, they are rounded to the dtype of the values, or with a cache of i8 to that of q.
//
// Sequence b has lengths[b] + appended keys; lengths [batch] is of i32 or i64 in the memory of the device. If
// `appended` is the number of tokens that cache_append has just added, the same `lengths` can be passed to
// both calls. The last query is at the last key, and with `causal` each query sees the keys up to its own
// position. scale, window_before, soft_cap, sinks and lse are those of ops::attention. A query that sees no
// key gets zeros; its log-sum-exp is -infinity, or with `sinks` the sink of its head.
//
// The keys are divided into parts of a fixed size, which are computed in parallel and then combined in their
// order (Dao et al., "Flash-Decoding", 2023). So the bits of a sequence's result depend neither on the other
// sequences nor on the number of threads, and are the same for contiguous and for paged caches whose rows are
// contiguous, unless the tuner has found different configs for them. With batch_invariant, no tuned configs
// are used, and the bits of a query do not depend on the other queries of its sequence either; the cache is
// then read once for each query.
//
// With KILN_DEBUG=1, it is an error of the stream if lengths[b] + appended is not in the range from 0 to the
// capacity, or if an entry of cache.blocks is not the number of a page. Without it, lengths are limited to
// that range, and missing pages count as zeros; nothing outside of the tensors is read.
//
// Errors: attention_decode throws UserError if extents or dtypes do not match, or if o or lse overlaps
// another tensor of the call or has several indices that refer to the same element. It returns when the work
// is queued on the stream, and is thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/kv_cache.h>

KILN_API_BEGIN
namespace kiln::ops {

struct DecodeOptions {
  double scale = 0;          // 0: 1 / sqrt(width)
  std::int64_t appended = 0; // the number of keys of each sequence in addition to those that lengths counts
  bool causal = true;        // a query sees no key after its own position
  std::int64_t window_before = -1; // how many keys before its own position a query sees; negative: all
  double soft_cap = 0;             // above 0: scores become soft_cap * tanh(score / soft_cap)
  Input sinks = {};                // [heads]: the score of one more key, whose value is zero
  // Whether the bits of a query's result do not depend on the other queries of its sequence.
  bool batch_invariant = false;
  Output lse = {}; // [batch, heads, queries], or [batch, heads]: the logarithm of the sum of exponentials
};

void attention_decode(detail::StreamAt stream, const Input& q, const KeyValueCache& cache,
                      const Input& lengths, const Output& o, const DecodeOptions& options = {});

} // namespace kiln::ops
KILN_API_END
