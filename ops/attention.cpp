// Implements attention: the kernel, which never stores the scores, its config, checks and batches.
#include <kiln/ops/attention.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/attention_blocks.h>
#include <kiln/ops/detail/attention_call.h>
#include <kiln/ops/detail/attention_scores.h>
#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>

#include <array>
#include <optional>

namespace kiln::ops {
namespace {

using detail::AttentionBlock;
using detail::AttentionGrid;
using detail::AttentionScores;
using detail::AttentionTile;
using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;
namespace option = detail::attention_option;

constexpr std::uint32_t has_lse = option::first_own;

// The parameters are q, k, v, sinks, o, lse and those of AttentionGrid and AttentionScores. sinks and lse are
// optional. The arrays have four axes: batches, heads, tokens and the width, which is 1 for lse.
//
// This is the algorithm of Dao et al., "FlashAttention" (arXiv 2205.14135): the sums so far are scaled when a
// block of keys has a larger score. As long as the largest is -infinity, `shift` is 0, because
// -infinity - -infinity would be NaN.
template <class A> class Attention {
public:
  using Scores = AttentionScores<A>;

  Attention(const OpVariant& v, const Handle* next)
      : variant_(v), q_(*next++), k_(*next++), v_(*next++),
        sinks_(take<ErasedView<A, 1>>(option::sinks, next)), o_(*next++),
        lse_(take<ErasedView<A, 4>>(has_lse, next)), at_(owned(next)),
        scores_(v, "ops::attention", q_, k_, at_.sequence, next) {
    q_ = at_.sequence.queries(q_), o_ = at_.sequence.queries(o_);
    k_ = at_.sequence.keys(k_), v_ = at_.sequence.keys(v_);
    if (lse_) lse_ = at_.sequence.queries(*lse_);
  }

  void record() const {
    const auto& [batch, head, m, sequence] = at_;
    Scalar<std::int64_t> key_head = head / (q_.extent(1) / k_.extent(1));
    const auto d = offset(WIDTH, 0);
    const auto e = offset(VALUES, 0);
    const auto queries = q_.tile(batch, head, m, d).load_as_stored();

    const auto add_keys = [&, batch = batch](bool masked, const AttentionBlock& at, const auto& top,
                                             const auto& total, const auto& acc) {
      const auto keys = k_.tile(batch, key_head, at.n, d).load_as_stored();
      Tile<A, QUERIES, KEYS> seen = scores_.score(scores_.products(queries, keys), at);
      if (masked) seen = where(scores_.visible(at, Scores::Sums::over_keys), seen, Scores::hidden);
      Tile next = max(top, max(seen, KEYS, keep));
      Tile shift = where(next == Scores::hidden, A(0), next);
      Tile factor = exp(top - shift);
      Tile weights = exp(seen - shift);
      const auto values = v_.tile(batch, key_head, at.n, e).load_as_stored();
      Tile<A, QUERIES, VALUES> scaled = acc * factor;
      const auto kept = detail::stored_as(v_.dtype(), scores_.dropped(weights, at));
      return state(next, Tile(total * factor + sum(weights, KEYS, keep)),
                   detail::dot_erased(kept, values, scaled, scores_.dot_options()));
    };
    Tile<A, QUERIES, 1> top = full(Scores::hidden, QUERIES, 1_c), total = zeros<A>(QUERIES, 1_c);
    if (sinks_) {
      top = zeros<A>(QUERIES, 1_c) + sinks_->at(head).load();
      total = full(A(1), QUERIES, 1_c);
    }
    const auto visible = [&, batch = batch, head = head, m = m](const auto& n) {
      return scores_.visible({batch, head, m, offset(KEYS, n)}, Scores::Sums::over_keys);
    };
    auto [begin, end] = scores_.visited(k_.extent(2), dim_size(KEYS), visible);
    auto [most, all, acc] = for_range(
        KEYS, range(begin, end), state(top, total, zeros<A>(QUERIES, VALUES)),
        [&, batch = batch, head = head, m = m](auto n, auto top, auto total, auto acc) {
          return scores_.add_visible(
              visible(n), [&](bool masked) { return add_keys(masked, {batch, head, m, n}, top, total, acc); },
              state(top, total, acc));
        });
    o_.tile(batch, head, m, e).store(acc * where(all == A(0), A(0), A(1) / all));
    if (lse_) lse_->tile(batch, head, m, offset(1_c, 0)).store(most + log(all));
  }

private:
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return variant_.options & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }
  AttentionTile<QUERIES> owned(const Handle*& next) const {
    expects(k_.extent(0) == q_.extent(0), "k's batches and q's");
    expects(v_.extent(0) == q_.extent(0), "v's batches and q's");
    expects(k_.extent(1) == v_.extent(1), "k's heads and v's");
    expects(k_.extent(2) == v_.extent(2), "k's tokens and v's");
    expects(q_.extent(3) == dim_size(WIDTH), "q's width and WIDTH");
    expects(v_.extent(3) == dim_size(VALUES), "v's width and VALUES");
    const bool ragged = (variant_.options & option::ragged) != 0;
    return AttentionGrid(ragged, q_.extent(2), k_.extent(2), next).tile_of_queries(q_);
  }

  const OpVariant variant_;
  ErasedView<A, 4> q_, k_, v_;
  std::optional<ErasedView<A, 1>> sinks_;
  ErasedView<A, 4> o_;
  std::optional<ErasedView<A, 4>> lse_;
  AttentionTile<QUERIES> at_;
  Scores scores_;
};

void attention_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Attention<A>(v, arguments).record(); });
}

constinit const detail::OpKernel attention_kernel("attention", attention_body);

} // namespace

std::shared_ptr<ir::Kernel> detail::record_attention(DType dtype, const Config& config, bool causal) {
  const DType compute = dtype == DType::F64 ? DType::F64 : DType::F32;
  const Array in = reading(dtype, 4), out = writing(dtype, 4);
  return attention_kernel.record(config, {compute, causal ? option::causal : 0},
                                 {in, in, in, out, {compute, 0.0}, std::int64_t{0}});
}

// A heuristic. Blocks of scores that fill a part of the L2 cache are 5 to 10 % faster than blocks of 128 x
// 64: 256 x 256 (256 KiB) with an L2 of 2 MiB (measured on Granite Rapids), 256 x 128 with 1 MiB (Zen 4) or
// 512 KiB (Zen 3). With an L2 below 2 MiB masks take blocks of 128 queries, because a part of a block at the
// edge of what is visible is wasted. That for GPUs is not measured yet.
Config detail::attention_config(Device device, std::int64_t queries, std::int64_t width, std::int64_t values,
                                bool masked) {
  Config c{WIDTH = width, VALUES = values};
  const auto blocks = [&](std::int64_t q, std::int64_t k) {
    c.set(QUERIES = detail::block_of_tokens(queries, q)), c.set(KEYS = k);
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

namespace {

// Stands for the number of queries in a config that must not depend on it.
constexpr std::int64_t any_queries = 1 << 20;

// A call after the checks. The arrays have rank 4 or more. lse has a last axis of one element.
struct Call {
  Array q, k, v, o, lse;
  OpVariant variant;
  const AttentionOptions& options;
  const detail::AttentionHooks& hooks;
  std::int64_t first_batch = 0;

  bool has(std::uint32_t option) const { return (variant.options & option) != 0; }
  std::array<Array*, 5> batched() { return {&o, &q, &k, &v, &lse}; }
};

void launch(const detail::StreamAt& at, const Call& c) {
  detail::OpArguments list{c.q, c.k, c.v};
  list.add_if(c.has(option::sinks), c.options.sinks);
  list.add(c.o);
  list.add_if(c.has(has_lse), c.lse);
  detail::add_offsets(list, c.options);
  detail::add_scores_arguments(list, c.variant, c.options, c.hooks, c.q, c.first_batch);
  const std::int64_t queries = c.q.extents[2], width = c.q.extents[3], values = c.v.extents[3];
  const bool masked = c.has(option::causal | option::before | option::after) || c.variant.mask;
  const detail::RaggedBatches ragged(c.options);
  const detail::GridRule rule = ragged.tiles_of_queries(c.q);
  std::optional<Config> config;
  if (width == values && !c.has(option::fixed_order))
    config =
        detail::known_config(masked ? "attention_causal" : "attention", at,
                             {c.q.extents[0], c.q.extents[1], c.k.extents[1], queries, c.k.extents[2], width},
                             {attention_kernel, c.variant, list, nullptr, rule});
  // The order of reductions may depend on the number of queries of a block.
  if (!config)
    config = detail::attention_config(at.stream.device(),
                                      c.has(option::fixed_order) ? any_queries : ragged.average(queries),
                                      width, values, masked);
  const Grid grid = rule ? rule.grid(*config) : Grid{};
  attention_kernel.launch(at, *config, c.variant, list, rule ? &grid : nullptr);
}

} // namespace

void detail::attention(StreamAt stream, const Input& q, const Input& k, const Input& v, const Output& o,
                       const AttentionOptions& options, const AttentionHooks& hooks) {
  const char* const op = "ops::attention";
  const Checks check(op, stream);
  Call c{q.array(), k.array(), v.array(), o.array(), o.array(), {}, options, hooks};
  check_attention(check, c.q, c.k, c.v, c.o, options);
  check.writes({"o", c.o});
  for (const Argument& in : {Argument{"q", c.q}, {"k", c.k}, {"v", c.v}})
    check.apart({"o", c.o}, in);
  check_apart_from_options(check, {"o", c.o}, options);
  if (options.lse.given()) {
    c.lse = options.lse.array();
    check_lse(check, c.lse, c.q);
    check.writes({"lse", c.lse});
    check.apart({"o", c.o}, {"lse", c.lse});
    for (const Argument& in : {Argument{"q", c.q}, {"k", c.k}, {"v", c.v}})
      check.apart({"lse", c.lse}, in);
    check_apart_from_options(check, {"lse", c.lse}, options);
    c.lse = with_last_axis(c.lse);
  }
  c.variant = attention_variant(
      check, options, compute_dtype({&c.q, &c.k, &c.v, &c.o, &options.sinks.array(), &c.lse}), hooks);
  if (options.lse.given()) c.variant.options |= has_lse;
  check_apart_from_hooks(check, {"o", c.o}, hooks);
  if (c.o.size() == 0) return;

  for (Array* x : c.batched())
    if (x->rank < 4) pad_rank(*x, 4);
  // In the given order, because the lambdas get the numbers of batches.
  merge_batches(op, {&c.o, &c.q, &c.k, &c.v, &c.lse}, 3, MergeOrder::as_given);
  launch_batches(c, 3, [&](const Call& part) { launch(stream, part); });
}

namespace {

// Of the arguments, q and k come first: an address, four extents and four strides.
std::string remark_on_blocks(const Config& config, const std::uint64_t* arguments) {
  const auto tokens = [&](int view) { return static_cast<std::int64_t>(arguments[9 * view + 3]); };
  constexpr std::int64_t most_blocks = 1 << 14; // to count more takes seconds
  if (detail::attention_blocks_of(config, tokens(0), tokens(1)) > most_blocks) return {};
  const auto blocks =
      detail::count_attention_blocks({DType::F32, option::causal}, config, tokens(0), tokens(1));
  return "blocks of " + std::to_string(*config.get("QUERIES")) + " queries and " +
         std::to_string(*config.get("KEYS")) + " keys of each head: " + std::to_string(blocks.whole) +
         " are computed without the mask, " + std::to_string(blocks.masked) + " with it, and " +
         std::to_string(blocks.skipped) + " are skipped";
}

constexpr const char* registered_config = "QUERIES=256,KEYS=256,WIDTH=64,VALUES=64";
constexpr const char* registered_sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64";
constexpr const char* registered_parameters =
    "q=B,H,T,D k=B,G,S,D v=B,G,S,D o=B,H,T,D scale=0.125 first_batch=0";

const cli::KernelRegistration registered_attention({
    .name = "attention",
    .summary = "o = softmax(q k^T / sqrt(D)) v, f32",
    .record = [](const Config& config) { return detail::record_attention(DType::F32, config, false); },
    .config = registered_config,
    .sizes = registered_sizes,
    .parameters = registered_parameters,
});
const cli::KernelRegistration registered_attention_causal({
    .name = "attention_causal",
    .summary = "attention in which query i sees the keys up to i, f32",
    .record = [](const Config& config) { return detail::record_attention(DType::F32, config, true); },
    .config = registered_config,
    .sizes = registered_sizes,
    .parameters = registered_parameters,
    .remark = remark_on_blocks,
});

} // namespace
} // namespace kiln::ops
