// Defines sort, argsort and topk, which order the elements of a tile along an axis.
//
//   sort(x, BN)                                    // each row in ascending order
//   auto [k, v] = sort(tie(keys, values), BN);     // values in the order of their keys
//   argsort(x, BN, {.descending = true})           // the positions of the elements in that order
//   auto [top, at] = topk(x, 8_c, BN);             // the 8 largest elements of each row, and their positions
//
// Tiles of any dtype can be sorted, bool included. Sorts are stable in both directions: equal elements keep
// their order. -0 is below 0, and NaN is above every number, so it comes last in ascending order and first in
// descending order. Elements beyond the edge of a view are part of the tile and hold `other`, so a load
// before a sort needs an `other` that comes last: load_or(INFINITY) before an ascending sort,
// load_or(-INFINITY) before a descending one or topk.
//
// C++ finds these functions by argument-dependent lookup: see tile_functions in dim.h.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/lookup.h>

KILN_API_BEGIN
namespace kiln {

// The order of a sort: ascending, or descending if `descending` is true.
struct SortOptions {
  bool descending = false;
};
// Which elements topk returns: the largest, or the smallest if `smallest` is true.
struct TopkOptions {
  bool smallest = false;
};

namespace detail {
template <class S, class A> inline constexpr bool can_sort = can_combine<S, A> && no_pointers<first_tile<S>>;

// Sorts x along axis number N into tiles of shape R, and returns them and their positions.
template <int N, class R, class X> auto sorted_pair(const X& x, bool descending, Location loc) {
  using T = element_t<X>;
  Handle results[2];
  emit_sort(record_value(x, loc), N, descending, type_info<T, R>, results);
  return state(tile_t<T, R>(results[0]), tile_t<std::int32_t, R>(results[1]));
}
template <class X, class A> auto whole_sort(const X& x, A, bool descending, Location loc) {
  return sorted_pair<find_axis<X, A>(), shape_t<X>>(x, descending, loc);
}

template <class First, class... Rest, class A, std::size_t... I>
auto sort_together(const Tuple<First, Rest...>& s, A a, bool descending, Location loc,
                   std::index_sequence<I...>) {
  auto [keys, positions] = whole_sort(s.template get<0>(), a, descending, loc);
  constexpr int n = find_axis<First, A>();
  return state(keys, gather(s.template get<I + 1>(), positions, axis<n>, loc)...);
}
template <class S> struct SortedRest;
template <class First, class... Rest> struct SortedRest<Tuple<First, Rest...>> {
  static constexpr std::size_t count = sizeof...(Rest);
};
} // namespace detail

namespace tile_functions {

// Returns the elements in ascending order along the axis, or in descending order with {.descending = true}.
// The result has the dtype and dimensions of x. Of several tiles with the same dimensions, tie(keys,
// values...), the first is sorted and the others get the same order; the result is a state of as many tiles,
// which structured bindings unpack.
template <class X, detail::AxisLike A>
  requires(detail::Operands<X> || IsTuple<X>)
auto sort(const X& x, A a, SortOptions options = {}, detail::Location loc = detail::Location::current()) {
  using S = detail::state_t<X>;
  using Keys = detail::first_tile<S>;
  static_assert(detail::no_pointers<Keys>, "sort needs a tile of numbers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<Keys, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<Keys, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  static_assert(detail::same_shapes<S>, "the tiles that are sorted together must have the same dimensions");
  if constexpr (!detail::can_sort<S, A>) {
    return detail::poison_like<S>{};
  } else if constexpr (IsTuple<S>) {
    return detail::sort_together(x, a, options.descending, loc,
                                 std::make_index_sequence<detail::SortedRest<S>::count>{});
  } else {
    auto [sorted, positions] = detail::whole_sort(x, a, options.descending, loc);
    return sorted;
  }
}
template <detail::StdTuple X, class A> auto sort(const X&, const A&, SortOptions = {}) {
  static_assert(detail::never<X>,
                "several tiles are sorted as state(x, y), not as a std::tuple such as std::tie returns");
  return detail::poison_like<X>{};
}

// Returns the positions of the elements along the axis in the order in which sort returns them, as a tile of
// i32 with the dimensions of x: gather(x, argsort(x, BN), BN) equals sort(x, BN).
template <class X, detail::AxisLike A>
  requires detail::Operands<X>
auto argsort(const X& x, A a, SortOptions options = {}, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "argsort needs a tile of numbers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  if constexpr (detail::looks_up<X, A>) {
    auto [sorted, positions] = detail::whole_sort(x, a, options.descending, loc);
    return positions;
  } else {
    return Poison{};
  }
}

// Returns the `count` largest elements along the axis in descending order or, with {.smallest = true}, the
// smallest in ascending order, and their positions as i32: two tiles in which `count` (the second argument)
// replaces the dimension of the axis. Among equal elements, those with smaller positions come first. `count`
// is a dimension: a constant such as 8_c, or a named one. It must not exceed the extent of the axis: a launch
// whose config binds it to more throws UserError, and for two constants it is a C++ error.
template <class X, detail::IsDimension K, detail::AxisLike A>
  requires detail::Operands<X>
auto topk(const X& x, K, A, TopkOptions options = {}, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "topk needs a tile of numbers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  if constexpr (detail::looks_up<X, A>) {
    constexpr int index = detail::find_axis<X, A>();
    constexpr std::int64_t all = detail::constant_size<detail::at_t<index, detail::shape_t<X>>>;
    constexpr bool fits = all == 0 || detail::constant_size<K> <= all;
    static_assert(fits, "topk: the axis has fewer elements");
    using R = detail::replace_t<index, K, detail::shape_t<X>>;
    return detail::sorted_pair<index, R>(x, !options.smallest, loc);
  } else {
    return Tuple<Poison, Poison>{};
  }
}
template <class X, class N, class A>
  requires(detail::Operands<X> && detail::Operand<N> && !detail::IsDimension<N>)
Tuple<Poison, Poison> topk(const X&, const N&, const A&, TopkOptions = {}) {
  static_assert(detail::never<X>, "topk takes the number of elements as a dimension: a KILN_DIM, or 8_c");
  return {};
}
} // namespace tile_functions

} // namespace kiln
KILN_API_END
