// Checks caches of keys and values, for the ops that write and read them.
#pragma once

#include <kiln/ops/detail/checks.h>

namespace kiln::ops::detail {

// The arrays of a cache; kv_cache.h says what they hold. Those that are not given are empty.
struct Cache {
  Array keys, values, blocks, key_scales, value_scales;
  bool paged = false, quantised = false; // whether blocks and the scales are given
};

// Checks the ranks, extents and dtypes of a cache of this many sequences, and of the lengths.
void check_cache(const Checks& check, const Cache& cache, const Argument& lengths, std::int64_t batches);

// Inserts the axis of tokens, of extent 1, in front of the last one if a tensor has three axes.
void insert_tokens(Array& a);

// Divides the second axis, of heads, into the key heads and the heads that share one.
Array with_key_heads(const Array& a, std::int64_t key_heads);

} // namespace kiln::ops::detail
