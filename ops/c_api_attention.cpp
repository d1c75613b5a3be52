// Implements the C functions for attention, position embedding and caches of keys and values.
#include <kiln/ops/c_api.h>

#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/c_call.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/named_scores.h>
#include <kiln/ops/rotary.h>

#include <cstddef>

using namespace kiln;
using ops::detail::CCall;
using ops::detail::run;

namespace {

constexpr const char* pair_names[] = {"halves", "interleaved"};

KilnAttentionOptions given_or_defaults(const CCall& call, const KilnAttentionOptions* options) {
  return call.options(options, KILN_ATTENTION_DEFAULTS);
}

ops::AttentionOptions attention_options(const CCall& call, const KilnAttentionOptions& o) {
  return {.scale = o.scale,
          .causal = o.causal != 0,
          .alignment = o.align_last ? ops::CausalAlignment::last : ops::CausalAlignment::first,
          .window_before = o.window_before,
          .window_after = o.window_after,
          .soft_cap = o.soft_cap,
          .dropout = o.dropout,
          .seed = o.seed,
          .first_head = o.first_head,
          .whole_heads = o.whole_heads,
          .sinks = call.optional_input("sinks", o.sinks),
          .query_offsets = call.optional_input("query_offsets", o.query_offsets),
          .key_offsets = call.optional_input("key_offsets", o.key_offsets),
          .lse = call.optional_output("lse", o.lse),
          .batch_invariant = o.batch_invariant != 0,
          .dsinks = call.optional_output("dsinks", o.dsinks)};
}

ops::detail::NamedScores named_scores(const CCall& call, const KilnAttentionOptions& o) {
  const bool by_place = o.alibi_slopes || o.relative_bias;
  const bool by_batch = o.bias || o.prefix_lengths || o.key_lengths || o.documents || o.key_documents;
  if (o.query_offsets && (by_batch || (by_place && o.align_last)))
    call.refuse("query_offsets",
                "is given with a bias, lengths, documents, or positions from the last key, which are of "
                "batches of equal lengths; call the function once for each sequence, or instead of documents "
                "begin a sequence at each of them");
  return {.alibi_slopes = call.optional_input("alibi_slopes", o.alibi_slopes),
          .bias = call.optional_input("bias", o.bias),
          .relative_bias = call.optional_input("relative_bias", o.relative_bias),
          .prefix_lengths = call.optional_input("prefix_lengths", o.prefix_lengths),
          .key_lengths = call.optional_input("key_lengths", o.key_lengths),
          .documents = call.optional_input("documents", o.documents),
          .key_documents = call.optional_input("key_documents", o.key_documents)};
}

ops::RotaryOptions rotary_options(const CCall& call, const KilnRotaryOptions* options) {
  const auto o = call.options(options, KILN_ROTARY_DEFAULTS);
  return {.pairs = call.named<ops::RotaryPairs>("pairs", o.pairs, pair_names),
          .width = o.width,
          .theta = o.theta,
          .cos = call.optional_input("cos", o.cos),
          .sin = call.optional_input("sin", o.sin),
          .positions = call.optional_input("positions", o.positions),
          .offset = o.offset};
}

ops::KeyValueCache cache_of(const CCall& call, const KilnKeyValueCache* cache) {
  if (!cache) call.refuse("cache", "is null; pass a KilnKeyValueCache");
  const auto c = call.options(cache, KILN_KEY_VALUE_CACHE_DEFAULTS);
  return {.keys = call.output("cache.keys", c.keys),
          .values = call.output("cache.values", c.values),
          .blocks = call.optional_input("cache.blocks", c.blocks),
          .key_scales = call.optional_output("cache.key_scales", c.key_scales),
          .value_scales = call.optional_output("cache.value_scales", c.value_scales)};
}
const DLTensor* keys_of(const KilnKeyValueCache* cache) {
  return cache && cache->size >= offsetof(KilnKeyValueCache, values) ? cache->keys : nullptr;
}

} // namespace

int kiln_attention(const DLTensor* q, const DLTensor* k, const DLTensor* v, DLTensor* o,
                   const KilnAttentionOptions* options) {
  return run("kiln_attention", {"o", o}, [&](const CCall& call) {
    const auto given = given_or_defaults(call, options);
    auto all = attention_options(call, given);
    const ops::Input in_q = call.input("q", q), in_k = call.input("k", k), in_v = call.input("v", v);
    const ops::Output out = call.output("o", o);
    const ops::detail::Checks check("ops::attention", call.at);
    const DType compute = ops::detail::compute_dtype(
        {&in_q.array(), &in_k.array(), &in_v.array(), &out.array(), &all.sinks.array(), &all.lse.array()});
    const ops::detail::NamedHooks named(check, named_scores(call, given), in_q.array(), in_k.array(), compute,
                                        all);
    named.check_apart(check, {"o", out.array()});
    if (all.lse.given()) named.check_apart(check, {"lse", all.lse.array()});
    ops::detail::attention(call.at, in_q, in_k, in_v, out, all, named.hooks());
  });
}

int kiln_attention_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                            const DLTensor* o, const DLTensor* lse, DLTensor* dq, DLTensor* dk, DLTensor* dv,
                            const KilnAttentionOptions* options) {
  const DLTensor* dsinks =
      options && options->size >= offsetof(KilnAttentionOptions, alibi_slopes) ? options->dsinks : nullptr;
  const auto body = [&](const CCall& call) {
    const auto given = given_or_defaults(call, options);
    auto all = attention_options(call, given);
    const ops::Input in[] = {call.input("dout", dout), call.input("q", q), call.input("k", k),
                             call.input("v", v),       call.input("o", o), call.input("lse", lse)};
    const ops::Output out[] = {call.optional_output("dq", dq), call.optional_output("dk", dk),
                               call.optional_output("dv", dv)};
    const ops::detail::Checks check("ops::attention_backward", call.at);
    const DType compute = ops::detail::compute_dtype(
        {&in[0].array(), &in[1].array(), &in[2].array(), &in[3].array(), &in[4].array(), &in[5].array(),
         &out[0].array(), &out[1].array(), &out[2].array(), &all.sinks.array(), &all.dsinks.array()});
    const ops::detail::NamedHooks named(check, named_scores(call, given), in[1].array(), in[2].array(),
                                        compute, all);
    const ops::detail::Argument results[] = {{"dq", out[0].array()},
                                             {"dk", out[1].array()},
                                             {"dv", out[2].array()},
                                             {"dsinks", all.dsinks.array()}};
    for (const ops::detail::Argument& result : results)
      if (result.array.data) named.check_apart(check, result);
    ops::detail::attention_backward(
        call.at, {in[0], in[1], in[2], in[3], in[4], in[5], out[0], out[1], out[2]}, all, named.hooks());
  };
  return run("kiln_attention_backward", {{"dq", dq}, {"dk", dk}, {"dv", dv}, {"dsinks", dsinks}},
             {"dout", dout}, body);
}

int kiln_rotary(const DLTensor* x, DLTensor* y, const KilnRotaryOptions* options) {
  return run("kiln_rotary", {"y", y}, [&](const CCall& call) {
    ops::rotary(call.at, call.input("x", x), call.output("y", y), rotary_options(call, options));
  });
}

int kiln_rotary_backward(const DLTensor* dy, DLTensor* dx, const KilnRotaryOptions* options) {
  return run("kiln_rotary_backward", {"dx", dx}, [&](const CCall& call) {
    ops::rotary_backward(call.at, call.input("dy", dy), call.output("dx", dx), rotary_options(call, options));
  });
}

int kiln_cache_append(const DLTensor* k, const DLTensor* v, const DLTensor* lengths,
                      const KilnKeyValueCache* cache, const KilnAppendOptions* options) {
  return run("kiln_cache_append", {{"cache.keys", keys_of(cache)}}, {"k", k}, [&](const CCall& call) {
    const auto o = call.options(options, KILN_APPEND_DEFAULTS);
    ops::AppendOptions all{.q = call.optional_input("q", o.q),
                           .rotated_q = call.optional_output("rotated_q", o.rotated_q)};
    if (o.rotary) all.rotary = rotary_options(call, o.rotary);
    ops::cache_append(call.at, call.input("k", k), call.input("v", v), call.input("lengths", lengths),
                      cache_of(call, cache), all);
  });
}

int kiln_attention_decode(const DLTensor* q, const KilnKeyValueCache* cache, const DLTensor* lengths,
                          DLTensor* o, const KilnDecodeOptions* options) {
  return run("kiln_attention_decode", {"o", o}, [&](const CCall& call) {
    const auto given = call.options(options, KILN_DECODE_DEFAULTS);
    ops::attention_decode(call.at, call.input("q", q), cache_of(call, cache), call.input("lengths", lengths),
                          call.output("o", o),
                          {.scale = given.scale,
                           .appended = given.appended,
                           .causal = given.causal != 0,
                           .window_before = given.window_before,
                           .soft_cap = given.soft_cap,
                           .sinks = call.optional_input("sinks", given.sinks),
                           .batch_invariant = given.batch_invariant != 0,
                           .lse = call.optional_output("lse", given.lse)});
  });
}
