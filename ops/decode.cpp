// Implements attention with a cache: a kernel for parts of the keys, and one that combines the parts.
#include <kiln/ops/decode.h>

#include <kiln/ops/detail/axes.h>
#include <kiln/ops/detail/cache.h>
#include <kiln/ops/detail/decode_tiles.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace kiln::ops {
namespace decoding {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;
using Index = Scalar<std::int64_t>;

using detail::GROUP, detail::PAGE, detail::PART;

// The options of both kernels. Blocks of keys lie in one page each, or `scattered` over several pages.
constexpr std::uint32_t paged = 1, scattered = 2, quantised = 4, causal = 8, before = 16, soft_cap = 32,
                        has_sinks = 64, has_lse = 128, fixed_order = 256;

// Which keys the queries of a block of rows see; the rows are the queries of the first head, of the second,
// and so on. Takes lengths, appended, capacity and window_before from the parameters at `next`.
class Visible {
public:
  Visible(const OpVariant& v, const Handle* next, const Index& batch, const Index& first_query,
          const Index& queries)
      : causal_(v.options & causal) {
    const ErasedView<std::int64_t, 1> lengths(*next++);
    Index appended(*next++), capacity(*next++);
    Index given = lengths.at(batch).load() + appended;
    device_assert((given >= 0) & (given <= capacity),
                  "the length of a sequence is 0 to the cache's capacity");
    length_.emplace(max(Index(0), min(given, capacity)));
    first_.emplace(*length_ - queries + first_query);
    queries_.emplace(min(dim_size(QUERIES), queries - first_query));
    if (v.options & before) before_.emplace(*next++);
  }

  const Index& length() const { return *length_; }
  // The keys that any of the queries sees: from begin() to end() - 1.
  Index begin() const { return before_ ? Index(max(Index(0), *first_ - *before_)) : Index(0); }
  Index end() const { return causal_ ? Index(max(Index(0), min(*length_, *first_ + *queries_))) : *length_; }
  // Whether all queries see all keys of the block at n.
  Scalar<bool> all(const Offset<KEYS>& n) const {
    Scalar<bool> seen = n + dim_size(KEYS) <= (causal_ ? Index(min(*length_, *first_ + 1)) : *length_);
    if (before_) seen = seen & (n >= *first_ + *queries_ - 1 - *before_);
    return seen;
  }
  Tile<bool, GROUP * QUERIES, KEYS> mask(const Offset<KEYS>& n) const {
    Tile row = arange(GROUP * QUERIES);
    Tile query = expand<1>(*first_ + cast<std::int64_t>(row % cast<std::int32_t>(dim_size(QUERIES))));
    Tile key = expand<0>(n + arange(KEYS));
    Tile<bool, GROUP * QUERIES, KEYS> seen = broadcast(key < *length_, GROUP * QUERIES, KEYS);
    if (causal_) seen = seen & (key <= query);
    if (before_) seen = seen & (key >= query - *before_);
    return seen;
  }

private:
  bool causal_;
  std::optional<Index> length_, first_, queries_, before_; // first_: the position of the first query
};

// Where the keys of a block are in the cache.
template <class A> class KeyBlock {
public:
  // visible: given if the queries do not see all keys; rows of keys beyond the length are then not read.
  KeyBlock(const OpVariant& v, const ErasedView<A, 4>& keys,
           const std::optional<ErasedView<std::int64_t, 2>>& blocks, const Index& batch,
           const Index& key_head, const Offset<KEYS>& n, const Visible& visible, bool masked)
      : key_head_(key_head), page_(batch), slot_(n) {
    const auto check = [&](const auto& page) {
      device_assert((page >= 0) & (page < keys.extent(0)), "an entry of cache.blocks is a page");
    };
    if (v.options & scattered) { // keys beyond the length repeat the last one
      Tile place = min(n + arange(KEYS), visible.length() - 1);
      pages_ = blocks->at(batch, place / dim_size(PAGE)).load();
      slots_ = place % dim_size(PAGE);
      check(*pages_);
      return;
    }
    Index page_size = keys.extent(2);
    Index first = 0;
    if (v.options & paged) {
      first = n / page_size * page_size;
      page_ = blocks->at(batch, n / page_size).load();
      slot_ = offset(KEYS, n - first);
      check(page_);
    }
    if (masked) end_ = visible.length() - first;
  }

  // The block of keys or of values.
  template <class D> auto rows(const ErasedView<A, 4>& cache, D width) const {
    if (pages_)
      return cache.at(expand<1>(*pages_), key_head_, expand<1>(*slots_), expand<0>(arange(width)))
          .load_as_stored();
    return sliced(cache).tile(page_, key_head_, slot_, offset(width, 0)).load_as_stored();
  }
  Tile<A, 1, KEYS> scales(const ErasedView<A, 3>& of) const {
    if (pages_) return expand<0>(of.at(*pages_, key_head_, *slots_).load());
    return expand<0>(sliced(of).tile(page_, key_head_, slot_).load());
  }

private:
  template <class V> V sliced(const V& view) const { return end_ ? view.slice(2, 0, *end_) : view; }

  Index key_head_, page_;
  Offset<KEYS> slot_;
  std::optional<Index> end_; // of the keys that are read, in the page
  std::optional<Tile<std::int64_t, KEYS>> pages_, slots_;
};

// The parameters are q, keys, values, blocks, the scales of keys and values, the sums, the largest scores and
// the totals of parts, scale, soft_cap, and those of Visible, of which some are optional. q is [batch, key
// heads, heads of a key head, queries, width]. The results are [batch, blocks of rows of all key heads,
// parts, rows], and the sums have the width of values behind.
//
// As long as the largest score is -infinity, `shift` is 0, because -infinity - -infinity would be NaN.
template <class A> class Part {
public:
  Part(const OpVariant& v, const Handle* next)
      : variant_(v), q_(*next++), keys_(*next++), values_(*next++),
        blocks_(take<ErasedView<std::int64_t, 2>>(paged, next)),
        key_scales_(take<ErasedView<A, 3>>(quantised, next)),
        value_scales_(take<ErasedView<A, 3>>(quantised, next)), sums_(*next++), largest_(*next++),
        totals_(*next++), scale_(*next++), cap_(take<Scalar<A>>(soft_cap, next)), next_(next) {}

  void record() const {
    if (variant_.options & scattered) expects(keys_.extent(2) == dim_size(PAGE), "the page size and PAGE");
    Index batch = program_id(0), to = program_id(1), part = program_id(2);
    Index query_blocks = cdiv(q_.extent(3), dim_size(QUERIES));
    Index blocks_of_head = cdiv(q_.extent(2), dim_size(GROUP)) * query_blocks;
    Index key_head = to / blocks_of_head, rows = to % blocks_of_head;
    Index query = rows % query_blocks * dim_size(QUERIES);
    const Visible visible(variant_, next_, batch, query, q_.extent(3));
    Index begin = max(part * dim_size(PART), visible.begin() / dim_size(KEYS) * dim_size(KEYS)),
          end = min((part + 1) * dim_size(PART), visible.end());
    if_then(begin < end, [&] {
      const auto queries =
          reshape(q_.tile(batch, key_head, offset(GROUP, rows / query_blocks * dim_size(GROUP)),
                          offset(QUERIES, query), offset(WIDTH, 0))
                      .load_as_stored(),
                  GROUP * QUERIES, WIDTH);
      auto [top, total, sums] =
          for_range(KEYS, range(begin, end),
                    state(full(lowest, GROUP * QUERIES, 1_c), zeros<A>(GROUP * QUERIES, 1_c),
                          zeros<A>(GROUP * QUERIES, VALUES)),
                    [&](auto n, auto top, auto total, auto sums) {
                      const auto add = [&](bool masked) {
                        const KeyBlock<A> keys(variant_, keys_, blocks_, batch, key_head, n, visible, masked);
                        return added(queries, keys, n, masked ? &visible : nullptr, top, total, sums);
                      };
                      return if_else(visible.all(n), [&] { return add(false); }, [&] { return add(true); });
                    });
      const auto row = offset(GROUP * QUERIES, 0);
      sums_.tile(batch, to, part, row, offset(VALUES, 0)).store(sums);
      largest_.tile(batch, to, part, row).store(squeeze<1>(top));
      totals_.tile(batch, to, part, row).store(squeeze<1>(total));
    });
  }

private:
  static constexpr A lowest = -std::numeric_limits<A>::infinity();
  using Rows = Tile<A, GROUP * QUERIES, 1>;

  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return variant_.options & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }

  // Adds a block of keys to the sums so far.
  template <class Queries>
  auto added(const Queries& queries, const KeyBlock<A>& at, const Offset<KEYS>& n, const Visible* visible,
             const Rows& top, const Rows& total, const Tile<A, GROUP * QUERIES, VALUES>& sums) const {
    auto keys = at.rows(keys_, WIDTH);
    auto values = at.rows(values_, VALUES);
    DType product = values_.dtype();
    if (key_scales_) { // bytes are exact in every one of these dtypes
      product = size_of(q_.dtype()) > 1 ? q_.dtype() : dtype_of<A>;
      keys = detail::cast_stored(product, keys), values = detail::cast_stored(product, values);
    }
    const detail::DotOptions dots{.order = variant_.options & fixed_order ? SumOrder::fixed : SumOrder::any};
    Tile<A, GROUP * QUERIES, KEYS> s =
        detail::dot_erased(queries, trans(keys), zeros<A>(GROUP * QUERIES, KEYS), dots) * scale_;
    if (key_scales_) s = s * at.scales(*key_scales_);
    if (cap_) s = *cap_ * tanh(s / *cap_);
    if (visible) s = where(visible->mask(n), s, lowest);
    Rows next = max(top, max(s, KEYS, keep));
    Rows shift = where(next == lowest, A(0), next);
    Rows factor = exp(top - shift);
    Tile<A, GROUP * QUERIES, KEYS> weights = exp(s - shift);
    Rows new_total = total * factor + sum(weights, KEYS, keep);
    if (value_scales_) weights = weights * at.scales(*value_scales_);
    Tile<A, GROUP * QUERIES, VALUES> scaled = sums * factor;
    return state(next, new_total,
                 detail::dot_erased(detail::stored_as(product, weights), values, scaled, dots));
  }

  const OpVariant variant_;
  ErasedView<A, 5> q_;
  ErasedView<A, 4> keys_, values_;
  std::optional<ErasedView<std::int64_t, 2>> blocks_;
  std::optional<ErasedView<A, 3>> key_scales_, value_scales_;
  ErasedView<A, 5> sums_;
  ErasedView<A, 4> largest_, totals_;
  Scalar<A> scale_;
  std::optional<Scalar<A>> cap_;
  const Handle* next_;
};

// Adds the parts up in their order. The parameters are the sums, the largest scores and the totals of parts,
// sinks, o, lse, and those of Visible, of which some are optional. sinks and lse have the axes of o up to the
// heads and up to the queries.
template <class A> class Combine {
public:
  Combine(const OpVariant& v, const Handle* next)
      : variant_(v), sums_(*next++), largest_(*next++), totals_(*next++),
        sinks_(v.options & has_sinks ? std::optional(ErasedView<A, 2>(*next++)) : std::nullopt), o_(*next++),
        lse_(v.options & has_lse ? std::optional(ErasedView<A, 4>(*next++)) : std::nullopt), next_(next) {}

  void record() const {
    auto [batch, key_head, head, query] = program_tile(o_.view(), each, each, GROUP, QUERIES);
    const Visible visible(variant_, next_, batch, query, o_.extent(3));
    Index query_blocks = cdiv(o_.extent(3), dim_size(QUERIES));
    Index blocks_of_head = cdiv(o_.extent(2), dim_size(GROUP)) * query_blocks;
    Index from =
        key_head * blocks_of_head + head / dim_size(GROUP) * query_blocks + query / dim_size(QUERIES);
    const auto row = offset(GROUP * QUERIES, 0);

    Tile<A, GROUP * QUERIES> top = full(lowest, GROUP * QUERIES), total = zeros<A>(GROUP * QUERIES);
    if (sinks_) {
      Tile sink = expand<1>(sinks_->tile(key_head, head).load());
      top = reshape(broadcast(sink, GROUP, QUERIES), GROUP * QUERIES);
      total = full(A(1), GROUP * QUERIES);
    }
    Index begin = visible.begin() / dim_size(PART), end = cdiv(visible.end(), dim_size(PART));
    auto [most, all, sums] = for_range(
        begin, end, Index(1), state(top, total, zeros<A>(GROUP * QUERIES, VALUES)),
        [&](auto part, auto top, auto total, auto sums) {
          Tile largest = largest_.tile(batch, from, part, row).load();
          Tile next = max(top, largest);
          Tile shift = where(next == lowest, A(0), next);
          Tile old = exp(top - shift), added = exp(largest - shift);
          Tile more = sums_.tile(batch, from, part, row, offset(VALUES, 0)).load();
          return state(next, Tile(total * old + totals_.tile(batch, from, part, row).load() * added),
                       Tile(sums * expand<1>(old) + more * expand<1>(added)));
        });
    Tile inverse = where(all == A(0), A(0), A(1) / all);
    o_.tile(batch, key_head, head, query, offset(VALUES, 0))
        .store(reshape(sums * expand<1>(inverse), GROUP, QUERIES, VALUES));
    if (lse_) lse_->tile(batch, key_head, head, query).store(reshape(most + log(all), GROUP, QUERIES));
  }

private:
  static constexpr A lowest = -std::numeric_limits<A>::infinity();

  const OpVariant variant_;
  ErasedView<A, 5> sums_;
  ErasedView<A, 4> largest_, totals_;
  std::optional<ErasedView<A, 2>> sinks_;
  ErasedView<A, 5> o_;
  std::optional<ErasedView<A, 4>> lse_;
  const Handle* next_;
};

void part_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Part<A>(v, arguments).record(); });
}
void combine_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Combine<A>(v, arguments).record(); });
}

constinit const detail::OpKernel part_kernel("attention_decode", part_body);
constinit const detail::OpKernel combine_kernel("attention_decode_combine", combine_body);

void attend(detail::StreamAt stream, const Input& q_in, const KeyValueCache& from, const Input& lengths_in,
            const Output& o_out, const DecodeOptions& options) {
  using detail::Argument;
  const detail::Checks check("ops::attention_decode", stream);
  Array q = q_in.array(), o = o_out.array(), lse = options.lse.array(), sinks = options.sinks.array();
  const Array lengths = lengths_in.array();
  const detail::Cache cache{from.keys.array(),
                            from.values.array(),
                            from.blocks.array(),
                            from.key_scales.array(),
                            from.value_scales.array(),
                            from.blocks.given(),
                            from.key_scales.given() || from.value_scales.given()};
  check.tensor({"q", q}, 3);
  check.tensor({"o", o}, 3);
  check.that(q.rank == o.rank && q.rank <= 4,
             "q and o are [batch, heads, queries, width], both with or both without the axis of queries");
  for (int i = 0; i < q.rank - 1; ++i)
    check.equal(i == 0   ? "q's batches and o's"
                : i == 1 ? "q's heads and o's"
                         : "q's queries and o's",
                q.extents[i], o.extents[i]);
  detail::check_cache(check, cache, {"lengths", lengths}, q.extents[0]);
  const std::int64_t key_heads = cache.keys.extents[1];
  check.that(key_heads > 0 ? q.extents[1] % key_heads == 0 : q.extents[1] == 0,
             "q's heads are not a multiple of the cache's; each key head serves as many heads of q");
  check.equal("the widths of q and cache.keys", q.extents[q.rank - 1], cache.keys.extents[3]);
  check.equal("the widths of o and cache.values", o.extents[o.rank - 1], cache.values.extents[3]);
  check.that(cache.keys.extents[3] > 0 && cache.values.extents[3] > 0,
             "a head has no width; pass at least one element");
  check.that(options.appended >= 0, "appended is negative; it is the number of tokens that were appended");
  check.that(std::isfinite(options.scale) && std::isfinite(options.soft_cap) && options.soft_cap >= 0,
             "scale and soft_cap must be finite, and soft_cap not negative; 0 stands for none");
  if (options.sinks.given()) {
    check.floats({"sinks", sinks});
    check.rank({"sinks", sinks}, 1);
    check.equal("sinks' size and q's heads", sinks.extents[0], q.extents[1]);
  }
  if (options.lse.given()) {
    Array rows = q;
    --rows.rank;
    check.floats({"lse", lse});
    check.same_extents({"lse", lse}, {"q without its last axis", rows});
  }
  const Argument read[] = {{"q", q},
                           {"cache.keys", cache.keys},
                           {"cache.values", cache.values},
                           {"lengths", lengths},
                           {"cache.blocks", cache.blocks},
                           {"cache.key_scales", cache.key_scales},
                           {"cache.value_scales", cache.value_scales},
                           {"sinks", sinks}};
  const bool reads[] = {
      true, true, true, true, cache.paged, cache.quantised, cache.quantised, options.sinks.given()};
  for (const Argument& out : {Argument{"o", o}, {"lse", lse}}) {
    if (&out.array == &lse && !options.lse.given()) continue;
    check.writes(out);
    for (int i = 0; i < 8; ++i)
      if (reads[i]) check.apart(out, read[i]);
  }
  if (options.lse.given()) check.apart({"o", o}, {"lse", lse});
  if (o.size() == 0) return;

  detail::insert_tokens(q);
  detail::insert_tokens(o);
  if (lse.rank == 2) lse.extents[2] = 1, lse.strides[2] = 0, lse.rank = 3;
  q = detail::with_key_heads(q, key_heads), o = detail::with_key_heads(o, key_heads),
  lse = detail::with_key_heads(lse, key_heads);
  sinks.rank = 2, sinks.extents[1] = sinks.extents[0] / key_heads, sinks.extents[0] = key_heads;
  sinks.strides[1] = sinks.strides[0], sinks.strides[0] *= sinks.extents[1];

  const std::int64_t batches = q.extents[0], group = q.extents[2], queries = q.extents[3];
  const std::int64_t page_size = cache.keys.extents[2],
                     capacity = cache.paged ? page_size * cache.blocks.extents[1] : page_size;
  const detail::DecodeTiles tiles =
      detail::decode_tiles(stream.stream.device(), group, queries, options.batch_invariant);
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t row_blocks = up(group, tiles.group) * up(queries, tiles.queries),
                     rows = tiles.group * tiles.queries,
                     parts = std::max<std::int64_t>(1, up(capacity, tiles.part));

  OpVariant variant{detail::compute_dtype({&q, &o, &cache.keys, &cache.values, &sinks, &lse})};
  variant.options = (cache.paged ? paged : 0) | (cache.paged && page_size % tiles.keys != 0 ? scattered : 0) |
                    (cache.quantised ? quantised : 0) | (options.causal ? causal : 0) |
                    (options.window_before >= 0 ? before : 0) | (options.soft_cap > 0 ? soft_cap : 0) |
                    (options.batch_invariant ? fixed_order : 0);
  const std::int64_t sums_count = batches * key_heads * row_blocks * parts * rows;
  using detail::Workspace;
  Workspace workspace(stream, Workspace::bytes(variant.compute, sums_count * o.extents[4]) +
                                  2 * Workspace::bytes(variant.compute, sums_count));
  const Output sums = workspace.take(variant.compute,
                                     {batches, key_heads * row_blocks, parts, rows, o.extents[4]}),
               largest = workspace.take(variant.compute, {batches, key_heads * row_blocks, parts, rows}),
               totals = workspace.take(variant.compute, {batches, key_heads * row_blocks, parts, rows});
  const auto add_visible = [&](detail::OpArguments& list) {
    list.add(lengths);
    list.add(options.appended);
    list.add(capacity);
    list.add_if(options.window_before >= 0,
                std::min<std::int64_t>(options.window_before, std::int64_t{1} << 40));
  };
  detail::OpArguments list{q, cache.keys, cache.values};
  list.add_if(cache.paged, cache.blocks);
  list.add_if(cache.quantised, cache.key_scales);
  list.add_if(cache.quantised, cache.value_scales);
  // Weights are rounded to the dtype of values in relation to the largest score so far, which depends on the
  // blocks, and the sums are of f32.
  const DType rounded = cache.quantised ? q.dtype : cache.values.dtype;
  detail::OutputTolerance tolerance;
  if (size_of(rounded) < size_of(variant.compute)) tolerance = {list.size(), 4 * 0x1p-8, 32 * 0x1p-8};
  for (const Output* part : {&sums, &largest, &totals})
    list.add(*part);
  list.add({variant.compute,
            options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.extents[4]))});
  list.add_if(options.soft_cap > 0, {variant.compute, options.soft_cap});
  add_visible(list);
  const detail::GridRule rule{
      [](const std::int64_t* facts, const Config&) { return Grid{facts[0], facts[1], facts[2]}; },
      {batches, key_heads * row_blocks, parts}};
  std::optional<Config> config;
  if (q.extents[4] == o.extents[4] && !options.batch_invariant)
    config = detail::known_config(
        "attention_decode", stream,
        {batches, group * key_heads, key_heads, queries, capacity, q.extents[4], page_size},
        {part_kernel, variant, list, nullptr, rule, tolerance});
  if (!config) {
    config = {GROUP = tiles.group, QUERIES = tiles.queries, KEYS = tiles.keys,
              PART = tiles.part,   WIDTH = q.extents[4],    VALUES = o.extents[4]};
    if (!stream.stream.device().is_cpu()) config->set(num_warps = 4);
  }
  if (variant.options & scattered) config->set(PAGE = page_size);
  const Grid grid = rule.grid(*config);
  part_kernel.launch(stream, *config, variant, list, &grid);

  const Input read_sums(sums.array()), read_largest(largest.array()), read_totals(totals.array());
  detail::OpArguments combined{read_sums, read_largest, read_totals};
  combined.add_if(options.sinks.given(), sinks);
  combined.add(o);
  combined.add_if(options.lse.given(), lse);
  add_visible(combined);
  variant.options &= causal | before;
  variant.options |= (options.sinks.given() ? has_sinks : 0) | (options.lse.given() ? has_lse : 0);
  Config combining{GROUP = tiles.group, QUERIES = tiles.queries, PART = tiles.part, VALUES = o.extents[4]};
  if (!stream.stream.device().is_cpu()) combining.set(num_warps = 4);
  combine_kernel.launch(stream, combining, variant, combined);
  workspace.free();
}

} // namespace decoding

void attention_decode(detail::StreamAt stream, const Input& q, const KeyValueCache& cache,
                      const Input& lengths, const Output& o, const DecodeOptions& options) {
  decoding::attend(stream, q, cache, lengths, o, options);
}

} // namespace kiln::ops
