// Defines AttentionSequence, the tokens that a program of attention reads and writes, and the grids of the
// kernels: batches, or sequences of ragged batches, which lie one behind the other and are given by offsets.
//
// The grid of ragged batches cannot depend on the offsets: it has as many tiles as groups.h says for any of
// them. Tiles that belong to no sequence have no tokens.
#pragma once

#include <kiln/ops/detail/groups.h>
#include <kiln/ops/dims.h>

#include <optional>

namespace kiln::ops::detail {

class AttentionSequence {
public:
  using Number = Scalar<std::int64_t>;

  // All tokens of a batch.
  AttentionSequence() = default;
  // Sequence `number` of ragged batches. Without `used`, it has no tokens.
  AttentionSequence(const Number& number, const GroupOffsets& queries, const GroupOffsets& keys,
                    const Scalar<bool>& used)
      : number_(number), first_query_(queries.begin(number)), first_key_(keys.begin(number)),
        queries_end_(where(used, queries.end(number), 0)), keys_end_(where(used, keys.end(number), 0)) {}

  // The number that lambdas get; none for a batch, which knows its own.
  const std::optional<Number>& number() const { return number_; }
  Number first_query() const { return first_query_ ? *first_query_ : Number(0); }
  Number first_key() const { return first_key_ ? *first_key_ : Number(0); }

  // The part of an array that has queries or keys as its third axis.
  template <class V> V queries(const V& x) const {
    return first_query_ ? x.slice(2, *first_query_, *queries_end_) : x;
  }
  template <class V> V keys(const V& x) const { return first_key_ ? x.slice(2, *first_key_, *keys_end_) : x; }

private:
  std::optional<Number> number_, first_query_, first_key_, queries_end_, keys_end_;
};

// What a program owns: a head of a batch, and the block that begins at `token` of the sequence.
template <auto D> struct AttentionTile {
  Scalar<std::int64_t> batch, head;
  Offset<D> token;
  AttentionSequence sequence;
};

// The offsets of queries and of keys, which a kernel takes from its parameters at `next` if the batches are
// ragged, and its grid. The arrays have four axes: batches, heads, tokens and the width.
class AttentionGrid {
public:
  using Number = Scalar<std::int64_t>;

  AttentionGrid(bool ragged, const Number& queries, const Number& keys, const Handle*& next) {
    if (!ragged) return;
    queries_.emplace(*next++, queries), keys_.emplace(*next++, keys);
  }

  // Define the grid: batches, heads and blocks of queries or of keys; or heads and tiles of ragged batches.
  template <class A> AttentionTile<QUERIES> tile_of_queries(const ErasedView<A, 4>& q) const {
    if (queries_) return ragged_tile<QUERIES>(*queries_);
    auto [batch, head, m] = program_tile(q.view(), each, each, QUERIES);
    return {batch, head, m, {}};
  }
  template <class A> AttentionTile<KEYS> tile_of_keys(const ErasedView<A, 4>& k) const {
    if (keys_) return ragged_tile<KEYS>(*keys_);
    auto [batch, head, n] = program_tile(k.view(), each, each, KEYS);
    return {batch, head, n, {}};
  }
  // Batches or sequences, and heads, without blocks.
  template <class A> AttentionTile<KEYS> whole_head(const ErasedView<A, 4>& k) const {
    if (keys_) {
      const Number number = program_id(0), head = program_id(1);
      check(head, number);
      return {Number(0), head, offset(KEYS, 0), {number, *queries_, *keys_, Scalar<bool>(true)}};
    }
    auto [batch, head] = program_tile(k.view(), each, each);
    return {batch, head, offset(KEYS, 0), {}};
  }

private:
  template <auto D> AttentionTile<D> ragged_tile(const GroupOffsets& owned) const {
    const Number head = program_id(0), number = program_id(1);
    check(head, number);
    const Number group = owned.group_of(number, value(D));
    const Number tile = number - owned.first_tile(group, value(D));
    const Number token = max(tile * value(D), 0);
    const Scalar<bool> used = (tile >= 0) & (token < owned.end(group) - owned.begin(group));
    return {Number(0), head, offset(D, token), {group, *queries_, *keys_, used}};
  }
  // Checks the offsets of a sequence once, in the programs of the first head.
  void check(const Number& head, const Number& number) const {
    if_then((head == 0) & (number < queries_->count()), [&] {
      queries_->check(number, "query_offsets decrease or leave the tokens of q; pass where the sequences "
                              "begin, and the end of the last one");
      keys_->check(number, "key_offsets decrease or leave the tokens of k; pass where the sequences begin, "
                           "and the end of the last one");
    });
  }

  std::optional<GroupOffsets> queries_, keys_;
};

} // namespace kiln::ops::detail
