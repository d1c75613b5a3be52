// Implements attention: the kernel, which never stores the scores, its config, checks and batches.
#include <kiln/ops/attention.h>

#include <kiln/dsl/detail/mask_bounds.h>
#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/op_kernel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;

// The options of the kernel. Without `at_last`, query i is at key i, otherwise the last query at the last
// key.
constexpr std::uint32_t causal = 1, at_last = 2, before = 4, after = 8, soft_cap = 16, has_sinks = 32,
                        has_lse = 64;

// The parameters are q, k, v, sinks, o, lse, scale, soft_cap, window_before, window_after, the number of the
// first batch, of which some are optional, and the views of the lambdas. The arrays have four axes: batches,
// heads, tokens and the width, which is 1 for lse.
//
// This is the algorithm of Dao et al., "FlashAttention" (arXiv 2205.14135): the sums so far are scaled when a
// block of keys has a larger score. As long as the largest is -infinity, `shift` is 0, because
// -infinity - -infinity would be NaN.
template <class A> class Attention {
public:
  Attention(const OpVariant& v, const Handle* arguments)
      : variant_(v), next_(arguments), q_(*next_++), k_(*next_++), v_(*next_++),
        sinks_(take<ErasedView<A, 1>>(has_sinks)), o_(*next_++), lse_(take<ErasedView<A, 4>>(has_lse)),
        scale_(*next_++), cap_(take<Scalar<A>>(soft_cap)), before_(take<Scalar<std::int64_t>>(before)),
        after_(take<Scalar<std::int64_t>>(after)), first_batch_(*next_++), score_views_(next_),
        mask_views_(next_ + (v.hook ? v.hook->view_count : 0)) {}

  void record() const {
    expects(k_.extent(0) == q_.extent(0), "k's batches and q's");
    expects(v_.extent(0) == q_.extent(0), "v's batches and q's");
    expects(k_.extent(1) == v_.extent(1), "k's heads and v's");
    expects(k_.extent(2) == v_.extent(2), "k's tokens and v's");
    expects(q_.extent(3) == dim_size(WIDTH), "q's width and WIDTH");
    expects(v_.extent(3) == dim_size(VALUES), "v's width and VALUES");
    auto [batch, head, m] = program_tile(q_.view(), each, each, QUERIES);
    const Program at{batch, head, head / (q_.extent(1) / k_.extent(1)), m};
    const auto e = offset(VALUES, 0);
    const auto queries = q_.tile(batch, head, m, offset(WIDTH, 0)).load_as_stored();

    constexpr A lowest = -std::numeric_limits<A>::infinity();
    const auto add_keys = [&](bool masked, const Offset<KEYS>& n, auto top, auto total, auto acc) {
      Tile<A, QUERIES, KEYS> seen = scores(queries, at, n);
      if (masked) seen = where(visible(at, n), seen, lowest);
      Tile next = max(top, max(seen, KEYS, keep));
      Tile shift = where(next == lowest, A(0), next);
      Tile factor = exp(top - shift);
      Tile weights = exp(seen - shift);
      const auto values = v_.tile(at.batch, at.key_head, n, e).load_as_stored();
      Tile<A, QUERIES, VALUES> scaled = acc * factor;
      return state(next, Tile(total * factor + sum(weights, KEYS, keep)),
                   detail::dot_erased(detail::stored_as(v_.dtype(), weights), values, scaled));
    };
    Tile<A, QUERIES, 1> top = full(lowest, QUERIES, 1_c), total = zeros<A>(QUERIES, 1_c);
    if (sinks_) {
      top = zeros<A>(QUERIES, 1_c) + sinks_->at(head).load();
      total = full(A(1), QUERIES, 1_c);
    }
    auto [begin, end] = visited(at);
    auto [most, all, acc] =
        for_range(KEYS, range(begin, end), state(top, total, zeros<A>(QUERIES, VALUES)),
                  [&](auto n, auto top, auto total, auto acc) {
                    const auto bounds = kiln::detail::emit_mask_bounds(visible(at, n).record());
                    return if_else(
                        Scalar<bool>(bounds.all), [&] { return add_keys(false, n, top, total, acc); },
                        [&] {
                          return if_else(
                              Scalar<bool>(bounds.any), [&] { return add_keys(true, n, top, total, acc); },
                              [&] { return state(top, total, acc); });
                        });
                  });
    o_.tile(batch, head, m, e).store(acc * where(all == A(0), A(0), A(1) / all));
    if (lse_) lse_->tile(batch, head, m, offset(1_c, 0)).store(most + log(all));
  }

private:
  struct Program {
    Scalar<std::int64_t> batch, head, key_head;
    Offset<QUERIES> m;
  };

  template <class V> std::optional<V> take(std::uint32_t option) {
    return variant_.options & option ? std::optional<V>(V(*next_++)) : std::nullopt;
  }
  bool has(std::uint32_t option) const { return (variant_.options & option) != 0; }

  // What a lambda gets: the place of a block, and the scores.
  std::array<Handle, 5> place(const Program& at, const Offset<KEYS>& n, const Handle& s) const {
    return {Scalar<std::int64_t>(at.batch + first_batch_).record(), at.head.record(), at.m.record(),
            n.record(), s};
  }

  template <class Queries>
  Tile<A, QUERIES, KEYS> scores(const Queries& queries, const Program& at, const Offset<KEYS>& n) const {
    const auto keys = k_.tile(at.batch, at.key_head, n, offset(WIDTH, 0)).load_as_stored();
    Tile<A, QUERIES, KEYS> s = detail::dot_erased(queries, trans(keys), zeros<A>(QUERIES, KEYS)) * scale_;
    if (cap_) s = *cap_ * tanh(s / *cap_);
    if (!variant_.hook) return s;
    return Tile<A, QUERIES, KEYS>(detail::record_hook(*variant_.hook, place(at, n, s.record()).data(),
                                                      score_views_, "ops::attention: the score"));
  }

  // Which keys of a block the queries see.
  Tile<bool, QUERIES, KEYS> visible(const Program& at, const Offset<KEYS>& n) const {
    Tile query = expand<1>(cast<std::int32_t>(at.m + arange(QUERIES)));
    Tile key = expand<0>(cast<std::int32_t>(n + arange(KEYS)));
    Tile<bool, QUERIES, KEYS> seen = broadcast(key < cast<std::int32_t>(k_.extent(2)), QUERIES, KEYS);
    if (has(at_last)) query = query + cast<std::int32_t>(k_.extent(2) - q_.extent(2)); // its own key
    if (has(causal)) seen = seen & (key <= query);
    if (before_) seen = seen & (key >= query - cast<std::int32_t>(*before_));
    if (after_) seen = seen & (key <= query + cast<std::int32_t>(*after_));
    if (variant_.mask)
      seen = seen & Tile<bool, QUERIES, KEYS>(detail::record_hook(*variant_.mask, place(at, n, {}).data(),
                                                                  mask_views_, "ops::attention: the mask"));
    return seen;
  }

  // The keys from the first block that may be visible to the last one.
  Tuple<Scalar<std::int64_t>, Scalar<std::int64_t>> visited(const Program& at) const {
    Scalar<std::int64_t> all = k_.extent(2), blocks_end = cdiv(all, dim_size(KEYS)) * dim_size(KEYS);
    if (!(variant_.options & (causal | before | after)) && !variant_.mask)
      return state(Scalar<std::int64_t>(0), all);
    const auto hidden = [&](const auto& n) {
      return !Scalar<bool>(
          kiln::detail::emit_mask_bounds(visible(at, Offset<KEYS>(n.record())).record()).any);
    };
    auto begin = while_loop(
        Scalar<std::int64_t>(0), [&](auto n) { return (n < blocks_end) & hidden(n); },
        [&](auto n) { return n + dim_size(KEYS); });
    auto end = while_loop(
        blocks_end, [&](auto n) { return (n > begin) & hidden(Scalar<std::int64_t>(n - dim_size(KEYS))); },
        [&](auto n) { return n - dim_size(KEYS); });
    return state(begin, Scalar<std::int64_t>(min(end, all)));
  }

  const OpVariant variant_;
  const Handle* next_;
  ErasedView<A, 4> q_, k_, v_;
  std::optional<ErasedView<A, 1>> sinks_;
  ErasedView<A, 4> o_;
  std::optional<ErasedView<A, 4>> lse_;
  Scalar<A> scale_;
  std::optional<Scalar<A>> cap_;
  std::optional<Scalar<std::int64_t>> before_, after_;
  Scalar<std::int64_t> first_batch_;
  const Handle *score_views_, *mask_views_;
};

void attention_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Attention<A>(v, arguments).record(); });
}

constinit const detail::OpKernel attention_kernel("attention", attention_body);

// A heuristic. Blocks of scores that fill a part of the L2 cache are 5 to 10 % faster than blocks of 128 x
// 64: 256 x 256 (256 KiB) with an L2 of 2 MiB (measured on Granite Rapids), 256 x 128 with 1 MiB (Zen 4) or
// 512 KiB (Zen 3). With an L2 below 2 MiB masks take blocks of 128 queries, because a part of a block at the
// edge of what is visible is wasted. That for GPUs is not measured yet.
Config attention_config(Device device, std::int64_t queries, std::int64_t width, std::int64_t values,
                        bool masked) {
  Config c{WIDTH = width, VALUES = values};
  const auto blocks = [&](std::int64_t q, std::int64_t k) {
    std::int64_t few = 16;
    while (few < queries && few < q)
      few *= 2;
    c.set(QUERIES = few), c.set(KEYS = k);
  };
  if (!device.is_cpu()) {
    blocks(width > 64 ? 32 : 64, 32);
    c.set(num_warps = 4);
    return c;
  }
  const std::int64_t l2 = device.properties().l2_bytes;
  if (l2 < (512 << 10))
    blocks(128, 64);
  else if (l2 < (2 << 20))
    blocks(masked ? 128 : 256, 128);
  else
    blocks(256, 256);
  return c;
}

// A call after the checks. The arrays have rank 4 or more. lse has a last axis of one element.
struct Call {
  Array q, k, v, sinks, o, lse;
  OpVariant variant;
  const AttentionOptions& options;
  const detail::AttentionHooks& hooks;
  double scale;
  std::int64_t first_batch = 0;

  bool has(std::uint32_t option) const { return (variant.options & option) != 0; }
  std::array<Array*, 5> batched() { return {&o, &q, &k, &v, &lse}; }
};

// A window that is wider than this sees all keys; indices in the kernel are i32.
constexpr std::int64_t farthest = 1 << 30;

void launch(const detail::StreamAt& at, const Call& c) {
  detail::OpArguments list{c.q, c.k, c.v};
  list.add_if(c.has(has_sinks), c.sinks);
  list.add(c.o);
  list.add_if(c.has(has_lse), c.lse);
  list.add({c.variant.compute, c.scale});
  list.add_if(c.has(soft_cap), {c.variant.compute, c.options.soft_cap});
  list.add_if(c.has(before), std::min(c.options.window_before, farthest));
  list.add_if(c.has(after), std::min(c.options.window_after, farthest));
  list.add(c.first_batch);
  for (int i = 0; c.variant.hook && i < c.variant.hook->view_count; ++i)
    list.add(c.hooks.score_views[i]);
  for (int i = 0; c.variant.mask && i < c.variant.mask->view_count; ++i)
    list.add(c.hooks.mask_views[i]);
  const bool masked = c.has(causal | before | after) || c.variant.mask;
  const Config config =
      attention_config(at.stream.device(), c.q.extents[2], c.q.extents[3], c.v.extents[3], masked);
  attention_kernel.launch(at, config, c.variant, list);
}

} // namespace

void detail::attention(StreamAt stream, const Input& q, const Input& k, const Input& v, const Output& o,
                       const AttentionOptions& options, const AttentionHooks& hooks) {
  const char* const op = "ops::attention";
  const Checks check(op, stream);
  Call c{q.array(), k.array(), v.array(), options.sinks.array(), o.array(), o.array(),
         {},        options,   hooks,     options.scale};
  const auto token = [](const Array& x) { return x.extents[x.rank - 2]; };
  const auto width = [](const Array& x) { return x.extents[x.rank - 1]; };
  const auto heads = [](const Array& x) { return x.rank > 2 ? x.extents[x.rank - 3] : 1; };
  for (const Argument& argument : {Argument{"q", c.q}, {"k", c.k}, {"v", c.v}, {"o", c.o}}) {
    check.tensor(argument, 2);
    check.that(argument.array.rank == c.q.rank,
               "q, k, v and o have different ranks; pass tensors of one rank");
  }
  check.equal("q's queries and o's", token(c.q), token(c.o));
  check.equal("q's width and k's", width(c.q), width(c.k));
  check.equal("v's width and o's", width(c.v), width(c.o));
  check.equal("k's keys and v's", token(c.k), token(c.v));
  check.equal("q's heads and o's", heads(c.q), heads(c.o));
  check.equal("k's heads and v's", heads(c.k), heads(c.v));
  check.that(heads(c.k) > 0 ? heads(c.q) % heads(c.k) == 0 : heads(c.q) == 0,
             "q's heads are not a multiple of k's; each key head serves as many heads of q");
  for (int i = 0; i < c.q.rank - 3; ++i)
    for (const Array* x : {&c.k, &c.v, &c.o})
      check.equal("the batch axes of q and those of k, v and o", c.q.extents[i], x->extents[i]);
  check.that(width(c.q) > 0 && width(c.v) > 0, "a head has no width; pass at least one element");
  check.writes({"o", c.o});
  for (const Argument& in : {Argument{"q", c.q}, {"k", c.k}, {"v", c.v}})
    check.apart({"o", c.o}, in);
  if (options.sinks.given()) {
    check.tensor({"sinks", c.sinks}, 1);
    check.rank({"sinks", c.sinks}, 1);
    check.equal("sinks' size and q's heads", c.sinks.extents[0], heads(c.q));
    check.apart({"o", c.o}, {"sinks", c.sinks});
  }
  if (options.lse.given()) {
    c.lse = options.lse.array();
    Array rows = c.q;
    --rows.rank;
    check.tensor({"lse", c.lse}, 1);
    check.same_extents({"lse", c.lse}, {"q without its last axis", rows});
    check.writes({"lse", c.lse});
    check.apart({"o", c.o}, {"lse", c.lse});
    for (const Argument& in : {Argument{"q", c.q}, {"k", c.k}, {"v", c.v}})
      check.apart({"lse", c.lse}, in);
    c.lse.extents[c.lse.rank] = 1, c.lse.strides[c.lse.rank] = 1;
    ++c.lse.rank;
  }
  check.that(std::isfinite(options.scale) && std::isfinite(options.soft_cap) && options.soft_cap >= 0,
             "scale and soft_cap must be finite, and soft_cap not negative; 0 stands for none");
  c.variant.options = (options.causal ? causal : 0) |
                      (options.alignment == CausalAlignment::last ? at_last : 0) |
                      (options.window_before >= 0 ? before : 0) | (options.window_after >= 0 ? after : 0) |
                      (options.soft_cap > 0 ? soft_cap : 0) | (options.sinks.given() ? has_sinks : 0) |
                      (options.lse.given() ? has_lse : 0);
  c.variant.compute = compute_dtype({&c.q, &c.k, &c.v, &c.o, &c.sinks, &c.lse});
  c.variant.hook = hooks.score;
  check.that(!hooks.score || hooks.score->compute == c.variant.compute,
             "a tensor is of f64 and o is not, for which a score has no tiles of f64; pass o of f64");
  c.variant.mask = hooks.mask;
  for (int i = 0; c.variant.hook && i < c.variant.hook->view_count; ++i)
    check.apart({"o", c.o}, {"a tensor of the score", hooks.score_views[i].array()});
  for (int i = 0; hooks.mask && i < hooks.mask->view_count; ++i)
    check.apart({"o", c.o}, {"a tensor of the mask", hooks.mask_views[i].array()});
  if (c.scale == 0) c.scale = 1 / std::sqrt(static_cast<double>(width(c.q)));
  if (c.o.size() == 0) return;

  for (Array* x : c.batched())
    if (x->rank < 4) pad_rank(*x, 4);
  // In the given order, because the lambdas get the numbers of batches.
  merge_batches(op, {&c.o, &c.q, &c.k, &c.v, &c.lse}, 3, MergeOrder::as_given);
  launch_batches(c, 3, [&](const Call& part) { launch(stream, part); });
}

} // namespace kiln::ops
