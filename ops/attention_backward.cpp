// Implements the backward pass of attention: its checks, configs and batches. The kernels and the algorithm
// are in detail/attention_gradients.cpp.
#include <kiln/ops/attention_backward.h>

#include <kiln/ops/detail/attention_call.h>
#include <kiln/ops/detail/attention_gradients.h>
#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/workspace.h>

#include <algorithm>
#include <array>

namespace kiln::ops {
namespace {

using detail::OpVariant;
namespace option = detail::attention_option;

// A call after the checks. The arrays have rank 4 or more. lse, delta and parts have a last axis of one
// element. Gradients that are not wanted are copies of q, k and v.
struct BackwardCall {
  Array dout, q, k, v, o, lse, dq, dk, dv, delta, parts, dq_sums;
  OpVariant variant;
  const AttentionOptions& options;
  const detail::AttentionHooks& hooks;
  bool wants_dq, wants_dk, wants_dv, wants_dsinks;
  bool by_heads = false; // a program computes all gradients of a key head
  std::int64_t first_batch = 0;

  std::array<Array*, 12> batched() {
    return {&q, &dout, &k, &v, &o, &lse, &dq, &dk, &dv, &delta, &parts, &dq_sums};
  }
};

Config with_warps(Config config, Device device) {
  if (!device.is_cpu()) config.set(num_warps = 4);
  return config;
}
// In a fixed order, CPUs give the same bits with all blocks that are multiples of 32, the products of a step
// of AMX, while GPUs need the same blocks for any number of tokens.
Config gradients_config(const BackwardCall& c, Device device) {
  const detail::RaggedBatches ragged(c.options);
  const auto tokens = [&](const Array& x) {
    const std::int64_t average = ragged.average(x.extents[2]);
    if (!(c.variant.options & option::fixed_order)) return average;
    return device.is_cpu() ? std::max<std::int64_t>(average, 32) : detail::any_rows;
  };
  return detail::attention_backward_config(device, tokens(c.q), tokens(c.k), c.q.extents[3], c.v.extents[3]);
}

void launch_gradients(const detail::StreamAt& at, const BackwardCall& c) {
  const Device device = at.stream.device();
  OpVariant variant{c.variant.compute, c.wants_dsinks ? option::sinks : 0};
  detail::OpArguments sums{c.dout, c.o, c.delta};
  if (c.wants_dsinks)
    for (const Array* x : {&c.options.sinks.array(), &c.lse, &c.parts})
      sums.add(*x);
  detail::attention_delta_kernel.launch(at, with_warps({QUERIES = 32, VALUES = c.v.extents[3]}, device),
                                        variant, sums);

  Array delta = c.delta;
  delta.readonly = true;
  const detail::RaggedBatches ragged(c.options);
  const auto run = [&](const char* tunable, const detail::OpKernel& kernel, std::uint32_t options,
                       std::initializer_list<detail::OpArgument> gradients, const detail::GridRule& grid) {
    OpVariant variant = c.variant;
    variant.options = (variant.options & ~option::sinks) | options;
    detail::OpArguments list{c.dout, c.q, c.k, c.v, c.lse, delta};
    for (const detail::OpArgument& gradient : gradients)
      list.add(gradient);
    detail::add_offsets(list, c.options);
    detail::add_scores_arguments(list, variant, c.options, c.hooks, c.q, c.first_batch);
    const std::int64_t width = c.q.extents[3];
    std::optional<Config> config;
    if (width == c.v.extents[3] && (variant.options & option::fixed_order) == 0)
      config = detail::known_config(
          tunable, at,
          {c.q.extents[0], c.q.extents[1], c.k.extents[1], c.q.extents[2], c.k.extents[2], width},
          {kernel, variant, list, nullptr, grid});
    if (!config) config = gradients_config(c, device);
    const Grid programs = grid ? grid.grid(*config) : Grid{};
    kernel.launch(at, *config, variant, list, grid ? &programs : nullptr);
  };
  using detail::attention_has_dk, detail::attention_has_dv;
  if (c.by_heads)
    return run("attention_backward_heads", detail::attention_heads_kernel, 0, {c.dk, c.dv, c.dq, c.dq_sums},
               ragged.heads(c.k));
  const auto run_keys = [&](std::uint32_t options, std::initializer_list<detail::OpArgument> gradients) {
    run("attention_backward_keys", detail::attention_keys_kernel, options, gradients,
        ragged.tiles_of_keys(c.k));
  };
  if (c.wants_dk && c.wants_dv)
    run_keys(attention_has_dk | attention_has_dv, {c.dk, c.dv});
  else if (c.wants_dk)
    run_keys(attention_has_dk, {c.dk});
  else if (c.wants_dv)
    run_keys(attention_has_dv, {c.dv});
  if (c.wants_dq)
    run("attention_backward_queries", detail::attention_queries_kernel, 0, {c.dq},
        ragged.tiles_of_queries(c.q));
}

// Whether all gradients are computed by one kernel, whose programs own key heads. It computes five products
// for a block, and the two kernels that have more programs seven, so that it is faster unless threads would
// be idle for long in its last round. GPUs have more threads than key heads. Of ragged batches, only the
// heads count, since one sequence may take almost all of the time. In a fixed order, either choice gives the
// same bits: sums go on in memory where the other kernel keeps them in a tile.
bool owns_heads(const BackwardCall& c, Device device) {
  if (!device.is_cpu() || !c.wants_dq || !c.wants_dk || !c.wants_dv) return false;
  std::int64_t programs = 1, threads = device.properties().num_threads;
  for (int i = 0; i < c.k.rank - 2; ++i)
    programs *= c.k.extents[i];
  const std::int64_t rounds = (programs + threads - 1) / threads;
  return 7 * programs >= 5 * rounds * threads;
}

// A part of the workspace with the extents of `like`.
Array contiguous_like(const Array& like, Array part) {
  part.rank = like.rank;
  std::int64_t stride = 1;
  for (int i = like.rank; i-- > 0;) {
    part.extents[i] = like.extents[i], part.strides[i] = stride;
    stride *= like.extents[i];
  }
  return part;
}

} // namespace

// A heuristic. Of blocks of 64 to 256 queries and keys, 128 x 128 was the fastest or within 5 % of it, with
// heads of 64 and 128 in f32 and bf16 (measured on Emerald Rapids). That for GPUs is not measured yet.
Config detail::attention_backward_config(Device device, std::int64_t queries, std::int64_t keys,
                                         std::int64_t width, std::int64_t values) {
  const std::int64_t most_queries = device.is_cpu() ? 128 : std::max(width, values) > 64 ? 16 : 32;
  return with_warps({QUERIES = block_of_tokens(queries, most_queries),
                     KEYS = block_of_tokens(keys, device.is_cpu() ? 128 : 32), WIDTH = width,
                     VALUES = values},
                    device);
}

void detail::attention_backward(StreamAt stream, const AttentionGradients& t, const AttentionOptions& options,
                                const AttentionHooks& hooks) {
  const char* const op = "ops::attention_backward";
  const Checks check(op, stream);
  const auto or_input = [](const Output& wanted, const Input& like) {
    return wanted.given() ? wanted.array() : like.array();
  };
  BackwardCall c{t.dout.array(),
                 t.q.array(),
                 t.k.array(),
                 t.v.array(),
                 t.o.array(),
                 t.lse.array(),
                 or_input(t.dq, t.q),
                 or_input(t.dk, t.k),
                 or_input(t.dv, t.v),
                 {},
                 {},
                 {},
                 {},
                 options,
                 hooks,
                 t.dq.given(),
                 t.dk.given(),
                 t.dv.given(),
                 options.dsinks.given()};
  check_attention(check, c.q, c.k, c.v, c.o, options);
  check.tensor({"dout", c.dout}, 2);
  check.same_extents({"dout", c.dout}, {"o", c.o});
  check_lse(check, c.lse, c.q);
  const Array &sinks = options.sinks.array(), &dsinks = options.dsinks.array();
  if (options.dsinks.given()) {
    check.that(options.sinks.given(), "dsinks is given without sinks; give both, or sinks alone");
    check.tensor({"dsinks", dsinks}, 1);
    check.same_extents({"dsinks", dsinks}, {"sinks", sinks});
  }
  const struct {
    bool wanted;
    Argument out, like;
  } gradients[] = {{c.wants_dq, {"dq", c.dq}, {"q", c.q}},
                   {c.wants_dk, {"dk", c.dk}, {"k", c.k}},
                   {c.wants_dv, {"dv", c.dv}, {"v", c.v}},
                   {c.wants_dsinks, {"dsinks", dsinks}, {"sinks", sinks}}};
  for (const auto& g : gradients) {
    if (!g.wanted) continue;
    check.tensor(g.out, 1);
    check.same_extents(g.out, g.like);
  }
  for (const auto& g : gradients) {
    if (!g.wanted) continue;
    check.writes(g.out);
    for (const Argument& in :
         {Argument{"dout", c.dout}, {"q", c.q}, {"k", c.k}, {"v", c.v}, {"o", c.o}, {"lse", c.lse}})
      check.apart(g.out, in);
    check_apart_from_options(check, g.out, options);
    for (const auto& other : gradients)
      if (other.wanted && &other != &g) check.apart(g.out, other.out);
    check_apart_from_hooks(check, g.out, hooks);
  }
  c.variant = attention_variant(
      check, options,
      compute_dtype({&c.dout, &c.q, &c.k, &c.v, &c.o, &c.lse, &c.dq, &c.dk, &c.dv, &sinks, &dsinks}), hooks);

  c.lse = with_last_axis(c.lse);
  for (Array* x : {&c.q, &c.dout, &c.k, &c.v, &c.o, &c.lse, &c.dq, &c.dk, &c.dv})
    if (x->rank < 4) pad_rank(*x, 4);
  const DType compute = c.variant.compute;
  c.by_heads = owns_heads(c, stream.stream.device());
  const std::int64_t rows = c.lse.size(), bytes = Workspace::bytes(compute, rows);
  Workspace workspace(stream, (c.wants_dsinks ? 2 : 1) * bytes +
                                  (c.by_heads ? Workspace::bytes(compute, c.q.size()) : 0));
  c.delta = contiguous_like(c.lse, workspace.take(compute, {rows}).array());
  c.parts = c.wants_dsinks ? contiguous_like(c.lse, workspace.take(compute, {rows}).array()) : c.delta;
  c.dq_sums = c.by_heads ? contiguous_like(c.q, workspace.take(compute, {c.q.size()}).array()) : c.delta;
  Array parts = c.parts;
  // In the given order, because the lambdas get the numbers of batches.
  merge_batches(
      op, {&c.q, &c.dout, &c.k, &c.v, &c.o, &c.lse, &c.dq, &c.dk, &c.dv, &c.delta, &c.parts, &c.dq_sums}, 3,
      MergeOrder::as_given);
  launch_batches(c, 3, [&](const BackwardCall& part) { launch_gradients(stream, part); });
  if (c.wants_dsinks) {
    merge_outer({&parts}, 3, MergeOrder::as_given);
    parts.readonly = true;
    OpArguments list{parts, dsinks};
    list.add_if(options.query_offsets.given(), options.query_offsets);
    detail::attention_sinks_kernel.launch(stream, with_warps({QUERIES = 128}, stream.stream.device()),
                                          {compute, c.variant.options & option::ragged}, list);
  }
  workspace.free();
}

} // namespace kiln::ops
