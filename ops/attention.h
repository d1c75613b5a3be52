// Declares attention: o = softmax(scale q k^T) v for each head, without storing the scores.
//
//   ops::attention(stream, q, k, v, o, {.causal = true});   // [B, H, T, D]; k and v may have fewer heads
//
//   // Scores and masks of your own: lambdas without captures, which get the tensors after them as views.
//   ops::attention(stream, q, k, v, o, {},
//                  ops::score([](auto s, auto head, auto query, auto key, auto slopes) {     // ALiBi
//                    return s + slopes.at(head).load() * cast<float>(key - query);
//                  }, slopes),
//                  ops::mask([](auto head, auto query, auto key, auto document) {            // packed documents
//                    return expand<1>(document.tile(head.batch, query.offset).load()) ==
//                           expand<0>(document.tile(head.batch, key.offset).load());
//                  }, document));
//
// q is [.., heads, queries, width], k is [.., key heads, keys, width], v is [.., key heads, keys, width of
// v], and o is [.., heads, queries, width of v]; the axes in front are batches and are the same for all.
// Ranks are 2 (one head) to 8. q has n times as many heads as k and v, for a whole number n: key head j
// serves the heads n j to n j + n - 1 of q (grouped queries). Strides are arbitrary, so [B, T, H, D] is
// passed as x.permute({0, 2, 1, 3}). Each tensor has a float dtype of its own; sums and exponentials are in
// f32 (f64 if a tensor is of f64), and the weights are rounded to the dtype of v before they are multiplied
// by v.
//
// Both kinds of lambda get `head`, `query` and `key`. `head` is a scalar, the number of the head of q; its
// member `batch` is the number of the batch, in row-major order of the batch axes. `query` and `key` are
// tiles of indices (i32) with the dimensions [QUERIES, 1] and [1, KEYS], which do not depend on `alignment`;
// their member `offset` is for view.tile, and `first` is for ragged batches (see below). A score lambda also
// gets the score s, after scale and soft_cap: a tile [QUERIES, KEYS] of f64 if o is of f64, else of f32, in
// which case q, k, v, sinks and lse must not be of f64. It returns the score that is exponentiated. A mask
// lambda returns a tile of bool that is true where the query sees the key; `causal` and the windows still
// apply. Lambdas may read views and compute element by element, and may be recorded several times. At most 8
// tensors follow each of them.
//
// Blocks that the mask hides are skipped, and blocks in which every query sees every key are computed without
// it; neither changes a bit of the result. For this, bounds of the mask are computed for each block
// (dsl/detail/mask_bounds.h says for which masks; where they give up, a rehearsal and the log say why).
//
// A query that sees no key gets zeros. Its log-sum-exp is -infinity, or with `sinks` the sink of its head.
//
// Ragged batches. Sequences of different lengths are concatenated along the axis of tokens, in tensors
// without batch axes, and the offsets say where each sequence begins:
//
//   // q is [heads, all queries, width]: x.permute({1, 0, 2}) of [all queries, heads, width]
//   ops::attention(stream, q, k, v, o, {.causal = true, .query_offsets = begins, .key_offsets = begins});
//
// Sequence s has the queries from query_offsets[s] to query_offsets[s + 1] - 1, which see the keys from
// key_offsets[s] to key_offsets[s + 1] - 1 only; it may have no queries or no keys. Everything else is as
// if attention were called once for each sequence: positions, for causal masks, windows and lambdas, count
// from its first query and key. Lambdas get the number of the sequence as `head.batch`, and the places of its
// first query and key as `query.first` and `key.first`, which are 0 without offsets: for a tensor x with an
// element for each query, write x.tile(query.first + query.offset). For dropout, scores are numbered as in a
// call without offsets. The offsets stay in the memory of the device: the host does not read them, and only
// blocks of the sequences take time. Rows of o and lse that belong to no sequence are not written. Offsets
// must not decrease, and must be between 0 and the number of tokens. With KILN_DEBUG=1, other offsets are an
// error of the stream; without it, the result is undefined, but no access is outside of the tensors.
//
// If v is as wide as q, the config is the one that the tuner found for the sizes, layouts, options and
// lambdas (see "Tuning" in ops/README); KILN_TUNE (see autotune/mode.h) determines which configs are looked
// up. Otherwise it depends on the device, the number of queries and whether there is a mask.
//
// Errors: attention throws UserError if extents or dtypes do not match, if o or lse overlaps another tensor
// of the call or has several indices that refer to the same element, or for a lambda that does more than
// compute element by element. It returns when the work is queued on the stream, and is thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/attention_options.h>
#include <kiln/ops/detail/hook.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/dims.h>

KILN_API_BEGIN
namespace kiln::ops {

// The types of `head`, `query` and `key`, which lambdas get; see above.
class AttentionHead : public Scalar<std::int64_t> {
public:
  AttentionHead(const Scalar<std::int64_t>& head, const Scalar<std::int64_t>& of)
      : Scalar<std::int64_t>(head), batch(of) {}
  Scalar<std::int64_t> kiln_snapshot() const { return static_cast<const Scalar<std::int64_t>&>(*this); }
  Scalar<std::int64_t> batch;
};
template <class T, class Begin> class AttentionIndex : public T {
public:
  AttentionIndex(const T& index, const Begin& begin, const Scalar<std::int64_t>& first_token)
      : T(index), offset(begin), first(first_token) {}
  T kiln_snapshot() const { return static_cast<const T&>(*this); }
  Begin offset;
  Scalar<std::int64_t> first;
};
using AttentionQuery = AttentionIndex<Tile<std::int32_t, QUERIES, 1>, Offset<QUERIES>>;
using AttentionKey = AttentionIndex<Tile<std::int32_t, 1, KEYS>, Offset<KEYS>>;

namespace detail {

// The place of a block, as the library passes it: batch, head, the block's first query and first key, and the
// tokens at which the queries and keys of its sequence begin.
inline AttentionHead attention_head(const Handle* at) {
  return {Scalar<std::int64_t>(at[1]), Scalar<std::int64_t>(at[0])};
}
inline AttentionQuery attention_query(const Handle* at) {
  const Offset<QUERIES> begin(at[2]);
  return {Tile<std::int32_t, QUERIES, 1>(expand<1>(cast<std::int32_t>(begin + arange(QUERIES)))), begin,
          Scalar<std::int64_t>(at[4])};
}
inline AttentionKey attention_key(const Handle* at) {
  const Offset<KEYS> begin(at[3]);
  return {Tile<std::int32_t, 1, KEYS>(expand<0>(cast<std::int32_t>(begin + arange(KEYS)))), begin,
          Scalar<std::int64_t>(at[5])};
}

// The scores, which only a score lambda gets.
template <class A> Tile<A, QUERIES, KEYS> attention_scores(const Handle* at) {
  return Tile<A, QUERIES, KEYS>(at[6]);
}

// What a lambda may be: callable with what it gets, and of a result that fits a block of elements E.
template <class E, class R> constexpr bool fits_block() {
  if constexpr (kiln::detail::IsPoison<R>)
    return true;
  else if constexpr (kiln::detail::TileLike<R>)
    return kiln::detail::broadcasts_to<
               kiln::detail::shape_t<R>,
               kiln::detail::Shape<kiln::detail::dimension_of<QUERIES>, kiln::detail::dimension_of<KEYS>>> &&
           kiln::detail::is_bool_operand<R> == std::is_same_v<E, bool>;
  else
    return false;
}
template <class A, class F, class... V>
inline constexpr bool is_score = std::is_invocable_v<const F&, const Tile<A, QUERIES, KEYS>&, AttentionHead,
                                                     AttentionQuery, AttentionKey, const V&...>;
template <class F, class... V>
inline constexpr bool is_mask =
    std::is_invocable_v<const F&, AttentionHead, AttentionQuery, AttentionKey, const V&...>;
template <class A, class F, class... V> constexpr bool score_fits() {
  if constexpr (is_score<A, F, V...>)
    return fits_block<A, std::invoke_result_t<const F&, const Tile<A, QUERIES, KEYS>&, AttentionHead,
                                              AttentionQuery, AttentionKey, const V&...>>();
  else
    return true;
}
template <class F, class... V> constexpr bool mask_fits() {
  if constexpr (is_mask<F, V...>)
    return fits_block<
        bool, std::invoke_result_t<const F&, AttentionHead, AttentionQuery, AttentionKey, const V&...>>();
  else
    return true;
}
template <class E, class R> Handle block_of(const R& result) {
  using Block = Tile<E, QUERIES, KEYS>;
  if constexpr (kiln::detail::IsPoison<R>)
    return {};
  else
    return kiln::detail::emit_convert(Tile(result).record(),
                                      kiln::detail::type_info<E, kiln::detail::shape_t<Block>>);
}

// values: the place, and the scores. Mistakes were reported by ops::score
// and ops::mask.
template <class A> struct ScoreCall {
  static constexpr DType compute = dtype_of<A>;
  template <class F, class... V> static Handle record(const Handle* values, const V&... views) {
    if constexpr (is_score<A, F, V...> && score_fits<A, F, V...>())
      return block_of<A>(F{}(attention_scores<A>(values), attention_head(values), attention_query(values),
                             attention_key(values), views...));
    else
      return {};
  }
};
struct MaskCall {
  static constexpr DType compute = DType::Bool;
  template <class F, class... V> static Handle record(const Handle* values, const V&... views) {
    if constexpr (is_mask<F, V...> && mask_fits<F, V...>())
      return block_of<bool>(
          F{}(attention_head(values), attention_query(values), attention_key(values), views...));
    else
      return {};
  }
};

// A lambda with its tensors.
template <class F, class... V> struct Score {
  Input views[sizeof...(V) + 1];
};
template <class F, class... V> struct Mask {
  Input views[sizeof...(V) + 1];
};

template <class A, class F, class... V> void add_hook(AttentionHooks& hooks, const Score<F, V...>& score) {
  hooks.score = &hook_of<ScoreCall<A>, F, hook_view_t<V>...>, hooks.score_views = score.views;
}
template <class A, class F, class... V> void add_hook(AttentionHooks& hooks, const Mask<F, V...>& mask) {
  hooks.mask = &hook_of<MaskCall, F, hook_view_t<V>...>, hooks.mask_views = mask.views;
}

void attention(StreamAt stream, const Input& q, const Input& k, const Input& v, const Output& o,
               const AttentionOptions& options, const AttentionHooks& hooks);

} // namespace detail

template <class F, class... V> auto score(const F&, const V&... views) {
  constexpr bool pure = detail::is_hook<F>, tensors = (detail::is_hook_tensor<V> && ...);
  static_assert(pure,
                "ops::score takes a lambda without captures: pass tensors after it, which it gets as views");
  static_assert(tensors, "what follows the lambda of ops::score are TensorViews and Tensors");
  if constexpr (pure && tensors) {
    constexpr bool callable = detail::is_score<float, F, detail::hook_view_t<V>...>;
    static_assert(callable,
                  "the lambda of ops::score takes (s, head, query, key) and one parameter for each tensor "
                  "that follows it");
    constexpr bool fits = detail::score_fits<float, F, detail::hook_view_t<V>...>();
    static_assert(fits,
                  "the lambda of ops::score must return a tile of numbers with the dimensions of s, or 1");
  }
  return detail::Score<F, V...>{{Input(views)..., Input()}};
}
template <class F, class... V> auto mask(const F&, const V&... views) {
  constexpr bool pure = detail::is_hook<F>, tensors = (detail::is_hook_tensor<V> && ...);
  static_assert(pure,
                "ops::mask takes a lambda without captures: pass tensors after it, which it gets as views");
  static_assert(tensors, "what follows the lambda of ops::mask are TensorViews and Tensors");
  if constexpr (pure && tensors) {
    constexpr bool callable = detail::is_mask<F, detail::hook_view_t<V>...>;
    static_assert(callable,
                  "the lambda of ops::mask takes (head, query, key) and one parameter for each tensor that "
                  "follows it");
    constexpr bool fits = detail::mask_fits<F, detail::hook_view_t<V>...>();
    static_assert(
        fits, "the lambda of ops::mask must return a tile of bool with the dimensions [QUERIES, KEYS], or "
              "1: write a comparison");
  }
  return detail::Mask<F, V...>{{Input(views)..., Input()}};
}

// Hooks are results of ops::score and ops::mask, at most one of each.
template <class O, class... Hooks>
void attention(detail::StreamAt stream, const Input& q, const Input& k, const Input& v, O&& o,
               const AttentionOptions& options = {}, const Hooks&... hooks) {
  detail::AttentionHooks all;
  if constexpr (sizeof...(Hooks) > 0) {
    using T = typename detail::OutputElement<std::remove_cvref_t<O>>::type;
    (detail::add_hook<std::conditional_t<std::is_same_v<T, double>, double, float>>(all, hooks), ...);
  }
  detail::attention(stream, q, k, v, Output(std::forward<O>(o)), options, all);
}

} // namespace kiln::ops
KILN_API_END
