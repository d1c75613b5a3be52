// Implements the checks of caches.
#include <kiln/ops/detail/cache.h>

namespace kiln::ops::detail {

void check_cache(const Checks& check, const Cache& c, const Argument& lengths, std::int64_t batches) {
  const Argument keys{"cache.keys", c.keys}, values{"cache.values", c.values},
      blocks{"cache.blocks", c.blocks}, key_scales{"cache.key_scales", c.key_scales},
      value_scales{"cache.value_scales", c.value_scales};
  check.rank(keys, 4);
  check.rank(values, 4);
  check.integers(lengths);
  check.rank(lengths, 1);
  check.equal("the size of lengths and the batches", lengths.array.extents[0], batches);
  check.equal("the heads of cache.keys and cache.values", c.keys.extents[1], c.values.extents[1]);
  if (c.paged) {
    check.integers(blocks);
    check.rank(blocks, 2);
    check.equal("the rows of cache.blocks and the batches", c.blocks.extents[0], batches);
    check.equal("the pages of cache.keys and cache.values", c.keys.extents[0], c.values.extents[0]);
    check.equal("the page sizes of cache.keys and cache.values", c.keys.extents[2], c.values.extents[2]);
  } else {
    check.equal("the batches of cache.keys and those of the other tensors", c.keys.extents[0], batches);
    check.equal("the batches of cache.values and those of the other tensors", c.values.extents[0], batches);
    check.equal("the capacities of cache.keys and cache.values", c.keys.extents[2], c.values.extents[2]);
  }
  const bool bytes = c.keys.dtype == DType::I8;
  check.that(bytes == (c.values.dtype == DType::I8),
             "cache.keys or cache.values is of i8 and the other is not; convert one of them");
  check.that(c.quantised == bytes, bytes ? "a cache of i8 has scales; give key_scales and value_scales"
                                         : "a cache of floats has no scales; give none");
  if (!bytes) {
    check.floats(keys);
    check.floats(values);
    return;
  }
  Array rows = c.keys;
  --rows.rank;
  for (const Argument& scales : {key_scales, value_scales}) {
    check.floats(scales);
    check.same_extents(scales, {"cache.keys without its last axis", rows});
  }
}

void insert_tokens(Array& a) {
  if (a.rank != 3) return;
  a.extents[3] = a.extents[2], a.strides[3] = a.strides[2];
  a.extents[2] = 1, a.strides[2] = 0;
  a.rank = 4;
}

Array with_key_heads(const Array& a, std::int64_t key_heads) {
  Array b = a;
  ++b.rank;
  for (int i = b.rank - 1; i > 2; --i)
    b.extents[i] = a.extents[i - 1], b.strides[i] = a.strides[i - 1];
  b.extents[1] = key_heads, b.extents[2] = key_heads ? a.extents[1] / key_heads : 0;
  b.strides[1] = a.strides[1] * b.extents[2], b.strides[2] = a.strides[1];
  return b;
}

} // namespace kiln::ops::detail
