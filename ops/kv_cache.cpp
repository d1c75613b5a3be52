// Implements appending to caches: one kernel rotates keys and queries, quantises and stores.
#include <kiln/ops/kv_cache.h>

#include <kiln/ops/detail/axes.h>
#include <kiln/ops/detail/cache.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/rotation.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::HEADS, detail::TOKENS, detail::PAIRS, detail::REST;
using detail::OpVariant;

// Options of the kernel besides rotary_tables.
namespace append_option {
constexpr std::uint32_t rotary = 2, key_rest = 4, paged = 8, quantised = 16, queries = 32, query_rest = 64;
}

// The parts of heads: the first and second elements of pairs, and those that are not rotated.
template <class A, int Rank> struct HeadParts {
  std::optional<ErasedView<A, Rank>> first, second, rest;

  HeadParts(bool rotates, bool has_rest, const Handle*& next) {
    if (rotates) first.emplace(next[0]), second.emplace(next[1]), next += 2;
    if (has_rest) rest.emplace(*next++);
  }
};

// The parameters are the parts of k, those of the cache's keys, v, the cache's values, the scales of keys and
// values, lengths, blocks, the parts of q, those of the rotated q, those of Rotation, and the offset of
// positions, of which some are optional. The arrays have four axes: batches or pages, key heads, tokens and
// the elements; q has an axis behind that of the key heads, of the heads that share one.
template <class A> class Append {
public:
  Append(const OpVariant& v, const Handle* next)
      : options_(v.options), k_(has(append_option::rotary), has(append_option::key_rest), next),
        keys_(has(append_option::rotary), has(append_option::key_rest), next), v_(*next++), values_(*next++),
        key_scales_(take<ErasedView<A, 3>>(append_option::quantised, next)),
        value_scales_(take<ErasedView<A, 3>>(append_option::quantised, next)), lengths_(*next++),
        blocks_(take<ErasedView<std::int64_t, 2>>(append_option::paged, next)) {
    if (has(append_option::queries)) {
      q_.emplace(true, has(append_option::query_rest), next);
      rotated_.emplace(true, has(append_option::query_rest), next);
    }
    if (!has(append_option::rotary)) return;
    rotation_.emplace(v, next);
    offset_.emplace(*next);
  }

  void record() const {
    auto [batch, heads, tokens] = program_tile(v_.view(), each, HEADS, TOKENS);
    Scalar<std::int64_t> length = lengths_.at(batch).load(), page_size = max(values_.extent(2), Index(1));
    Scalar<std::int64_t> capacity =
        blocks_ ? Scalar<std::int64_t>(blocks_->extent(1) * page_size) : page_size;
    device_assert((length >= 0) & (length + v_.extent(2) <= capacity),
                  "the new tokens fit into the cache behind those that lengths counts");
    Tile token = expand<0>(expand<1>(tokens + arange(TOKENS)));
    Tile place = token + length;
    Tile inside = (token < v_.extent(2)) & (place >= 0) & (place < capacity);
    Tile slot = where(inside, place, 0);
    Tile page = slot * 0 + batch;
    if (blocks_) {
      page = blocks_->at(batch, slot / page_size).load();
      device_assert((page >= 0) & (page < values_.extent(0)), "an entry of cache.blocks is a page", inside);
      slot = slot % page_size;
    }
    const Place at{batch, heads, tokens, page, slot, Tile(expand<1>(expand<1>(heads + arange(HEADS)))),
                   inside};
    append_values(at);
    if (!rotation_) return append_keys(at, nullptr);
    auto [c, s] = rotation_->angles(place + *offset_);
    const Angles angles{c, s};
    append_keys(at, &angles);
    if (q_) rotate_queries(at, angles);
  }

private:
  using Index = Scalar<std::int64_t>;
  struct Place {
    Index batch;
    Offset<HEADS> heads;
    Offset<TOKENS> tokens;
    Tile<std::int64_t, 1, TOKENS, 1> page, slot; // of the cache
    Tile<std::int64_t, HEADS, 1, 1> head;
    Tile<bool, 1, TOKENS, 1> inside;
  };
  struct Angles {
    Tile<A, 1, TOKENS, PAIRS> cos, sin;
  };
  using Largest = Tile<A, HEADS, TOKENS, 1>;

  bool has(std::uint32_t option) const { return (options_ & option) != 0; }
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return has(option) ? std::optional<V>(V(*next++)) : std::nullopt;
  }

  void append_values(const Place& at) const {
    Tile v = v_.tile(at.batch, at.heads, at.tokens, offset(VALUES, 0)).load();
    store(values_, at, v, store_scale(value_scales_, at, max(abs(v), VALUES, keep)), VALUES);
  }

  void append_keys(const Place& at, const Angles* angles) const {
    std::optional<Tile<A, HEADS, TOKENS, PAIRS>> first, second;
    std::optional<Tile<A, HEADS, TOKENS, REST>> rest;
    Largest largest = zeros<A>(HEADS, TOKENS, 1_c);
    if (angles) {
      const auto d = offset(PAIRS, 0);
      Tile x = k_.first->tile(at.batch, at.heads, at.tokens, d).load();
      Tile y = k_.second->tile(at.batch, at.heads, at.tokens, d).load();
      first = x * angles->cos - y * angles->sin;
      second = y * angles->cos + x * angles->sin;
      largest = max(abs(*first), PAIRS, keep);
      largest = max(largest, max(abs(*second), PAIRS, keep));
    }
    if (k_.rest) {
      rest = k_.rest->tile(at.batch, at.heads, at.tokens, offset(REST, 0)).load();
      largest = max(largest, max(abs(*rest), REST, keep));
    }
    const auto inverse = store_scale(key_scales_, at, largest);
    if (first)
      store(*keys_.first, at, *first, inverse, PAIRS), store(*keys_.second, at, *second, inverse, PAIRS);
    if (rest) store(*keys_.rest, at, *rest, inverse, REST);
  }

  // Stores the scales of elements with these largest magnitudes, and returns what elements are multiplied by.
  std::optional<Largest> store_scale(const std::optional<ErasedView<A, 3>>& scales, const Place& at,
                                     const Largest& largest) const {
    if (!scales) return {};
    scales->at(at.page, at.head, at.slot).store(largest * A(1.0 / 127), at.inside);
    return Largest(where(largest > A(0), A(127) / largest, A(0)));
  }

  template <class T, class D>
  void store(const ErasedView<A, 4>& cache, const Place& at, const T& x,
             const std::optional<Largest>& inverse, D elements) const {
    const auto to = cache.at(at.page, at.head, at.slot, expand<0>(expand<0>(arange(elements))));
    if (inverse)
      to.store(round(x * *inverse), at.inside);
    else
      to.store(x, at.inside);
  }

  void rotate_queries(const Place& at, const Angles& angles) const {
    for_range(Index(0), q_->first->extent(2), Index(1), [&](auto i) {
      const auto d = offset(PAIRS, 0);
      const auto of = [&](const ErasedView<A, 5>& q, auto e) {
        return q.tile(at.batch, at.heads, i, at.tokens, e);
      };
      Tile x = of(*q_->first, d).load(), y = of(*q_->second, d).load();
      of(*rotated_->first, d).store(x * angles.cos - y * angles.sin);
      of(*rotated_->second, d).store(y * angles.cos + x * angles.sin);
      if (q_->rest) of(*rotated_->rest, offset(REST, 0)).store(of(*q_->rest, offset(REST, 0)).load());
    });
  }

  const std::uint32_t options_;
  HeadParts<A, 4> k_, keys_;
  ErasedView<A, 4> v_, values_;
  std::optional<ErasedView<A, 3>> key_scales_, value_scales_;
  ErasedView<std::int64_t, 1> lengths_;
  std::optional<ErasedView<std::int64_t, 2>> blocks_;
  std::optional<HeadParts<A, 5>> q_, rotated_;
  std::optional<detail::Rotation<A>> rotation_;
  std::optional<Scalar<std::int64_t>> offset_;
};

void append_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Append<A>(v, arguments).record(); });
}

constinit const detail::OpKernel append_kernel("cache_append", append_body);

// The config of a call, which rotates `turned` elements of each key. The spaces of the tuner are for heads of
// k and v of the same width.
Config config_of(const detail::StreamAt& at, const Array& k, const Array& v, std::int64_t turned,
                 const OpVariant& variant, const detail::OpArguments& list) {
  const std::int64_t batches = v.extents[0], heads = v.extents[1], tokens = v.extents[2],
                     width = k.extents[3];
  if (width == v.extents[3]) {
    const detail::TunableLaunch launch{append_kernel, variant, list};
    const auto known =
        turned == 0
            ? detail::known_config("cache_append_unrotated", at, {batches, heads, tokens, width}, launch)
        : turned == width ? detail::known_config("cache_append", at, {batches, heads, tokens, width}, launch)
                          : detail::known_config("cache_append_partly_rotated", at,
                                                 {batches, heads, tokens, width, turned}, launch);
    if (known) return *known;
  }
  Config config = detail::append_config(at.stream.device(), heads, tokens, std::max(width, v.extents[3]));
  config.set(VALUES = v.extents[3]);
  if (turned > 0) config.set(PAIRS = turned / 2);
  if (turned < width) config.set(REST = width - turned);
  return config;
}

void check_queries(const detail::Checks& check, const Array& q, const Array& rotated, const Array& k) {
  check.tensor({"q", q}, 3);
  check.tensor({"rotated_q", rotated}, 3);
  check.same_extents({"q", q}, {"rotated_q", rotated});
  check.rank({"q", q}, k.rank);
  check.equal("q's batches and k's", q.extents[0], k.extents[0]);
  check.that(k.extents[1] > 0 ? q.extents[1] % k.extents[1] == 0 : q.extents[1] == 0,
             "q's heads are not a multiple of k's; each key head serves as many heads of q");
  if (k.rank == 4) check.equal("q's tokens and k's", q.extents[2], k.extents[2]);
  check.equal("q's width and k's", q.extents[q.rank - 1], k.extents[k.rank - 1]);
  check.writes({"rotated_q", rotated});
  check.apart_or_same({"rotated_q", rotated}, {"q", q});
}

void add_parts(detail::OpArguments& list, const detail::RotaryParts& parts, bool rotates, bool rest) {
  list.add_if(rotates, parts.first);
  list.add_if(rotates, parts.second);
  list.add_if(rest, parts.rest);
}

} // namespace

void cache_append(detail::StreamAt stream, const Input& k_in, const Input& v_in, const Input& lengths_in,
                  const KeyValueCache& to, const AppendOptions& options) {
  using detail::Argument;
  const detail::Checks check("ops::cache_append", stream);
  Array k = k_in.array(), v = v_in.array(), q = options.q.array(), rotated = options.rotated_q.array();
  const Array lengths = lengths_in.array();
  const bool rotates = options.rotary.has_value(), queries = options.q.given();
  const detail::Cache cache{to.keys.array(),
                            to.values.array(),
                            to.blocks.array(),
                            to.key_scales.array(),
                            to.value_scales.array(),
                            to.blocks.given(),
                            to.key_scales.given() || to.value_scales.given()};
  check.tensor({"k", k}, 3);
  check.tensor({"v", v}, 3);
  check.that(k.rank == v.rank && k.rank <= 4,
             "k and v are [batch, key heads, tokens, width], both with or both without the axis of tokens");
  check.equal("k's batches and v's", k.extents[0], v.extents[0]);
  check.equal("k's heads and v's", k.extents[1], v.extents[1]);
  if (k.rank == 4) check.equal("k's tokens and v's", k.extents[2], v.extents[2]);
  detail::check_cache(check, cache, {"lengths", lengths}, k.extents[0]);
  check.that(cache.keys.extents[3] > 0 && cache.values.extents[3] > 0,
             "a head of the cache has no width; pass at least one element");
  check.equal("k's heads and those of cache.keys", k.extents[1], cache.keys.extents[1]);
  check.equal("the widths of k and cache.keys", k.extents[k.rank - 1], cache.keys.extents[3]);
  check.equal("the widths of v and cache.values", v.extents[v.rank - 1], cache.values.extents[3]);

  std::int64_t width = 0;
  if (rotates) {
    width = detail::check_rotary(check, *options.rotary, k.extents[k.rank - 1]);
    check.that(!options.rotary->positions.given(),
               "the positions of appended tokens follow from lengths; call ops::rotary for others");
  }
  check.that(queries == options.rotated_q.given() && (rotates || !queries),
             "q, rotated_q and rotary belong together; give all three, rotary alone, or none");
  if (queries) check_queries(check, q, rotated, k);

  const Argument written[] = {{"cache.keys", cache.keys},
                              {"cache.values", cache.values},
                              {"cache.key_scales", cache.key_scales},
                              {"cache.value_scales", cache.value_scales},
                              {"rotated_q", rotated}};
  const bool writes[] = {true, true, cache.quantised, cache.quantised, queries};
  const Argument read[] = {{"k", k},
                           {"v", v},
                           {"lengths", lengths},
                           {"cache.blocks", cache.blocks},
                           {"cos", rotates ? options.rotary->cos.array() : lengths},
                           {"sin", rotates ? options.rotary->sin.array() : lengths}};
  const bool reads[] = {true,
                        true,
                        true,
                        cache.paged,
                        rotates && options.rotary->cos.given(),
                        rotates && options.rotary->sin.given()};
  for (int i = 0; i < 5; ++i) {
    if (!writes[i]) continue;
    check.writes(written[i]);
    for (int j = 0; j < 6; ++j)
      if (reads[j]) check.apart(written[i], read[j]);
    for (int j = 0; j < i; ++j)
      if (writes[j]) check.apart(written[i], written[j]);
    if (queries && i < 4) check.apart(written[i], {"q", q});
  }
  for (Array* a : {&k, &v, &q, &rotated})
    detail::insert_tokens(*a);
  if (k.extents[0] == 0 || k.extents[1] == 0 || k.extents[2] == 0) return;

  const auto pairs = rotates ? options.rotary->pairs : RotaryPairs::halves;
  const std::int64_t rest = k.extents[3] - width;
  const bool copies_q = queries && rest > 0 && q.data != rotated.data;
  const auto of_k = detail::split_heads(k, pairs, width),
             of_keys = detail::split_heads(cache.keys, pairs, width);
  detail::RotaryParts of_q, of_rotated;
  detail::OpArguments list{};
  add_parts(list, of_k, rotates, rest > 0);
  add_parts(list, of_keys, rotates, rest > 0);
  list.add(v);
  list.add(cache.values);
  list.add_if(cache.quantised, cache.key_scales);
  list.add_if(cache.quantised, cache.value_scales);
  list.add(lengths);
  list.add_if(cache.paged, cache.blocks);
  if (queries) {
    of_q = detail::split_heads(detail::with_key_heads(q, k.extents[1]), pairs, width);
    of_rotated = detail::split_heads(detail::with_key_heads(rotated, k.extents[1]), pairs, width);
    add_parts(list, of_q, true, copies_q);
    add_parts(list, of_rotated, true, copies_q);
  }
  OpVariant variant{detail::compute_dtype({&k, &v, &cache.keys, &cache.values, &q, &rotated})};
  variant.options = (rotates ? append_option::rotary : 0) | (rest > 0 ? append_option::key_rest : 0) |
                    (cache.paged ? append_option::paged : 0) |
                    (cache.quantised ? append_option::quantised : 0) |
                    (queries ? append_option::queries : 0) | (copies_q ? append_option::query_rest : 0);
  if (rotates) {
    variant.options |= detail::rotation_options(*options.rotary);
    detail::add_rotation(list, *options.rotary, width, variant.compute, 1);
    list.add(options.rotary->offset);
  }
  append_kernel.launch(stream, config_of(stream, k, v, width, variant, list), variant, list);
}

// A heuristic: key heads share the angles of a token.
Config detail::append_config(Device device, std::int64_t heads, std::int64_t tokens, std::int64_t width) {
  const std::int64_t most = device.is_cpu() ? 1 << 13 : 1 << 11;
  const auto grown = [&](std::int64_t others, std::int64_t wanted) {
    std::int64_t n = 1;
    while (n < wanted && 2 * n * others <= most)
      n *= 2;
    return n;
  };
  const std::int64_t row = std::max<std::int64_t>(width, 1), of_heads = grown(row, heads);
  return {HEADS = of_heads, TOKENS = grown(of_heads * row, tokens)};
}

} // namespace kiln::ops
