// Defines functions that take elements of tiles by their positions, put tiles together, and count elements.
//
//   gather(x, indices, BN)       // result[i, j] = x[i, indices[i, j]]
//   take(x, i, BM)               // one row of x [BM, BN]: a tile [BN]
//   element(x, i, j)             // one element: a scalar
//   narrow(x, start, 8_c, BN)    // x[:, start : start + 8]
//   flip(x, BN)                  // x[:, ::-1]
//   cat(x, y, BN)                // x and then y along an axis, which becomes twice as long
//   histogram(ids, 256_c)        // how often each of 0, ..., 255 occurs
//
// All functions except histogram take tiles of any dtype, and return tiles of the same dtype. A position
// counts elements of the tile, from 0, along the axis. It is a number of the host, or an integer of any dtype
// that the kernel computes. Where a computed position is negative or not below the extent, the result is zero
// (false for bool), as outside of a view; with KILN_DEBUG=1, it is an error that names the line.
//
// C++ finds these functions by argument-dependent lookup: see tile_functions in dim.h.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/join.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// The shape of the indices of a gather from shape S along axis number N, and what is gathered. Indices of
// rank 1 are used along all other axes; others have, along each of them, the extent of the tile or 1.
template <int N, class S, class I> struct GatherShape {
  static constexpr bool ok = false;
};
template <int N, class S, class D> struct GatherShape<N, S, Shape<D>> {
  static constexpr bool ok = true;
  using type = replace_t<N, D, S>;
};
template <int N, class S, class I>
  requires(I::rank == S::rank && I::rank > 1)
struct GatherShape<N, S, I> {
  using type = replace_t<N, at_t<N, I>, S>;
  static constexpr bool ok = broadcasts_to<I, type>;
};

template <class X, class I, class A> constexpr bool gathers() {
  if constexpr (any_poison<X, I> || !good_axis<X, A>)
    return true;
  else
    return GatherShape<find_axis<X, A>(), shape_t<X>, operand_shape_t<I>>::ok;
}
template <class X> inline constexpr bool is_tile = IsPoison<X> || rank_of<X> > 0;
template <class X, class A>
inline constexpr bool looks_up = no_pointers<X> && good_axis<X, A> && !IsPoison<X>;
template <class I> inline constexpr bool is_position = IsPoison<I> || IsDimension<I> || is_integer_scalar<I>;

// The handle of a position: an integer scalar or a number.
template <class I> Handle record_position(const I& i, Location loc) {
  set_location(loc);
  if constexpr (IsDimension<I>)
    return DimensionNode<I>{}.record(loc);
  else if constexpr (TileLike<I>)
    return as_tile(i).record(loc);
  else
    return emit_integer(DType::I64, static_cast<std::int64_t>(i));
}
} // namespace detail

namespace tile_functions {

// Returns, for each element of `indices`, the element of x at this position along the axis. The indices are a
// tile of integers, of one of two shapes:
//
//   the rank of x   result[i, j] = x[i, indices[i, j]] for x [BM, BN], indices [BM, BK] and the axis BN: a
//                   tile [BM, BK]. Along the axis, the indices have any dimension, which the result gets;
//                   along each other axis, they have that of x, or 1.
//   rank 1          result[i, j] = x[i, indices[j]] for indices [BK]: the same positions for all rows.
//
// To look up indices of rank 2 in a table of rank 1, flatten the indices and reshape the result.
template <class X, class I, detail::AxisLike A>
  requires detail::Operands<X, I>
auto gather(const X& x, const I& indices, A, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "gather needs a tile of numbers");
  static_assert(detail::all_integer<I>, "gather: the indices must be integers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  constexpr bool fits = detail::gathers<X, I, A>();
  static_assert(fits,
                "gather: the indices must have the tile's dimensions (or 1) except along the axis, or one "
                "axis only; for a single position write take");
  if constexpr (detail::looks_up<X, A> && !detail::IsPoison<I> && detail::all_integer<I> && fits) {
    constexpr int index = detail::find_axis<X, A>();
    using S = typename detail::GatherShape<index, detail::shape_t<X>, detail::shape_t<I>>::type;
    using T = detail::element_t<X>;
    const detail::Handle tile = detail::record_value(x, loc), at = detail::record_value(indices, loc);
    return detail::tile_t<T, S>(detail::emit_gather(tile, at, index, detail::type_info<T, S>));
  } else {
    return Poison{};
  }
}

// Returns the elements at position i along the axis, without that axis: take(x, i, BM) is row i of x [BM,
// BN], a tile [BN]. The position is a number or an integer scalar. Throws UserError if it is a number that is
// negative or not below the extent; for a named dimension, the launch that binds its size does.
template <class X, class I, detail::AxisLike A>
  requires(detail::Operands<X> && detail::Operand<I>)
auto take(const X& x, const I& i, A, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "take needs a tile of numbers");
  constexpr bool position = detail::is_position<I>;
  static_assert(position, "take needs an integer as the position: for a tile of positions write gather");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  if constexpr (detail::looks_up<X, A> && position && !detail::IsPoison<I>) {
    constexpr int index = detail::find_axis<X, A>();
    using S = detail::shape_t<X>;
    using T = detail::element_t<X>;
    using R = detail::remove_t<index, S>;
    const detail::Handle tile = detail::record_value(x, loc);
    if constexpr (detail::Number<I>) {
      const auto number = static_cast<std::int64_t>(i);
      detail::check_position("take", number, detail::at_t<index, S>::info);
      return detail::tile_t<T, R>(detail::emit(ir::Opcode::Extract, {tile}, detail::type_info<T, R>,
                                               {{"axis", index}, {"index", number}}));
    } else {
      using One = detail::replace_t<index, detail::One, S>;
      const detail::Handle one = detail::emit_positions(tile, detail::record_position(i, loc), false, index,
                                                        detail::type_info<T, One>);
      return detail::tile_t<T, R>(
          detail::emit(ir::Opcode::Squeeze, {one}, detail::type_info<T, R>, {{"axis", index}}));
    }
  } else {
    return Poison{};
  }
}

} // namespace tile_functions

namespace detail {
struct NoPosition {}; // for an argument that is not given
template <class P>
concept OptionalPosition = Operand<P> || std::is_same_v<P, NoPosition>;

// Takes at one position after the other.
template <class X> auto element_at(Location, const X& x) { return x; }
template <class X, class I, class... R>
auto element_at(Location loc, const X& x, const I& i, const R&... more) {
  if constexpr (std::is_same_v<I, NoPosition> || IsPoison<X>)
    return x;
  else
    return element_at(loc, tile_functions::take(x, i, axis<0>, loc), more...);
}
} // namespace detail

namespace tile_functions {

// Returns one element as a scalar: element(x, i, j) for x [BM, BN]. It takes one position for each axis of x,
// with the same errors as take.
template <class X, class I>
  requires(detail::Operands<X> && detail::Operand<I>)
auto element(const X& x, const I& i, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    constexpr bool ok = detail::rank_of<X> == 1;
    static_assert(ok, "element needs one position for each axis of the tile");
    if constexpr (ok)
      return take(x, i, axis<0>, loc);
    else
      return Poison{};
  }
}
template <class X, detail::Operand I, detail::Operand J, detail::OptionalPosition K = detail::NoPosition,
          detail::OptionalPosition L = detail::NoPosition, detail::OptionalPosition M = detail::NoPosition,
          detail::OptionalPosition N = detail::NoPosition, detail::OptionalPosition O = detail::NoPosition,
          detail::OptionalPosition P = detail::NoPosition>
  requires detail::Operands<X>
auto element(const X& x, const I& i, const J& j, const K& k = {}, const L& l = {}, const M& m = {},
             const N& n = {}, const O& o = {}, const P& p = {},
             detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    constexpr int given = 2 + detail::Operand<K> + detail::Operand<L> + detail::Operand<M> +
                          detail::Operand<N> + detail::Operand<O> + detail::Operand<P>;
    constexpr bool ok = detail::rank_of<X> == given;
    static_assert(ok, "element needs one position for each axis of the tile");
    if constexpr (ok)
      return detail::element_at(loc, x, i, j, k, l, m, n, o, p);
    else
      return Poison{};
  }
}

// Returns the elements at the positions start, start + 1, ... along the axis, which gets the dimension `size`
// (the third argument): narrow(x, 4, 8_c, BN) for x [BM, BN] is a tile [BM, 8]. The start is a number or an
// integer scalar. Positions beyond the end of the axis read as zero. Throws UserError if the start is a
// number that is negative or not below the extent, as take does, and if the part is known to end behind the
// axis, because start, size and extent are constants.
template <class X, class I, detail::IsDimension D, detail::AxisLike A>
  requires(detail::Operands<X> && detail::Operand<I>)
auto narrow(const X& x, const I& start, D, A, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "narrow needs a tile of numbers");
  constexpr bool position = detail::is_position<I>;
  static_assert(position, "narrow needs an integer as the start: for a tile of positions write gather");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  if constexpr (detail::looks_up<X, A> && position && !detail::IsPoison<I>) {
    constexpr int index = detail::find_axis<X, A>();
    using T = detail::element_t<X>;
    using S = detail::replace_t<index, D, detail::shape_t<X>>;
    const detail::Handle tile = detail::record_value(x, loc);
    if constexpr (detail::Number<I>)
      detail::check_part("narrow", static_cast<std::int64_t>(start), D::info,
                         detail::at_t<index, detail::shape_t<X>>::info);
    return detail::tile_t<T, S>(detail::emit_positions(tile, detail::record_position(start, loc), false,
                                                       index, detail::type_info<T, S>));
  } else {
    return Poison{};
  }
}
template <class X, class I, class N, class A>
  requires(detail::Operands<X> && detail::Operand<I> && detail::Operand<N> && !detail::IsDimension<N>)
Poison narrow(const X&, const I&, const N&, const A&) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c");
  return {};
}

// Returns a tile of the same dimensions with the elements in reverse order along the axis.
template <class X, detail::AxisLike A>
  requires detail::Operands<X>
auto flip(const X& x, A, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X>, "flip needs a tile of numbers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  if constexpr (detail::looks_up<X, A>) {
    constexpr int index = detail::find_axis<X, A>();
    using T = detail::element_t<X>;
    using S = detail::shape_t<X>;
    const detail::Handle tile = detail::record_value(x, loc);
    const detail::Handle last = detail::emit_last_index(detail::at_t<index, S>::info);
    return detail::tile_t<T, S>(detail::emit_positions(tile, last, true, index, detail::type_info<T, S>));
  } else {
    return Poison{};
  }
}
} // namespace tile_functions

namespace detail {
// How cat puts two tiles together along axis number N: as halves of an axis of twice the length, or as parts
// of constant lengths. The sum of other dimensions is not a dimension.
enum class CatKind : std::uint8_t { Impossible, Halves, Parts };
template <class D> inline constexpr std::int64_t constant_size = 0;
template <std::int64_t N> inline constexpr std::int64_t constant_size<Constant<N>> = N;

template <class X, class Y, class A> constexpr CatKind cat_kind() {
  if constexpr (any_poison<X, Y> || !good_axis<X, A>) {
    return CatKind::Halves;
  } else if constexpr (std::is_same_v<operand_shape_t<X>, operand_shape_t<Y>>) {
    return CatKind::Halves;
  } else if constexpr (rank_of<X> == operand_shape_t<Y>::rank) {
    constexpr int n = find_axis<X, A>();
    using D = at_t<n, shape_t<X>>;
    using E = at_t<n, shape_t<Y>>;
    return std::is_same_v<shape_t<X>, replace_t<n, D, shape_t<Y>>> && constant_size<D> && constant_size<E>
               ? CatKind::Parts
               : CatKind::Impossible;
  } else {
    return CatKind::Impossible;
  }
}

// x with N axes of extent 1 after the last one.
template <int N, class X> auto with_trailing(const X& x, Location loc) {
  if constexpr (N == 0)
    return x;
  else
    return with_trailing<N - 1>(expand<-1>(x, loc), loc);
}

template <int N, class X, class Y> auto cat_halves(const X& x, const Y& y, Location loc) {
  using S = shape_t<X>;
  auto first = with_trailing<S::rank - N>(recorded(arange(Two{}, 0, loc) == 0), loc);
  auto both = recorded(where(first, expand<N>(x, loc), expand<N>(y, loc), loc));
  using T = element_t<decltype(both)>;
  using R = replace_t<N, product_t<at_t<N, S>, Two>, S>;
  return tile_t<T, R>(emit(ir::Opcode::Reshape, {both.record()}, type_info<T, R>));
}

template <int N, class X, class Y> auto cat_parts(const X& x, const Y& y, Location loc) {
  constexpr std::int64_t first = constant_size<at_t<N, shape_t<X>>>,
                         second = constant_size<at_t<N, shape_t<Y>>>;
  auto index = arange(Constant<first + second>{}, 0, loc);
  auto in_first = with_trailing<rank_of<X> - 1 - N>(recorded(index < first), loc);
  return recorded(where(in_first, gather(x, recorded(min(index, first - 1)), axis<N>, loc),
                        gather(y, recorded(max(index - first, 0)), axis<N>, loc), loc));
}
} // namespace detail

namespace tile_functions {

// Returns the elements of x followed by those of y along the axis. If both tiles have the same dimensions,
// the axis gets twice its dimension: cat(x, y, BN) is a tile [BM, BN * 2]. Along the axis, the dimensions may
// also be different constants, and the result has their sum. Different named dimensions are a C++ error.
// Different dtypes are promoted.
template <class X, class Y, detail::AxisLike A>
  requires detail::Operands<X, Y>
auto cat(const X& x, const Y& y, A, detail::Location loc = detail::Location::current()) {
  static_assert(detail::no_pointers<X, Y>, "cat needs tiles of numbers");
  static_assert(detail::is_axis<A>, "an axis is given as its dimension or as axis<1>, not as a plain number");
  static_assert(detail::has_axis<X, A>, "the tile has no such dimension or axis");
  static_assert(detail::has_one_axis<X, A>,
                "the dimension occurs twice in the tile: name the axis, as in axis<1>");
  constexpr auto kind = detail::cat_kind<X, Y, A>();
  static_assert(
      kind != detail::CatKind::Impossible,
      "cat: the tiles must have the same dimensions, except for constants along the axis: the sum of "
      "named dimensions is not a dimension");
  if constexpr (!detail::looks_up<X, A> || detail::any_poison<Y> || detail::any_pointer<Y> ||
                kind == detail::CatKind::Impossible)
    return Poison{};
  else if constexpr (kind == detail::CatKind::Halves)
    return detail::cat_halves<detail::find_axis<X, A>()>(x, y, loc);
  else
    return detail::cat_parts<detail::find_axis<X, A>()>(x, y, loc);
}

// Counts how many elements of x, a tile of integers of any rank, equal each of 0, 1, ..., bins - 1, and
// returns the counts as a tile [bins] of i32, which wrap. `bins` (the second argument) is a dimension.
// Elements that are negative or not below `bins` are not counted.
template <class X, detail::IsDimension D>
  requires detail::Operands<X>
auto histogram(const X& x, D, detail::Location loc = detail::Location::current()) {
  constexpr bool ok = detail::all_integer<X> && detail::is_tile<X>;
  static_assert(ok, "histogram needs a tile of integers: cast floats to bins first");
  if constexpr (detail::IsPoison<X> || !ok) {
    return Poison{};
  } else {
    const detail::Handle tile = detail::record_value(x, loc);
    return Tile<std::int32_t, D{}>(
        detail::emit_histogram(tile, nullptr, detail::type_info<std::int32_t, detail::Shape<D>>));
  }
}
// Counts only the elements for which the mask is true, a tile of bool whose dimensions are those of x, or 1.
// Apart from that, the result is that of histogram(x, bins).
template <class X, detail::IsDimension D, class M>
  requires(detail::Operands<X> && detail::Operands<M>)
auto histogram(const X& x, D, const M& mask, detail::Location loc = detail::Location::current()) {
  constexpr bool ok = detail::all_integer<X> && detail::is_tile<X>;
  static_assert(ok, "histogram needs a tile of integers: cast floats to bins first");
  static_assert(detail::all_bool<M>, "the mask of a histogram must be a tile of bool: write a comparison");
  constexpr bool fits = detail::joined<X, M>;
  static_assert(fits, "the mask must have the tile's dimensions, or 1");
  if constexpr (detail::any_poison<X, M> || !ok || !fits || !detail::all_bool<M>) {
    return Poison{};
  } else {
    const detail::Handle tile = detail::record_value(x, loc), counted = detail::record_value(mask, loc);
    return Tile<std::int32_t, D{}>(
        detail::emit_histogram(tile, &counted, detail::type_info<std::int32_t, detail::Shape<D>>));
  }
}
template <class X, class N>
  requires(detail::Operands<X> && detail::Operand<N> && !detail::IsDimension<N>)
Poison histogram(const X&, const N&) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c");
  return {};
}
} // namespace tile_functions

} // namespace kiln
KILN_API_END
