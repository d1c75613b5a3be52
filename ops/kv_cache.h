// Declares the cache of keys and values that attention_decode reads (decode.h), and cache_append, which adds
// the keys and values of new tokens to it.
//
//   ops::KeyValueCache cache{.keys = keys, .values = values};    // [batch, key heads, capacity, width]
//   ops::cache_append(stream, k, v, lengths, cache);             // k, v: [batch, key heads, tokens, width]
//   ops::cache_append(stream, k, v, lengths, cache,
//                     {.rotary = ops::RotaryOptions{}, .q = q, .rotated_q = q});  // rotates k and q, too
//
// A cache is contiguous, or divided into pages: keys and values are then [pages, key heads, page size,
// width], and element [b, i] of the block table, `blocks` [batch, pages of a sequence], is the number of the
// page that holds the tokens from i * page size to (i + 1) * page size - 1 of sequence b. The capacity of a
// sequence is the capacity of a contiguous cache, or page size times pages of a sequence. The widths of keys
// and values may differ.
//
// Keys and values are of any float dtypes, or both of i8. An i8 cache has a scale for each token and head:
// an element e stands for the number e * scale. cache_append chooses the largest magnitude / 127 as the
// scale, and rounds the elements to nearest.
//
// k and v are [batch, key heads, tokens, width], of any float dtypes; if there is one token, both may lack
// the axis of tokens. lengths [batch], of i32 or i64 in the memory of the device, is the number of tokens
// that each sequence has before the call; cache_append does not change it. Token i of sequence b is written
// to place lengths[b] + i of the sequence, and nothing else is changed. With `rotary`, k is rotated first,
// with these places, plus rotary->offset, as positions. If q [batch, heads, tokens, width] is given, too, it
// is rotated in the same way and written to rotated_q, which may be q. k is rotated in f32 (f64 if a tensor
// is of f64) and rounded once.
//
// With KILN_DEBUG=1, lengths beyond the capacity and entries of `blocks` that are not the number of a page
// are errors of the stream. Without it, tokens whose place is not in the cache are dropped; nothing outside
// of the tensors is read or written. Several sequences may share a page that they only read, but no token may
// be appended to a page that another sequence uses.
//
// Errors: cache_append throws UserError if extents or dtypes do not match, if rotary->positions is given, if
// q and rotated_q are not given together and with `rotary`, or if a tensor that is written overlaps another
// one (except rotated_q and q). It returns when the work is queued on the stream, and is thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/rotary_options.h>

#include <optional>

KILN_API_BEGIN
namespace kiln::ops {

struct KeyValueCache {
  Output keys, values;
  Input blocks = {}; // the block table, of i32 or i64; if it is given, keys and values are pages
  // Only for a cache of i8: [batch, key heads, capacity] or [pages, key heads, page size], of a float dtype.
  Output key_scales = {}, value_scales = {};
};

struct AppendOptions {
  std::optional<RotaryOptions> rotary = {}; // its `positions` must not be given
  Input q = {};
  Output rotated_q = {};
};

void cache_append(detail::StreamAt stream, const Input& k, const Input& v, const Input& lengths,
                  const KeyValueCache& cache, const AppendOptions& options = {});

} // namespace kiln::ops
KILN_API_END
