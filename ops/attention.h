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
// q is [.., heads, queries, width], k is [.., key heads, keys, width], v is [.., key heads, keys, width of v],
// and o is [.., heads, queries, width of v]; the axes in front are batches and are the same for all. Ranks are
// 2 (one head) to 8. The heads of q are a multiple of those of k and v: each key head serves as many
// neighbouring heads of q (grouped queries). Strides are arbitrary, so [B, T, H, D] is passed as
// x.permute({0, 2, 1, 3}). Each tensor has a float dtype of its own; sums and exponentials are in f32 (f64 if
// a tensor is of f64), and the weights are rounded to the dtype of v before they are multiplied.
//
// A lambda gets `head`, the number of the head of q, a scalar that also has the member `batch`; and `query`
// and `key`, tiles of indices (i32) with dimensions [QUERIES, 1] and [1, KEYS], which have the member `offset`
// for view.tile. A score lambda gets the scaled score s, a tile [QUERIES, KEYS] of f32 or f64, and returns the
// score that is exponentiated. A mask lambda returns which keys a query sees. They may read views and compute
// element by element, and may be recorded several times.
//
// Blocks that the mask hides are skipped, and blocks that it shows whole are computed without it; neither
// changes a bit of the result. For this, bounds of the mask are computed for each block
// (dsl/detail/mask_bounds.h says for which masks).
//
// A query that sees no key gets zeros, and -infinity as its log-sum-exp.
//
// Errors: attention throws UserError if extents do not match, if o overlaps an input, or for a lambda that
// does more than compute element by element. It returns when the work is queued on the stream, and is
// thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/hook.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/dims.h>

#include <tuple>

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
  Input sinks = {};    // [heads]: the score of a further key for each head, whose value is zero
  Output lse = {};     // [.., heads, queries]: the logarithm of the sum of exponentials
};

// What lambdas get; see above.
class AttentionHead : public Scalar<std::int64_t> {
public:
  AttentionHead(const Scalar<std::int64_t>& head, const Scalar<std::int64_t>& of)
      : Scalar<std::int64_t>(head), batch(of) {}
  Scalar<std::int64_t> kiln_snapshot() const { return static_cast<const Scalar<std::int64_t>&>(*this); }
  Scalar<std::int64_t> batch;
};
template <class T, class Begin> class AttentionIndex : public T {
public:
  AttentionIndex(const T& index, const Begin& begin) : T(index), offset(begin) {}
  T kiln_snapshot() const { return static_cast<const T&>(*this); }
  Begin offset;
};
using AttentionQuery = AttentionIndex<Tile<std::int32_t, QUERIES, 1>, Offset<QUERIES>>;
using AttentionKey = AttentionIndex<Tile<std::int32_t, 1, KEYS>, Offset<KEYS>>;

namespace detail {

// The place of a block, as the library passes it: batch, head, the first query and the first key.
inline AttentionHead attention_head(const Handle* at) {
  return {Scalar<std::int64_t>(at[1]), Scalar<std::int64_t>(at[0])};
}
inline AttentionQuery attention_query(const Handle* at) {
  const Offset<QUERIES> begin(at[2]);
  return {Tile<std::int32_t, QUERIES, 1>(expand<1>(cast<std::int32_t>(begin + arange(QUERIES)))), begin};
}
inline AttentionKey attention_key(const Handle* at) {
  const Offset<KEYS> begin(at[3]);
  return {Tile<std::int32_t, 1, KEYS>(expand<0>(cast<std::int32_t>(begin + arange(KEYS)))), begin};
}

template <class T, class R> Handle attention_result(const R& result, const Handle& otherwise) {
  constexpr bool tile = kiln::detail::TileLike<R> || kiln::detail::IsPoison<R>;
  static_assert(tile, "the lambda of ops::score or ops::mask must return a tile");
  if constexpr (kiln::detail::TileLike<R>) {
    using S = kiln::detail::shape_t<T>;
    constexpr bool fits = kiln::detail::broadcasts_to<kiln::detail::shape_t<R>, S>;
    static_assert(fits,
                  "the result of ops::score and ops::mask must have the dimensions [QUERIES, KEYS], or 1");
    constexpr bool bools =
        kiln::detail::is_bool_operand<R> == std::is_same_v<kiln::detail::element_t<T>, bool>;
    static_assert(!fits || bools, "ops::score returns floats, and ops::mask bools: write a comparison");
    if constexpr (fits && bools)
      return kiln::detail::emit_convert(Tile(result).record(),
                                        kiln::detail::type_info<kiln::detail::element_t<T>, S>);
  }
  return otherwise;
}

// values: batch, head, the first query, the first key, and the scores.
template <class A> struct ScoreCall {
  static constexpr DType compute = dtype_of<A>;
  template <class F, class... V> static Handle record(const Handle* values, const V&... views) {
    const Tile<A, QUERIES, KEYS> s(values[4]);
    constexpr bool callable = std::is_invocable_v<const F&, const Tile<A, QUERIES, KEYS>&, AttentionHead,
                                                  AttentionQuery, AttentionKey, const V&...>;
    static_assert(callable,
                  "the lambda of ops::score takes (s, head, query, key) and one parameter for each tensor "
                  "that follows it");
    if constexpr (callable)
      return attention_result<Tile<A, QUERIES, KEYS>>(
          F{}(s, attention_head(values), attention_query(values), attention_key(values), views...),
          values[4]);
    return values[4];
  }
};
struct MaskCall {
  static constexpr DType compute = DType::Bool;
  template <class F, class... V> static Handle record(const Handle* values, const V&... views) {
    constexpr bool callable =
        std::is_invocable_v<const F&, AttentionHead, AttentionQuery, AttentionKey, const V&...>;
    static_assert(callable,
                  "the lambda of ops::mask takes (head, query, key) and one parameter for each tensor that "
                  "follows it");
    if constexpr (callable)
      return attention_result<Tile<bool, QUERIES, KEYS>>(
          F{}(attention_head(values), attention_query(values), attention_key(values), views...), values[0]);
    return values[0];
  }
};

// A lambda with its tensors.
template <class F, class... V> struct Score {
  Input views[sizeof...(V) + 1];
  static const Hook& hook(bool wide) {
    return wide ? hook_of<ScoreCall<double>, F, hook_view_t<V>...>
                : hook_of<ScoreCall<float>, F, hook_view_t<V>...>;
  }
};
template <class F, class... V> struct Mask {
  Input views[sizeof...(V) + 1];
  static const Hook& hook() { return hook_of<MaskCall, F, hook_view_t<V>...>; }
};

// The lambdas of a call without their types. `score` depends on whether the op computes in f64.
struct AttentionHooks {
  const Hook& (*score)(bool wide) = nullptr;
  const Hook* mask = nullptr;
  const Input *score_views = nullptr, *mask_views = nullptr;
};
template <class F, class... V> void add_hook(AttentionHooks& hooks, const Score<F, V...>& score) {
  hooks.score = &Score<F, V...>::hook, hooks.score_views = score.views;
}
template <class F, class... V> void add_hook(AttentionHooks& hooks, const Mask<F, V...>& mask) {
  hooks.mask = &Mask<F, V...>::hook(), hooks.mask_views = mask.views;
}

void attention(StreamAt stream, const Input& q, const Input& k, const Input& v, const Output& o,
               const AttentionOptions& options, const AttentionHooks& hooks);

} // namespace detail

template <class F, class... V> auto score(const F&, const V&... views) {
  constexpr bool pure = detail::is_hook<F>, tensors = (detail::is_hook_tensor<V> && ...);
  static_assert(pure,
                "ops::score takes a lambda without captures: pass tensors after it, which it gets as views");
  static_assert(tensors, "what follows the lambda of ops::score are TensorViews and Tensors");
  return detail::Score<F, V...>{{Input(views)..., Input()}};
}
template <class F, class... V> auto mask(const F&, const V&... views) {
  constexpr bool pure = detail::is_hook<F>, tensors = (detail::is_hook_tensor<V> && ...);
  static_assert(pure,
                "ops::mask takes a lambda without captures: pass tensors after it, which it gets as views");
  static_assert(tensors, "what follows the lambda of ops::mask are TensorViews and Tensors");
  return detail::Mask<F, V...>{{Input(views)..., Input()}};
}

// Hooks are results of ops::score and ops::mask, at most one of each.
template <class... Hooks>
void attention(detail::StreamAt stream, const Input& q, const Input& k, const Input& v, const Output& o,
               const AttentionOptions& options = {}, const Hooks&... hooks) {
  detail::AttentionHooks all;
  (detail::add_hook(all, hooks), ...);
  detail::attention(stream, q, k, v, o, options, all);
}

} // namespace kiln::ops
KILN_API_END
