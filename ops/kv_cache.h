// Declares the cache of keys and values that attention_decode reads (decode.h), and cache_append, which adds
// tokens to it.
//
//   ops::KeyValueCache cache{.keys = keys, .values = values};    // [batch, key heads, capacity, width]
//   ops::cache_append(stream, k, v, lengths, cache);             // k, v: [batch, key heads, tokens, width]
//   ops::cache_append(stream, k, v, lengths, cache,
//                     {.rotary = ops::RotaryOptions{}, .q = q, .rotated_q = q});  // turns k and q, too
//
// A cache is contiguous, or divided into pages: keys and values are then [pages, key heads, page size,
// width], and element [b, i] of the block table, `blocks` [batch, pages of a sequence], is the page that
// holds tokens i * page size and following of sequence b. The widths of keys and values may differ.
//
// Keys and values are of any float dtypes, or both of i8. Each token and head of an i8 cache has a scale:
// its elements stand for element * scale, where the scale is the largest magnitude / 127, and elements are
// rounded to nearest.
//
// k and v are [batch, key heads, tokens, width], or without the axis of tokens if there is one. lengths
// [batch], of i32 or i64 in the memory of the device, says how many tokens each sequence has before the call;
// token i is written to place lengths[b] + i, and to nothing else. With `rotary`, k is turned first, with
// these places as positions (plus rotary->offset), and q [batch, heads, tokens, width] is turned like it and
// written to rotated_q, which may be q. k is turned in f32 (f64) and rounded once.
//
// With KILN_DEBUG=1, lengths beyond the capacity and entries of `blocks` that are no page are errors. Without
// it, tokens whose place is not in the cache are dropped; nothing outside of the tensors is read or written.
// Several sequences may read one page, but a token must not be appended to a page of another sequence.
//
// Errors: cache_append throws UserError if extents or dtypes do not match, or if a tensor that is written
// overlaps another one. It returns when the work is queued on the stream, and is thread-safe.
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
  Input blocks = {}; // of i32 or i64; given: keys and values are pages
  // Of a cache of i8: [batch, key heads, capacity] or [pages, key heads, page size], of a float dtype.
  Output key_scales = {}, value_scales = {};
};

struct AppendOptions {
  std::optional<RotaryOptions> rotary = {}; // without positions
  Input q = {};
  Output rotated_q = {};
};

void cache_append(detail::StreamAt stream, const Input& k, const Input& v, const Input& lengths,
                  const KeyValueCache& cache, const AppendOptions& options = {});

} // namespace kiln::ops
KILN_API_END
