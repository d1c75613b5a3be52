// Defines the forward pass of attention as one kernel: o = softmax(q k^T * scale) v for each head.
#pragma once

#include <kiln/dsl/language.h>
#include <kiln/kiln.h>

#include <cmath>

namespace benchmarks {

KILN_DIM(QUERIES);
KILN_DIM(KEYS);
KILN_DIM(WIDTH); // must be the width of a head

// q, k, v and o are [heads, tokens, width]. A program processes a block of queries of one head. It iterates
// over the keys and keeps the largest score so far and the sum of the exponentials, so that it never stores
// a whole row of scores. As long as the largest score is -infinity, `shift` is 0, because -infinity - -infinity
// would be NaN.
template <class T> auto make_attention(bool causal) {
  using namespace kiln;
  return kernel(
      causal ? "plain_causal_attention" : "plain_attention",
      [causal](View<const T, 3> q, View<const T, 3> k, View<const T, 3> v, View<T, 3> o,
               Scalar<float> scale) {
        expects(k.extent(0) == q.extent(0), "k's heads and q's heads");
        expects(v.extent(0) == q.extent(0), "v's heads and q's heads");
        expects(v.extent(1) == k.extent(1), "v's tokens and k's tokens");
        auto [h, m] = program_tile(q, 1_c, QUERIES);
        Scalar<std::int64_t> head = h;
        auto d = offset(WIDTH, 0);
        Tile queries = q.tile(head, m, d).load();
        Tile row = expand<1>(m + arange(QUERIES));
        Tile end = full(k.extent(1) - 1, QUERIES, 1_c);
        Tile last = causal ? row : end; // the last key that each query sees
        Scalar<std::int64_t> all = k.extent(1), below = min(m + QUERIES, all), keys = causal ? below : all;
        auto start = state(full(-INFINITY, QUERIES), zeros<float>(QUERIES), zeros<float>(QUERIES, WIDTH));
        auto [top, total, acc] = for_range(KEYS, keys, start, [&](auto n, auto top, auto total, auto acc) {
          Tile scores = dot(queries, trans(k.tile(head, n, d).load())) * scale;
          Tile column = expand<0>(n + arange(KEYS));
          Tile seen = where(column <= last, scores, -INFINITY);
          Tile next = max(top, max(seen, KEYS));
          Tile shift = where(next == -INFINITY, 0, next);
          Tile factor = exp(top - shift);
          Tile weights = exp(seen - expand<1>(shift));
          Tile sums = sum(weights, KEYS);
          return state(next, total * factor + sums,
                       dot(cast<T>(weights), v.tile(head, n, d).load(), acc * expand<1>(factor)));
        });
        o.tile(head, m, d).store(cast<T>(acc / expand<1>(total)));
      });
}

// The kernel with or without the mask, recorded once.
template <class T> const auto& attention_kernel(bool causal) {
  static const auto plain = make_attention<T>(false), masked = make_attention<T>(true);
  return causal ? masked : plain;
}

// A heuristic. Blocks of scores that fill a part of the L2 cache are 5 to 10 % faster than blocks of 128 x 64:
// 256 x 256 (256 KiB) with an L2 of 2 MiB (measured on Granite Rapids), 256 x 128 with 1 MiB (Zen 4) or 512 KiB
// (Zen 3). With an L2 below 2 MiB a causal mask takes blocks of 128 queries, because half of a block on the
// diagonal is wasted.
inline kiln::Config attention_config(kiln::Device device, std::int64_t width, std::int64_t tokens,
                                     bool causal) {
  const std::int64_t l2 = device.is_cpu() ? device.properties().l2_bytes : 0;
  if (l2 < (512 << 10) || tokens < 256) return {QUERIES = 128, KEYS = 64, WIDTH = width};
  if (l2 < (2 << 20)) return {QUERIES = causal ? 128 : 256, KEYS = 128, WIDTH = width};
  return {QUERIES = 256, KEYS = 256, WIDTH = width};
}

} // namespace benchmarks
