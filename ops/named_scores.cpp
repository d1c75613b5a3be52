// Records the named scores and masks of attention, and checks their tensors.
#include <kiln/ops/named_scores.h>

#include <kiln/ops/attention.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/hook.h>

#include <array>
#include <utility>

namespace kiln::ops::detail {
namespace {

// What a lambda does. Each combination is a lambda of its own, because lambdas have no captures.
constexpr std::uint32_t at_last = 1; // the last query is at the last key
namespace score_kind {
constexpr std::uint32_t alibi = 2, bias = 4, relative = 8, count = 16;
}
namespace mask_kind {
constexpr std::uint32_t prefix = 2, lengths = 4, documents = 8, count = 16;
}

// Takes views in the order in which NamedHooks adds them.
struct Block {
  AttentionHead head;
  AttentionQuery query;
  AttentionKey key;
  Tile<std::int32_t, QUERIES, 1> position; // of the queries

  Block(std::uint32_t kinds, const Handle* values, const Handle*& views)
      : head(attention_head(values)), query(attention_query(values)), key(attention_key(values)),
        position(kinds & at_last ? shifted(query, View<const float, 2>(*views++)) : query) {}

private:
  static Tile<std::int32_t, QUERIES, 1> shifted(const AttentionQuery& query,
                                                const View<const float, 2>& scores) {
    return query + cast<std::int32_t>(scores.extent(1) - scores.extent(0));
  }
};

template <class A> Handle record_score(std::uint32_t kinds, const Handle* values, const Handle* views) {
  const Block at(kinds, values, views);
  Tile<A, QUERIES, KEYS> s = attention_scores<A>(values);
  if (kinds & score_kind::alibi) {
    const Scalar<A> slope = ErasedView<A, 1>(*views++).at(at.head).load();
    s = s - slope * cast<A>(abs(at.key - at.position));
  }
  if (kinds & score_kind::bias)
    s = s + ErasedView<A, 4>(*views++).tile(at.head.batch, at.head, at.query.offset, at.key.offset).load();
  if (kinds & score_kind::relative) {
    const ErasedView<A, 2> bias(*views++);
    const Scalar farthest = cast<std::int32_t>((bias.extent(1) - 1) / 2);
    const Tile distance = min(max(at.key - at.position, -farthest), farthest) + farthest;
    s = s + bias.at(at.head, distance).load();
  }
  return s.record();
}

// A length of i32 or i64 as i32, to which keys are compared. Keys are fewer than 2^31.
Scalar<std::int32_t> length_of(const Block& at, const Handle& lengths) {
  const Scalar<std::int64_t> length = ErasedView<std::int64_t, 1>(lengths).at(at.head.batch).load();
  return cast<std::int32_t>(min(max(length, 0), std::int64_t{INT32_MAX}));
}

template <class I>
Tile<bool, QUERIES, KEYS> same_document(const Block& at, const Handle& queries, const Handle& keys) {
  const Tile own = ErasedView<I, 2>(queries).tile(at.head.batch, at.query.offset).load();
  const Tile others = ErasedView<I, 2>(keys).tile(at.head.batch, at.key.offset).load();
  return Tile<bool, QUERIES, KEYS>(expand<1>(own) == expand<0>(others));
}

Handle record_mask(std::uint32_t kinds, const Handle* values, const Handle* views) {
  const Block at(kinds, values, views);
  Tile<bool, QUERIES, KEYS> seen = full(true, QUERIES, KEYS);
  if (kinds & mask_kind::prefix) seen = seen & ((at.key <= at.position) | (at.key < length_of(at, *views++)));
  if (kinds & mask_kind::lengths) seen = seen & (at.key < length_of(at, *views++));
  if (kinds & mask_kind::documents) {
    const Handle &queries = views[0], &keys = views[1];
    const bool wide = dtype_of_view(queries) == DType::I64 || dtype_of_view(keys) == DType::I64;
    seen = seen & (wide ? same_document<std::int64_t>(at, queries, keys)
                        : same_document<std::int32_t>(at, queries, keys));
  }
  return seen.record();
}

constexpr int views_of(std::uint32_t kinds, std::uint32_t twice) {
  return std::popcount(kinds) + (kinds & twice ? 1 : 0);
}
template <class A, std::uint32_t... Kinds>
constexpr auto score_hooks(std::integer_sequence<std::uint32_t, Kinds...>) {
  return std::array{
      Hook{dtype_of<A>,
           [](const Handle* values, const Handle* views) { return record_score<A>(Kinds, values, views); },
           nullptr, views_of(Kinds, 0)}...};
}
template <std::uint32_t... Kinds> constexpr auto mask_hooks(std::integer_sequence<std::uint32_t, Kinds...>) {
  return std::array{
      Hook{DType::Bool,
           [](const Handle* values, const Handle* views) { return record_mask(Kinds, values, views); },
           nullptr, views_of(Kinds, mask_kind::documents)}...};
}
constexpr auto scores_in_f32 =
    score_hooks<float>(std::make_integer_sequence<std::uint32_t, score_kind::count>());
constexpr auto scores_in_f64 =
    score_hooks<double>(std::make_integer_sequence<std::uint32_t, score_kind::count>());
constexpr auto masks = mask_hooks(std::make_integer_sequence<std::uint32_t, mask_kind::count>());

// The view of a tensor that broadcasts to these extents.
Array broadcast_to(const Array& a, const Array& shape) {
  Array b = a;
  b.rank = shape.rank;
  for (int i = 0; i < shape.rank; ++i) {
    const int from = i - (shape.rank - a.rank);
    const bool repeats = from < 0 || (a.extents[from] == 1 && shape.extents[i] != 1);
    b.extents[i] = shape.extents[i], b.strides[i] = repeats ? 0 : a.strides[from];
  }
  return b;
}

} // namespace

NamedHooks::NamedHooks(const Checks& check, const NamedScores& named, const Array& q, const Array& k,
                       DType compute, AttentionOptions& options)
    : compute_(compute) {
  check.rank_at_least({"q", q}, 2);
  check.rank_at_least({"k", k}, 2);
  for (int i = 0; i < q.rank - 3; ++i)
    batches_ *= q.extents[i];
  heads_ = q.rank > 2 ? q.extents[q.rank - 3] : 1;
  queries_ = q.extents[q.rank - 2], keys_ = k.extents[k.rank - 2];
  scores_ = {q.data, DType::F32, true, 2, {queries_, keys_}, {0, 0}};
  add_scores(check, named, options);
  add_masks(check, named, options);
}

void NamedHooks::add_positions(Views& views) const { views.add("q", scores_); }

void NamedHooks::add_scores(const Checks& check, const NamedScores& named, const AttentionOptions& options) {
  std::uint32_t kinds = 0;
  const bool placed = named.alibi_slopes.given() || named.relative_bias.given();
  if (placed && options.alignment == CausalAlignment::last) kinds |= at_last, add_positions(score_views_);
  if (named.alibi_slopes.given()) {
    const Argument slopes{"alibi_slopes", named.alibi_slopes.array()};
    check.floats(slopes);
    check.rank(slopes, 1);
    check.equal("alibi_slopes' size and q's heads", slopes.array.extents[0], heads_);
    kinds |= score_kind::alibi, score_views_.add("alibi_slopes", slopes.array);
  }
  if (named.bias.given()) {
    const Argument bias{"bias", named.bias.array()};
    const Array all{nullptr, compute_, true, 4, {batches_, heads_, queries_, keys_}, {}};
    check.floats(bias);
    check.broadcasts(bias, {"the scores", all});
    kinds |= score_kind::bias, score_views_.add("bias", broadcast_to(bias.array, all));
  }
  if (named.relative_bias.given()) {
    const Argument bias{"relative_bias", named.relative_bias.array()};
    check.floats(bias);
    check.rank(bias, 2);
    check.that(bias.array.extents[1] % 2 == 1,
               "relative_bias has an even number of distances; pass 2 n + 1, for -n to n");
    const Array all{nullptr, compute_, true, 2, {heads_, bias.array.extents[1]}, {}};
    check.broadcasts(bias, {"one row for each head", all});
    kinds |= score_kind::relative, score_views_.add("relative_bias", broadcast_to(bias.array, all));
  }
  if (!kinds) return;
  hooks_.score = compute_ == DType::F64 ? &scores_in_f64[kinds] : &scores_in_f32[kinds];
  hooks_.score_views = score_views_.list;
}

void NamedHooks::add_masks(const Checks& check, const NamedScores& named, AttentionOptions& options) {
  std::uint32_t kinds = 0;
  const auto add_lengths = [&](const char* name, const Input& lengths, std::uint32_t kind) {
    const Argument argument{name, lengths.array()};
    check.integers(argument);
    check.rank(argument, 1);
    check.equal({name, "' size and q's batches", "", ""}, argument.array.extents[0], batches_);
    kinds |= kind, mask_views_.add(name, argument.array);
  };
  const auto add_documents = [&](const char* name, const Input& documents, const char* tokens,
                                 std::int64_t extent) {
    const Argument argument{name, documents.array()};
    check.integers(argument);
    check.rank(argument, 2);
    check.equal({name, "' rows and q's batches", "", ""}, argument.array.extents[0], batches_);
    check.equal({name, "' columns and the number of ", tokens, ""}, argument.array.extents[1], extent);
    mask_views_.add(name, argument.array);
  };
  if (named.prefix_lengths.given()) {
    check.that(
        options.causal,
        "prefix_lengths show keys that causal hides, and causal is not set; set it, or leave them out");
    options.causal = false; // the lambda hides what is neither before the query nor in the prefix
    if (options.alignment == CausalAlignment::last) kinds |= at_last, add_positions(mask_views_);
    add_lengths("prefix_lengths", named.prefix_lengths, mask_kind::prefix);
  }
  if (named.key_lengths.given()) add_lengths("key_lengths", named.key_lengths, mask_kind::lengths);
  check.that(named.documents.given() || !named.key_documents.given(),
             "key_documents are given without documents; give both");
  if (named.documents.given()) {
    const bool apart = named.key_documents.given();
    add_documents("documents", named.documents, "queries", queries_);
    add_documents(apart ? "key_documents" : "documents", apart ? named.key_documents : named.documents,
                  "keys", keys_);
    kinds |= mask_kind::documents;
  }
  if (!kinds) return;
  hooks_.mask = &masks[kinds];
  hooks_.mask_views = mask_views_.list;
}

void NamedHooks::check_apart(const Checks& check, const Argument& out) const {
  for (const Views* views : {&score_views_, &mask_views_})
    for (int i = 0; i < views->count; ++i)
      if (views->list[i].array().data != scores_.data)
        check.apart(out, {views->names[i], views->list[i].array()});
}

} // namespace kiln::ops::detail
