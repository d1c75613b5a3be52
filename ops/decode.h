// Declares attention of a few queries for each sequence with a cache of keys and values, as in decoding.
//
//   ops::attention_decode(stream, q, cache, lengths, o);                    // q, o: [batch, heads, width]
//   ops::attention_decode(stream, q, cache, lengths, o, {.appended = 4});   // [batch, heads, 4, width]
//
// q is [batch, heads, queries, width] and o is [batch, heads, queries, width of values], both without the
// axis of queries if there is one query. The cache is contiguous or paged, of floats or of i8 (kv_cache.h).
// heads is a multiple of the cache's key heads, each of which serves as many neighbouring heads; their
// products are computed together. Strides are arbitrary; a cache whose rows are contiguous is fastest. Each
// tensor has a float dtype of its own; sums and exponentials are in f32 (f64 if a tensor is of f64). The
// weights are rounded to the dtype of the values, and with a cache of i8 to that of q.
//
// Sequence b has lengths[b] + appended keys; lengths [batch] is of i32 or i64 in the memory of the device.
// With `appended`, the lengths that cache_append took need not be changed in between. The last query is at
// the last key, and with `causal` each query sees the keys up to its own. scale, window_before, soft_cap,
// sinks and lse are those of ops::attention. A query that sees no key gets zeros, and -infinity as its log-
// sum-exp.
//
// The keys are divided into parts of a fixed size, which are computed side by side and then combined in their
// order (Dao et al., "Flash-Decoding", 2023). So the bits of a sequence's result depend neither on the other
// sequences nor on the number of threads. They are the same for contiguous and for paged caches whose rows
// are contiguous. With batch_invariant, the bits of a query do not depend on the other queries of its
// sequence either, each of which then reads the cache by itself.
//
// With KILN_DEBUG=1, a length outside of 0 to the capacity and an entry of cache.blocks that is no page are
// errors. Without it, lengths are limited to that range and missing pages are zeros; nothing outside of the
// tensors is read.
//
// Errors: attention_decode throws UserError if extents or dtypes do not match, or if o or lse overlaps an
// input. It returns when the work is queued on the stream, and is thread-safe.
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
  std::int64_t appended = 0; // the keys that each sequence has besides those that lengths counts
  bool causal = true;
  std::int64_t window_before = -1; // how many keys before its own position a query sees; negative: all
  double soft_cap = 0;             // above 0: scores become soft_cap * tanh(score / soft_cap)
  Input sinks = {};                // [heads]: the score of a further key, whose value is zero
  // Whether a query's bits do not depend on the number of queries of its sequence either.
  bool batch_invariant = false;
  Output lse = {}; // [batch, heads, queries], or [batch, heads]: the logarithm of the sum of exponentials
};

void attention_decode(detail::StreamAt stream, const Input& q, const KeyValueCache& cache,
                      const Input& lengths, const Output& o, const DecodeOptions& options = {});

} // namespace kiln::ops
KILN_API_END
