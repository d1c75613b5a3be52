// Defines AttentionScores: what the kernels of attention and of its backward pass compute for a block of
// queries and keys.
#pragma once

#include <kiln/dsl/detail/gradient.h>
#include <kiln/dsl/detail/mask_bounds.h>
#include <kiln/ops/detail/attention_sequences.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/hook.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/dims.h>

#include <array>
#include <limits>
#include <optional>
#include <string>

namespace kiln::ops::detail {

// Options of the kernels. With at_last, the last query is at the last key; otherwise query i is at key i.
namespace attention_option {
inline constexpr std::uint32_t causal = 1, at_last = 2, before = 4, after = 8, soft_cap = 16, sinks = 32,
                               dropout = 64, fixed_order = 128, ragged = 256;
inline constexpr std::uint32_t first_own = 512; // kernels have options of their own from this bit on
} // namespace attention_option

// A block of scores of one batch and head: its first query and its first key, counted from those of the
// sequence.
struct AttentionBlock {
  Scalar<std::int64_t> batch, head;
  Offset<QUERIES> m;
  Offset<KEYS> n;
};

// A is the dtype in which the kernel computes.
template <class A> class AttentionScores {
public:
  using Scores = Tile<A, QUERIES, KEYS>;
  using Visible = Tile<bool, QUERIES, KEYS>;
  using Number = Scalar<std::int64_t>;
  static constexpr A hidden = -std::numeric_limits<A>::infinity();

  // Takes the last parameters of a kernel from `next`: scale, soft_cap, window_before, window_after, the
  // probability and the seed of dropout, the first of q's heads and the number of all heads for dropout, of
  // which the options name all but the first, the number of the first batch, and the views of the lambdas. q and k have four axes: batches, heads, tokens and the width. They
  // have the tokens of all sequences. `op` begins the errors: "ops::attention".
  AttentionScores(const OpVariant& v, const char* op, const ErasedView<A, 4>& q, const ErasedView<A, 4>& k,
                  const AttentionSequence& sequence, const Handle* next)
      : variant_(v), what_score_(std::string(op) + ": the score"), what_mask_(std::string(op) + ": the mask"),
        q_(q), k_(k), sequence_(sequence), queries_(sequence.queries(q).extent(2)),
        keys_(sequence.keys(k).extent(2)), scale_(*next++),
        cap_(take<Scalar<A>>(attention_option::soft_cap, next)),
        before_(take<Number>(attention_option::before, next)),
        after_(take<Number>(attention_option::after, next)),
        dropout_(take<Scalar<A>>(attention_option::dropout, next)),
        seed_(take<Number>(attention_option::dropout, next)),
        first_head_(take<Number>(attention_option::dropout, next)),
        whole_heads_(take<Number>(attention_option::dropout, next)), first_batch_(*next++),
        score_views_(next), mask_views_(next + (v.hook ? v.hook->view_count : 0)) {}

  const Scalar<A>& scale() const { return scale_; }

  // The scaled products of blocks of queries and keys.
  template <class Queries, class Keys> Scores products(const Queries& queries, const Keys& keys) const {
    return dot_erased(queries, trans(keys), zeros<A>(QUERIES, KEYS), dot_options()) * scale_;
  }
  DotOptions dot_options() const {
    return {.order = has(attention_option::fixed_order) ? SumOrder::fixed : SumOrder::any};
  }
  // The scores that are exponentiated.
  Scores score(const Scores& products, const AttentionBlock& at) const {
    Scores s = products;
    if (cap_) s = *cap_ * tanh(s / *cap_);
    if (!variant_.hook) return s;
    return Scores(
        record_hook(*variant_.hook, place(at, s.record()).data(), score_views_, what_score_.c_str()));
  }
  // The gradient with respect to the products, from that with respect to the scores.
  Scores gradient(const Scores& products, const Scores& scores, const Scores& d) const {
    return Scores(
        kiln::detail::emit_gradient(scores.record(), products.record(), d.record(), what_score_.c_str()));
  }
  bool has_lambda() const { return variant_.hook != nullptr; }

  // The weights, or their gradients, after dropout.
  Scores dropped(const Scores& weights, const AttentionBlock& at) const {
    if (!dropout_) return weights;
    Number head = (at.batch + first_batch_) * *whole_heads_ + (*first_head_ + at.head);
    Number row = head * q_.extent(2);
    Tile rows = expand<1>(row + (sequence_.first_query() + at.m + arange(QUERIES)));
    Tile index = rows * k_.extent(2) + expand<0>(sequence_.first_key() + at.n + arange(KEYS));
    Scalar<A> factor = A(1) / (A(1) - *dropout_);
    // Compared in f32, so that tensors of f64 lose the same weights.
    return where(rand(*seed_, index) >= cast<float>(*dropout_), weights * factor, A(0));
  }

  // Which keys of a block its queries see. An extent counts only if the kernel sums along it.
  enum class Sums : std::uint8_t { over_keys, over_queries, over_both };
  Visible visible(const AttentionBlock& at, Sums sums) const {
    Tile query = expand<1>(cast<std::int32_t>(at.m + arange(QUERIES)));
    Tile key = expand<0>(cast<std::int32_t>(at.n + arange(KEYS)));
    const auto keys_end = [&] { return broadcast(key < cast<std::int32_t>(keys_), QUERIES, KEYS); };
    Visible seen = sums == Sums::over_keys
                       ? Visible(keys_end())
                       : Visible(broadcast(query < cast<std::int32_t>(queries_), QUERIES, KEYS));
    if (sums == Sums::over_both) seen = seen & keys_end();
    if (has(attention_option::at_last)) query = query + cast<std::int32_t>(keys_ - queries_); // its own key
    if (has(attention_option::causal)) seen = seen & (key <= query);
    if (before_) seen = seen & (key >= query - cast<std::int32_t>(*before_));
    if (after_) seen = seen & (key <= query + cast<std::int32_t>(*after_));
    if (variant_.mask)
      seen =
          seen & Visible(record_hook(*variant_.mask, place(at, {}).data(), mask_views_, what_mask_.c_str()));
    return seen;
  }

  // The part of an axis of `all` elements, in steps of `step`, from the first block that may be visible to
  // the last one. visible_at(i) is the mask of the block that begins at i.
  template <class VisibleAt>
  Tuple<Number, Number> visited(const Number& all, const Number& step, const VisibleAt& visible_at) const {
    using namespace attention_option;
    Number blocks_end = cdiv(all, step) * step;
    if (!(variant_.options & (causal | before | after)) && !variant_.mask) return state(Number(0), all);
    const auto is_hidden = [&](const auto& i) {
      const auto bounds = kiln::detail::emit_mask_bounds(visible_at(Number(i)).record());
      if (!bounds.gave_up.empty()) remark_on_bounds(bounds.gave_up);
      return !Scalar<bool>(bounds.any);
    };
    auto begin = while_loop(
        Number(0), [&](auto i) { return (i < blocks_end) & is_hidden(i); }, [&](auto i) { return i + step; });
    auto end = while_loop(
        blocks_end, [&](auto i) { return (i > begin) & is_hidden(i - step); },
        [&](auto i) { return i - step; });
    return state(begin, Number(min(end, all)));
  }

  // Computes add(masked), which returns the next sums, for a block of which the mask shows all or a part, and
  // returns the sums so far for one that it hides.
  template <class Add, class State>
  auto add_visible(const Visible& seen, const Add& add, const State& sums) const {
    const auto bounds = kiln::detail::emit_mask_bounds(seen.record());
    return if_else(
        Scalar<bool>(bounds.all), [&] { return add(false); },
        [&] { return if_else(Scalar<bool>(bounds.any), [&] { return add(true); }, [&] { return sums; }); });
  }

private:
  void remark_on_bounds(std::string why) const {
    // An expression that is no Tile has no line of the user's: it gets that of the header that records it.
    if (why.find("ops/attention.h:") != why.npos) why.erase(why.rfind(" ("));
    remark_on_recording(what_mask_ + " has no exact bounds, because " + why +
                        "; blocks that it hides are computed, too");
  }
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return has(option) ? std::optional<V>(V(*next++)) : std::nullopt;
  }
  bool has(std::uint32_t option) const { return (variant_.options & option) != 0; }

  // What a lambda gets: the place of a block, where its sequence begins, and the scores.
  std::array<Handle, 7> place(const AttentionBlock& at, const Handle& s) const {
    const Number batch = sequence_.number() ? *sequence_.number() : Number(at.batch + first_batch_);
    return {batch.record(),
            at.head.record(),
            at.m.record(),
            at.n.record(),
            sequence_.first_query().record(),
            sequence_.first_key().record(),
            s};
  }

  const OpVariant variant_;
  const std::string what_score_, what_mask_;
  ErasedView<A, 4> q_, k_;
  AttentionSequence sequence_;
  Number queries_, keys_; // of the sequence
  Scalar<A> scale_;
  std::optional<Scalar<A>> cap_;
  std::optional<Number> before_, after_;
  std::optional<Scalar<A>> dropout_;
  std::optional<Number> seed_, first_head_, whole_heads_;
  Number first_batch_;
  const Handle *score_views_, *mask_views_;
};

} // namespace kiln::ops::detail
