// Reports calls of functions of tiles in which an argument is missing, in braces, or in a wrong place.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/random.h>
#include <kiln/dsl/sort.h>

#include <cstddef>
#include <tuple>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class X>
concept TileOrState = Operands<X> || IsTuple<X>;
template <class Function, class... X> struct MissingAxis {
  static_assert(never<Function, X...>,
                "the axis is missing: give a dimension of the tile, as in sort(x, BN), or "
                "axis<1>");
};
template <class Function, class... X> struct OptionsInBraces {
  static_assert(never<Function, X...>,
                "options are in braces, with their names: sort(x, BN, {.descending = true}), "
                "cumsum(x, BN, {.reverse = true})");
};
template <class Function, class... X> struct TileFirst {
  static_assert(
      never<Function, X...>,
      "a reduction takes the tile first: for the largest of 0 and all elements write max(max(x, BN), 0)");
};
// A dimension in a braced list.
struct BracedDimension {
  template <IsDimension D> BracedDimension(D) {}
};
template <class Function, class... X> struct BracedDimensions {
  static_assert(never<Function, X...>,
                "dimensions are not in braces: write zeros<float>(BM, BN), reshape(x, BM, BN)");
};
} // namespace detail

// An axis is missing.
template <detail::TileOrState X> Poison cumsum(const X&) {
  (void)detail::MissingAxis<struct cumsum_without_axis, X>{};
  return {};
}
template <detail::TileOrState X> Poison cumprod(const X&) {
  (void)detail::MissingAxis<struct cumprod_without_axis, X>{};
  return {};
}
template <detail::TileOrState X, class F>
  requires(!detail::AxisLike<F>)
auto reduce(const X&, const F&) {
  (void)detail::MissingAxis<struct reduce_without_axis, X>{};
  return detail::poison_like<X>{};
}
template <detail::TileOrState X, class F>
  requires(!detail::AxisLike<F>)
auto associative_scan(const X&, const F&) {
  (void)detail::MissingAxis<struct scan_without_axis, X>{};
  return detail::poison_like<X>{};
}
// An initial value of a reduction, as in std::reduce.
template <detail::TileOrState X, detail::AxisLike A, class N, class F>
  requires(detail::Operand<N> || IsTuple<N>) && (!detail::Operand<F>)
auto reduce(const X&, const A&, const N&, const F&) {
  static_assert(detail::never<F>, "reduce has no initial value: write reduce(x, BN, combine)");
  return detail::poison_like<X>{};
}
template <detail::TileOrState X, detail::IsAxis A, detail::Number N>
Poison cumsum(const X&, const A&, const N&) {
  (void)detail::OptionsInBraces<struct cumsum_options, X>{};
  return {};
}
template <detail::TileOrState X, detail::IsAxis A, detail::Number N>
Poison cumprod(const X&, const A&, const N&) {
  (void)detail::OptionsInBraces<struct cumprod_options, X>{};
  return {};
}
// A number before the tile.
template <detail::Number N, class X, detail::IsAxis A>
  requires detail::Operands<X>
Poison max(const N&, const X&, const A&) {
  (void)detail::TileFirst<struct max_of_number, X>{};
  return {};
}
template <detail::Number N, class X, detail::IsAxis A>
  requires detail::Operands<X>
Poison min(const N&, const X&, const A&) {
  (void)detail::TileFirst<struct min_of_number, X>{};
  return {};
}

namespace tile_functions {
template <detail::TileOrState X> auto sort(const X&) {
  (void)detail::MissingAxis<struct sort_without_axis, X>{};
  return detail::poison_like<X>{};
}
template <detail::TileOrState X> Poison argsort(const X&) {
  (void)detail::MissingAxis<struct argsort_without_axis, X>{};
  return {};
}
template <detail::TileOrState X> Poison flip(const X&) {
  (void)detail::MissingAxis<struct flip_without_axis, X>{};
  return {};
}
template <class X, class I>
  requires(detail::Operands<X> && detail::Operand<I>)
Poison gather(const X&, const I&) {
  (void)detail::MissingAxis<struct gather_without_axis, X>{};
  return {};
}
template <class X, class I>
  requires(detail::Operands<X> && detail::Operand<I>)
Poison take(const X&, const I&) {
  (void)detail::MissingAxis<struct take_without_axis, X>{};
  return {};
}
template <class X, class I, detail::IsDimension D>
  requires(detail::Operands<X> && detail::Operand<I>)
Poison narrow(const X&, const I&, const D&) {
  (void)detail::MissingAxis<struct narrow_without_axis, X>{};
  return {};
}
template <class X, class K>
  requires(detail::Operands<X> && detail::Operand<K>)
Tuple<Poison, Poison> topk(const X&, const K&) {
  (void)detail::MissingAxis<struct topk_without_axis, X>{};
  return {};
}
template <class X, class Y>
  requires(detail::Operands<X, Y> && !detail::IsAxis<Y>)
Poison cat(const X&, const Y&) {
  (void)detail::MissingAxis<struct cat_without_axis, X, Y>{};
  return {};
}
template <class X, class Y, class... Z>
  requires(detail::Operands<X, Y> && (detail::AxisLike<Z> && ...) && sizeof...(Z) > 1)
Poison cat(const X&, const Y&, const Z&...) {
  static_assert(detail::never<X>, "cat puts two tiles together: cat(x, y, BN)");
  return {};
}
template <class X>
  requires detail::Operands<X>
Poison histogram(const X&) {
  static_assert(detail::never<X>, "histogram takes the number of bins as a dimension: histogram(x, 256_c)");
  return {};
}
template <class X, detail::Number N, class M>
  requires(detail::Operands<X> && detail::Operand<M>)
Poison histogram(const X&, const N&, const M&) {
  static_assert(detail::never<X>, "histogram takes the number of bins as a dimension: histogram(x, 256_c)");
  return {};
}
template <detail::TileOrState X, detail::IsAxis A, detail::Number N> auto sort(const X&, const A&, const N&) {
  (void)detail::OptionsInBraces<struct sort_options, X>{};
  return detail::poison_like<X>{};
}
template <detail::TileOrState X, detail::IsAxis A, detail::Number N>
Poison argsort(const X&, const A&, const N&) {
  (void)detail::OptionsInBraces<struct argsort_options, X>{};
  return {};
}
template <class X, class K, detail::IsAxis A, detail::Number N>
  requires detail::Operands<X>
Tuple<Poison, Poison> topk(const X&, const K&, const A&, const N&) {
  (void)detail::OptionsInBraces<struct topk_options, X>{};
  return {};
}
template <class X, class Y, class... Z>
  requires(detail::TileLike<X> && detail::TileLike<Y> && (detail::AxisLike<Z> && ...) && sizeof...(Z) > 0)
Poison sort(const X&, const Y&, const Z&...) {
  static_assert(detail::never<X>, "tiles are sorted together as one state: sort(tie(keys, values), BN)");
  return {};
}
} // namespace tile_functions

// A value is missing.
template <class C, class A>
  requires(detail::Operand<A> && detail::Operands<C>)
Poison where(const C&, const A&) {
  static_assert(detail::never<C>, "where takes the values for true and for false: where(condition, a, b)");
  return {};
}
template <class A, class L>
  requires detail::Operands<A, L>
Poison clamp(const A&, const L&) {
  static_assert(detail::never<A>, "clamp takes both limits, clamp(x, low, high): for one write max(x, low)");
  return {};
}
template <detail::Operand S> Poison rand(const S&) {
  static_assert(detail::never<S>,
                "rand takes a seed and the offsets of the numbers: rand(seed, m + arange(BM))");
  return {};
}
template <detail::Operand S> Poison randn(const S&) {
  static_assert(detail::never<S>,
                "randn takes a seed and the offsets of the numbers: randn(seed, m + arange(BM))");
  return {};
}
template <detail::Operand S, class N>
  requires(detail::Number<N> || detail::IsDimension<N>)
Poison rand(const S&, const N&) {
  static_assert(detail::never<S>,
                "rand takes a seed and the offsets of the numbers: rand(seed, m + arange(BM))");
  return {};
}
template <detail::Operand S, class N>
  requires(detail::Number<N> || detail::IsDimension<N>)
Poison randn(const S&, const N&) {
  static_assert(detail::never<S>,
                "randn takes a seed and the offsets of the numbers: randn(seed, m + arange(BM))");
  return {};
}

// Dimensions in braces.
template <ElementType T, std::size_t N> Poison zeros(const detail::BracedDimension (&)[N]) {
  (void)detail::BracedDimensions<struct braced_zeros, T>{};
  return {};
}
template <ElementType T, std::size_t N> Poison ones(const detail::BracedDimension (&)[N]) {
  (void)detail::BracedDimensions<struct braced_ones, T>{};
  return {};
}
template <class X, std::size_t N>
  requires detail::Operand<X>
Poison full(const X&, const detail::BracedDimension (&)[N]) {
  (void)detail::BracedDimensions<struct braced_full, X>{};
  return {};
}
template <class X, std::size_t N>
  requires detail::Operands<X>
Poison reshape(const X&, const detail::BracedDimension (&)[N]) {
  (void)detail::BracedDimensions<struct braced_reshape, X>{};
  return {};
}
template <class X, std::size_t N>
  requires detail::Operands<X>
Poison broadcast(const X&, const detail::BracedDimension (&)[N]) {
  (void)detail::BracedDimensions<struct braced_broadcast, X>{};
  return {};
}

namespace detail {
template <class X> struct OneResult {
  static_assert(never<X>,
                "this function returns one tile: write auto v = sort(x, BN); topk, argsort, and sort "
                "of a state give positions");
};
} // namespace detail
template <std::size_t I, class T, auto... D> Poison get(const Tile<T, D...>&) {
  (void)detail::OneResult<Tile<T, D...>>{};
  return {};
}

} // namespace kiln

// Report structured bindings of one tile, as in auto [v, at] = sort(x, BN).
template <class T, auto... D> struct std::tuple_size<kiln::Tile<T, D...>> {
  static constexpr std::size_t value = 2;
};
template <std::size_t I, class T, auto... D> struct std::tuple_element<I, kiln::Tile<T, D...>> {
  using type = kiln::Poison;
};
KILN_API_END
