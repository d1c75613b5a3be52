// Implements the checks and arguments that attention and its backward pass share.
#include <kiln/ops/detail/attention_call.h>

#include <kiln/ops/detail/attention_scores.h>
#include <kiln/ops/detail/hook.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kiln::ops::detail {
namespace {

// A window that is wider than this sees all keys; indices in the kernels are i32.
constexpr std::int64_t farthest = 1 << 30;

void check_offsets(const Checks& check, const Array& q, const AttentionOptions& options) {
  check.that(options.query_offsets.given() == options.key_offsets.given(),
             "one of query_offsets and key_offsets is given; give both, which may be the same tensor");
  if (!options.query_offsets.given()) return;
  check.that(q.rank <= 3, "there are offsets of sequences and batch axes; put all sequences one behind the "
                          "other: q is [heads, tokens, width]");
  const Argument queries{"query_offsets", options.query_offsets.array()},
      keys{"key_offsets", options.key_offsets.array()};
  for (const Argument& offsets : {queries, keys}) {
    check.integers(offsets);
    check.rank(offsets, 1);
  }
  check.equal("the sizes of query_offsets and key_offsets", queries.array.extents[0], keys.array.extents[0]);
  check.that(queries.array.extents[0] > 0,
             "query_offsets are empty; pass one number more than there are sequences");
}

} // namespace

void check_attention(const Checks& check, const Array& q, const Array& k, const Array& v, const Array& o,
                     const AttentionOptions& options) {
  const auto token = [](const Array& x) { return x.extents[x.rank - 2]; };
  const auto width = [](const Array& x) { return x.extents[x.rank - 1]; };
  const auto heads = [](const Array& x) { return x.rank > 2 ? x.extents[x.rank - 3] : 1; };
  for (const Argument& argument : {Argument{"q", q}, {"k", k}, {"v", v}, {"o", o}}) {
    check.tensor(argument, 2);
    check.that(argument.array.rank == q.rank, "q, k, v and o have different ranks; pass tensors of one rank");
  }
  check.equal("q's queries and o's", token(q), token(o));
  check.equal("q's width and k's", width(q), width(k));
  check.equal("v's width and o's", width(v), width(o));
  check.equal("k's keys and v's", token(k), token(v));
  check.equal("q's heads and o's", heads(q), heads(o));
  check.equal("k's heads and v's", heads(k), heads(v));
  check.that(heads(k) > 0 ? heads(q) % heads(k) == 0 : heads(q) == 0,
             "q's heads are not a multiple of k's; each key head serves as many heads of q");
  for (int i = 0; i < q.rank - 3; ++i)
    for (const Array* x : {&k, &v, &o})
      check.equal("the batch axes of q and those of k, v and o", q.extents[i], x->extents[i]);
  check.that(width(q) > 0 && width(v) > 0, "a head has no width; pass at least one element");
  if (options.sinks.given()) {
    const Argument sinks{"sinks", options.sinks.array()};
    check.tensor(sinks, 1);
    check.rank(sinks, 1);
    check.equal("sinks' size and q's heads", sinks.array.extents[0], heads(q));
  }
  check_offsets(check, q, options);
  check.that(std::isfinite(options.scale) && std::isfinite(options.soft_cap) && options.soft_cap >= 0,
             "scale and soft_cap must be finite, and soft_cap not negative; 0 stands for none");
  check.that(options.dropout >= 0 && static_cast<float>(options.dropout) < 1,
             "dropout is a probability: pass a number from 0, which drops nothing, to below 1");
  check.that(options.first_head >= 0 &&
                 (options.whole_heads == 0 ? options.first_head == 0
                                           : options.first_head + heads(q) <= options.whole_heads),
             "first_head and whole_heads do not fit: q's heads, counted from first_head on, must be among "
             "whole_heads");
}

void check_lse(const Checks& check, const Array& lse, const Array& q) {
  Array rows = q;
  --rows.rank;
  check.tensor({"lse", lse}, 1);
  check.same_extents({"lse", lse}, {"q without its last axis", rows});
}

void check_apart_from_options(const Checks& check, const Argument& out, const AttentionOptions& options) {
  for (const auto& [name, x] : {std::pair{"sinks", &options.sinks},
                                {"query_offsets", &options.query_offsets},
                                {"key_offsets", &options.key_offsets}})
    if (x->given()) check.apart(out, {name, x->array()});
}

void check_apart_from_hooks(const Checks& check, const Argument& out, const AttentionHooks& hooks) {
  for (int i = 0; hooks.score && i < hooks.score->view_count; ++i)
    check.apart(out, {"a tensor of the score", hooks.score_views[i].array()});
  for (int i = 0; hooks.mask && i < hooks.mask->view_count; ++i)
    check.apart(out, {"a tensor of the mask", hooks.mask_views[i].array()});
}

OpVariant attention_variant(const Checks& check, const AttentionOptions& options, DType compute,
                            const AttentionHooks& hooks) {
  using namespace attention_option;
  check.that(!hooks.score || hooks.score->compute == compute,
             "a tensor is of f64 and o is not, for which a score has no tiles of f64; pass o of f64");
  for (const Hook* hook : {hooks.score, hooks.mask})
    check.that(!hook || hook->view_count <= 8, "a score and a mask take at most 8 tensors each; merge some");
  OpVariant variant;
  variant.compute = compute;
  variant.options = (options.causal ? causal : 0) |
                    (options.alignment == CausalAlignment::last ? at_last : 0) |
                    (options.window_before >= 0 ? before : 0) | (options.window_after >= 0 ? after : 0) |
                    (options.soft_cap > 0 ? soft_cap : 0) | (options.sinks.given() ? sinks : 0) |
                    (options.dropout > 0 ? dropout : 0) | (options.batch_invariant ? fixed_order : 0) |
                    (options.query_offsets.given() ? ragged : 0);
  variant.hook = hooks.score, variant.mask = hooks.mask;
  return variant;
}

void add_offsets(OpArguments& list, const AttentionOptions& options) {
  list.add_if(options.query_offsets.given(), options.query_offsets);
  list.add_if(options.key_offsets.given(), options.key_offsets);
}

void add_scores_arguments(OpArguments& list, const OpVariant& variant, const AttentionOptions& options,
                          const AttentionHooks& hooks, const Array& q, std::int64_t first_batch) {
  using namespace attention_option;
  const double scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(q.extents[3])) : options.scale;
  list.add({variant.compute, scale});
  list.add_if(variant.options & soft_cap, {variant.compute, options.soft_cap});
  list.add_if(variant.options & before, std::min(options.window_before, farthest));
  list.add_if(variant.options & after, std::min(options.window_after, farthest));
  if (variant.options & dropout) {
    list.add({variant.compute, options.dropout});
    list.add(static_cast<std::int64_t>(options.seed));
    list.add(options.first_head);
    list.add(options.whole_heads > 0 ? options.whole_heads : q.extents[1]);
  }
  list.add(first_batch);
  for (int i = 0; variant.hook && i < variant.hook->view_count; ++i)
    list.add(hooks.score_views[i]);
  for (int i = 0; variant.mask && i < variant.mask->view_count; ++i)
    list.add(hooks.mask_views[i]);
}

Array with_last_axis(Array a) {
  a.extents[a.rank] = 1, a.strides[a.rank] = 1;
  ++a.rank;
  return a;
}

std::int64_t block_of_tokens(std::int64_t tokens, std::int64_t most) {
  std::int64_t block = 16;
  while (block < tokens && block < most)
    block *= 2;
  return block;
}

} // namespace kiln::ops::detail
