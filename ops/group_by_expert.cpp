// Implements the sorting of pairs of a token and a slot by their experts: a counting sort whose blocks are
// sorted in registers or scratch, so that each pair gets a place of its own without atomics.
//
//  1. Each program counts the pairs of its block for each expert.
//  2. One program adds up the counts, in the order of experts and then of blocks. Afterwards counts[b, e] is
//     the place of the first pair of expert e in block b.
//  3. Each program sorts its block stably, and so finds how many pairs of the same expert precede a pair.
#include <kiln/ops/routing.h>

#include <kiln/ops/detail/axes.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/workspace.h>

#include <algorithm>
#include <bit>

namespace kiln::ops {
namespace {

KILN_DIM(PAIRS);
KILN_DIM(EXPERTS);

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;
using Integer = std::int64_t;

// A tensor of pairs: [T k], or [T, k] if these axes do not merge.
template <int Rank> auto pairs_at(const ErasedView<Integer, Rank>& x, const Tile<Integer, PAIRS>& pair) {
  if constexpr (Rank == 1) {
    return x.at(pair);
  } else {
    const Scalar<Integer> slots = max(x.cols(), 1);
    return x.at(pair / slots, pair % slots);
  }
}

// The pairs of a program's block.
template <int Rank> struct Block {
  Scalar<Integer> number = program_id(0);
  Tile<Integer, PAIRS> pair = number * dim_size(PAIRS) + cast<Integer>(arange(PAIRS));
  Tile<bool, PAIRS> inside;
  Tile<Integer, PAIRS> expert;

  Block(const ErasedView<Integer, Rank>& experts, const Scalar<Integer>& pairs)
      : inside(pair < pairs), expert(where(inside, pairs_at(experts, where(inside, pair, 0)).load(), -1)) {}
};

// The parameters are experts, counts, and the number of pairs.
template <int Rank> void count_body(const OpVariant&, const Handle* arguments) {
  const ErasedView<Integer, Rank> experts(arguments[0]);
  const View<std::int32_t, 2> counts(arguments[1]);
  const Block<Rank> block(experts, Scalar<Integer>(arguments[2]));
  counts.tile(block.number, offset(EXPERTS, 0)).store(histogram(block.expert, EXPERTS));
}

// The parameters are counts and offsets.
void scan_body(const OpVariant&, const Handle* arguments) {
  const View<std::int32_t, 2> counts(arguments[0]);
  const ErasedView<Integer, 1> offsets(arguments[1]);
  const auto expert = offset(EXPERTS, 0);
  const auto row = [&](const auto& block) { return counts.tile(block, expert); };
  Tile total = for_range(0, counts.rows(), 1, zeros<std::int32_t>(EXPERTS),
                         [&](auto block, auto total) { return total + row(block).load(); });
  Tile end = cumsum(total, EXPERTS);
  offsets.at(Scalar<Integer>(0)).store(Scalar<Integer>(0));
  offsets.tile(offset(EXPERTS, 1)).store(cast<Integer>(end));
  for_range(0, counts.rows(), 1, end - total, [&](auto block, auto place) {
    Tile count = row(block).load();
    row(block).store(place);
    return place + count;
  });
}

// The parameters are experts, counts, offsets, order, place, and the number of pairs.
template <int Rank> void place_body(const OpVariant&, const Handle* arguments) {
  const ErasedView<Integer, Rank> experts(arguments[0]);
  const View<const std::int32_t, 2> places(arguments[1]);
  const ErasedView<Integer, 1> offsets(arguments[2]), order(arguments[3]);
  const ErasedView<Integer, Rank> place(arguments[4]);
  const Block<Rank> block(experts, Scalar<Integer>(arguments[5]));
  const Scalar<Integer> count = offsets.size() - 1;
  const auto no_expert = cast<std::int32_t>(dim_size(EXPERTS));
  const auto known = (block.expert >= 0) & (block.expert < count);
  Tile key = where(known, cast<std::int32_t>(block.expert), no_expert);
  auto [expert, from] = sort(tie(key, arange(PAIRS)), PAIRS);
  Tile counts = histogram(key, EXPERTS);
  Tile before = cumsum(counts, EXPERTS) - counts;
  Tile first = places.tile(block.number, offset(EXPERTS, 0)).load() - before;
  Tile placed = expert < no_expert;
  Tile at = cast<Integer>(gather(first, where(placed, expert, 0), EXPERTS) + arange(PAIRS));
  Tile pair = block.number * dim_size(PAIRS) + cast<Integer>(from);
  order.at(at).store(pair, placed);
  pairs_at(place, pair).store(where(placed, at, -1), pair < Scalar<Integer>(arguments[5]));
  order.at(block.pair)
      .store(Integer(-1) + zeros<Integer>(PAIRS), block.inside & (block.pair >= offsets.at(count).load()));
}

constinit const detail::OpKernel count_kernel("group_by_expert_count", count_body<1>),
    count_strided("group_by_expert_count_strided", count_body<2>),
    scan_kernel("group_by_expert_scan", scan_body), place_kernel("group_by_expert_place", place_body<1>),
    place_strided("group_by_expert_place_strided", place_body<2>);

} // namespace

void group_by_expert(detail::StreamAt stream, const Input& experts_, const Output& offsets_,
                     const Output& order_, const Output& place_) {
  const detail::Checks check("ops::group_by_expert", stream);
  Array experts = experts_.array(), place = place_.array();
  const Array &offsets = offsets_.array(), &order = order_.array();
  check.rank({"experts", experts}, 2);
  check.rank({"offsets", offsets}, 1);
  check.rank({"order", order}, 1);
  check.rank({"place", place}, 2);
  for (const Array* x : std::initializer_list<const Array*>{&experts, &offsets, &order, &place})
    check.that(x->dtype == DType::I32 || x->dtype == DType::I64,
               "a tensor is of neither i32 nor i64; pass tensors of these dtypes");
  check.same_extents({"experts", experts}, {"place", place});
  const std::int64_t pairs = experts.size(), count = offsets.extents[0] - 1;
  check.equal("order's size and experts' elements", order.extents[0], pairs);
  check.that(count >= 0, "offsets is empty; pass one more than there are experts");
  check.that(count <= 4096, "there are more than 4096 experts; group them in parts");
  check.that(pairs < std::int64_t{1} << 31, "there are 2^31 pairs or more; group them in parts");
  const detail::Argument outputs[] = {{"offsets", offsets}, {"order", order}, {"place", place}};
  for (const detail::Argument& output : outputs) {
    check.writes(output);
    check.apart(output, {"experts", experts});
  }
  check.apart({"order", order}, {"offsets", offsets});
  check.apart({"place", place}, {"offsets", offsets});
  check.apart({"place", place}, {"order", order});

  const bool flat = detail::merge_outer({&experts, &place}, 0, detail::MergeOrder::as_given) == 1;
  const std::int64_t block = 1024, blocks = (pairs + block - 1) / block;
  const auto width =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1))));
  const Config config{PAIRS = block, EXPERTS = width};
  detail::Workspace workspace(stream, detail::Workspace::bytes(DType::I32, blocks * count));
  const Output counts = workspace.take(DType::I32, {blocks, count});
  const Grid grid{blocks}, one{1};
  if (blocks > 0)
    (flat ? count_kernel : count_strided).launch(stream, config, {}, {experts, counts, pairs}, &grid);
  scan_kernel.launch(stream, {EXPERTS = width}, {}, {counts, offsets}, &one);
  if (blocks > 0)
    (flat ? place_kernel : place_strided)
        .launch(stream, config, {}, {experts, Input(counts.array()), Input(offsets), order, place, pairs},
                &grid);
  workspace.free();
}

} // namespace kiln::ops
