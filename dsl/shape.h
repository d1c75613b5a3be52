// Creates tiles (arange, full, zeros), changes their shapes (expand, broadcast, permute, reshape) and
// multiplies them as matrices (dot).
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/operators.h>

#include <utility>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// The index of the axis that `BN` or `axis<1>` names; -1 if the shape has no such axis, -2 if it has the
// dimension twice.
template <class A, class S> struct AxisIn {
  static constexpr int value = Find<A, S>::count == 0 ? -1 : Find<A, S>::count > 1 ? -2 : Find<A, S>::index;
};
template <int N, class S> struct AxisIn<Axis<N>, S> {
  static constexpr int value = N >= -S::rank && N < S::rank ? (N + S::rank) % (S::rank ? S::rank : 1) : -1;
};
template <class X>
concept IsAxis = IsDimension<X> || requires(X x) { []<int N>(Axis<N>) {}(x); };
// The types that overload resolution accepts as an axis. Numbers are among them, so that they get an error
// message of their own.
template <class X>
concept AxisLike = IsAxis<X> || Operand<X>;
template <class X> inline constexpr bool is_axis = IsAxis<X>;

// These are conditions of static_assert. Poison satisfies them.
template <class X, class A> constexpr int find_axis() {
  if constexpr (TileLike<X> && IsAxis<A>)
    return AxisIn<A, shape_t<X>>::value;
  else
    return 0;
}
template <class X, class A> inline constexpr bool has_axis = find_axis<X, A>() != -1;
template <class X, class A> inline constexpr bool has_one_axis = find_axis<X, A>() != -2;
template <class X, class A>
inline constexpr bool good_axis = !IsPoison<X> && IsAxis<A> && find_axis<X, A>() >= 0;
template <class X> Handle record_value(const X& x, Location loc) {
  set_location(loc);
  return x.record(loc);
}
} // namespace detail

// Returns the numbers start, start + 1, ... along a dimension, as a tile of i32: arange(BM). (Indices of
// views are i64; adding an arange to an Offset or to another i64 scalar gives i64.)
template <detail::IsDimension D>
Tile<std::int32_t, D{}> arange(D, std::int64_t start = 0,
                               detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Tile<std::int32_t, D{}>(detail::emit(
      ir::Opcode::Arange, {}, detail::type_info<std::int32_t, detail::Shape<D>>, {{"start", start}}));
}

template <class N, class... R>
  requires(detail::Operand<N> && !detail::IsDimension<N>)
Poison arange(const N&, const R&...) {
  static_assert(detail::never<N>, "arange takes a dimension: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}

// Returns a tile whose elements are all `value`, a number or a scalar. The dtype is that of the value, or T
// if it is given: full(2.5f, BM), full<bf16>(0, BM, BN).
template <int = 0, class X, detail::IsDimension... D> // the int keeps full<bf16>(...) for the other overload
  requires detail::Operand<X>
auto full(const X& value, D...) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    auto x = detail::as_value(value);
    static_assert(detail::rank_of<decltype(x)> == 0,
                  "full needs a number or a scalar: use broadcast for tiles");
    using E = detail::element_t<decltype(x)>;
    return Tile<E, D{}...>(detail::emit_broadcast(x.record(), detail::type_info<E, detail::Shape<D...>>));
  }
}
template <ElementType T, class X, detail::IsDimension... D>
  requires detail::Operand<X>
Tile<T, D{}...> full(const X& value, D...) {
  auto x = detail::as_operand<T>(value);
  static_assert(detail::rank_of<decltype(x)> == 0,
                "full needs a number or a scalar: use broadcast for tiles");
  return Tile<T, D{}...>(detail::emit_convert(x.record(), detail::type_info<T, detail::Shape<D...>>));
}
// Return a tile of zeros or ones of dtype T: zeros<float>(BM, BN).
template <ElementType T, detail::IsDimension... D> Tile<T, D{}...> zeros(D... dims) {
  return full<T>(0, dims...);
}
template <ElementType T, detail::IsDimension... D> Tile<T, D{}...> ones(D... dims) {
  return full<T>(1, dims...);
}
template <class T, class... D>
  requires(!ElementType<T> && !detail::IsDimension<T>)
Poison zeros(const D&...) {
  static_assert(detail::never<T>, "this type is not a dtype: use bool, std::int8_t to std::uint64_t, f16, "
                                  "bf16, float, double, f8e4m3 or f8e5m2");
  return {};
}
template <class T, class... D>
  requires(!ElementType<T> && !detail::IsDimension<T>)
Poison ones(const D&...) {
  static_assert(detail::never<T>, "this type is not a dtype: use bool, std::int8_t to std::uint64_t, f16, "
                                  "bf16, float, double, f8e4m3 or f8e5m2");
  return {};
}
template <class... D>
  requires((detail::IsDimension<D> && ...) && sizeof...(D) > 0)
Poison zeros(D...) {
  static_assert(detail::never<D...>, "zeros needs a dtype: zeros<float>(BM, BN)");
  return {};
}
template <class... D>
  requires((detail::IsDimension<D> && ...) && sizeof...(D) > 0)
Poison ones(D...) {
  static_assert(detail::never<D...>, "ones needs a dtype: ones<float>(BM, BN)");
  return {};
}
template <int = 0, class X, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison full(const X&, const D&...) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}
template <ElementType T, class X, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison full(const X&, const D&...) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}
template <ElementType T, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison zeros(const D&...) {
  static_assert(detail::never<T>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}
template <ElementType T, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison ones(const D&...) {
  static_assert(detail::never<T>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}

// Inserts an axis of extent 1 at the position `At` of the result: expand<0>(x) gives [1, ...], and
// expand<-1>(x) gives [..., 1]. expand(x, axis<0>) is the same as expand<0>(x).
template <int At, class X>
  requires detail::Operands<X>
auto expand(const X& x, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    constexpr int rank = detail::rank_of<X>;
    constexpr bool ok = At >= -rank - 1 && At <= rank;
    static_assert(ok, "expand: the axis must lie between -rank - 1 and rank");
    if constexpr (ok) {
      constexpr int axis = At < 0 ? At + rank + 1 : At;
      using S = detail::insert_t<axis, detail::One, detail::shape_t<X>>;
      using E = detail::element_t<X>;
      return detail::tile_t<E, S>(detail::emit(ir::Opcode::ExpandDims, {detail::record_value(x, loc)},
                                               detail::type_info<E, S>, {{"axis", axis}}));
    } else {
      return Poison{};
    }
  }
}
template <class X, int At>
  requires detail::Operands<X>
auto expand(const X& x, Axis<At>, detail::Location loc = detail::Location::current()) {
  return expand<At>(x, loc);
}
template <class X, detail::Operand N>
  requires detail::Operands<X>
Poison expand(const X&, const N&) {
  static_assert(detail::never<X>, "expand takes the new axis as a template argument: expand<1>(x)");
  return {};
}

// Removes the axis `At`, whose extent must be 1; a negative number counts from the last axis. squeeze(x,
// axis<0>) is the same as squeeze<0>(x).
template <int At, class X>
  requires detail::Operands<X>
auto squeeze(const X& x, detail::Location loc = detail::Location::current()) {
  static_assert(detail::has_axis<X, Axis<At>>, "the tile has no such dimension or axis");
  if constexpr (!detail::good_axis<X, Axis<At>>) {
    return Poison{};
  } else {
    using S = detail::shape_t<X>;
    constexpr int axis = detail::find_axis<X, Axis<At>>();
    constexpr bool one = std::is_same_v<detail::at_t<axis, S>, detail::One>;
    static_assert(one, "squeeze: the axis must have extent 1");
    if constexpr (one) {
      using R = detail::remove_t<axis, S>;
      using E = detail::element_t<X>;
      return detail::tile_t<E, R>(detail::emit(ir::Opcode::Squeeze, {detail::record_value(x, loc)},
                                               detail::type_info<E, R>, {{"axis", axis}}));
    } else {
      return Poison{};
    }
  }
}

template <class X, int At>
  requires detail::Operands<X>
auto squeeze(const X& x, Axis<At>, detail::Location loc = detail::Location::current()) {
  return squeeze<At>(x, loc);
}
template <class X, detail::Operand N>
  requires detail::Operands<X>
Poison squeeze(const X&, const N&) {
  static_assert(detail::never<X>, "squeeze takes the axis as a template argument: squeeze<1>(x)");
  return {};
}

// Repeats the tile to the given dimensions. From the last axis on, each dimension of the tile must be the
// given one or 1; missing leading axes are added.
template <class X, detail::IsDimension... D>
  requires detail::Operands<X>
auto broadcast(const X& x, D...) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    using S = detail::Shape<D...>;
    constexpr bool ok = detail::broadcasts_to<detail::shape_t<X>, S>;
    static_assert(ok, "broadcast: the tile's dimensions must be the given ones, or 1");
    if constexpr (ok)
      return Tile<detail::element_t<X>, D{}...>(
          detail::emit_broadcast(x.record(), detail::type_info<detail::element_t<X>, S>));
    else
      return Poison{};
  }
}

// Reorders the axes: axis i of the result is axis Order[i] of the tile. permute<1, 0>(x) transposes a matrix.
template <int... Order, class X>
  requires detail::Operands<X>
auto permute(const X& x, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    constexpr int rank = detail::rank_of<X>;
    constexpr bool ok = sizeof...(Order) == rank && ((Order >= 0 && Order < rank) && ...) &&
                        ((1u << Order) | ... | 0u) == (1u << rank) - 1;
    static_assert(ok, "permute needs every axis of the tile exactly once");
    if constexpr (ok) {
      using S = detail::Shape<detail::at_t<Order, detail::shape_t<X>>...>;
      using E = detail::element_t<X>;
      constexpr int order[] = {Order..., 0};
      return detail::tile_t<E, S>(detail::emit(ir::Opcode::Permute, {detail::record_value(x, loc)},
                                               detail::type_info<E, S>, {{"order", rank, nullptr, order}}));
    } else {
      return Poison{};
    }
  }
}
template <class X, detail::Number... N>
  requires(detail::Operands<X> && sizeof...(N) > 0)
Poison permute(const X&, N...) {
  static_assert(detail::never<X>, "permute takes the axes as template arguments: permute<1, 0>(x)");
  return {};
}
template <class X, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison broadcast(const X&, const D&...) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}
template <class X, class... D>
  requires detail::NumbersAsDimensions<D...>
Poison reshape(const X&, const D&...) {
  static_assert(detail::never<X>, "a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c "
                                  "(constant<N> for a constexpr int N)");
  return {};
}

namespace detail {
template <class X, int... I> auto swap_last(const X& x, Location loc, std::integer_sequence<int, I...>) {
  constexpr int rank = sizeof...(I);
  return permute<(I == rank - 1 ? rank - 2 : I == rank - 2 ? rank - 1 : I)...>(x, loc);
}
} // namespace detail

// Exchanges the last two axes, which transposes a matrix.
template <class X>
  requires detail::Operands<X>
auto trans(const X& x, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    constexpr bool ok = detail::rank_of<X> >= 2;
    static_assert(ok, "trans needs a tile with at least two axes: use expand first");
    if constexpr (ok)
      return detail::swap_last(x, loc, std::make_integer_sequence<int, detail::rank_of<X>>{});
    else
      return Poison{};
  }
}

template <class X, detail::Number... N>
  requires(detail::Operands<X> && sizeof...(N) > 0)
Poison trans(const X&, N...) {
  static_assert(detail::never<X>, "trans exchanges the last two axes: for others write permute<1, 0, 2>(x)");
  return {};
}

// Returns the same elements in row-major order, with other dimensions of the same product. The C++ compiler
// checks constant dimensions; named ones are checked when the config binds their sizes, which throws
// UserError if they do not fit.
template <class X, detail::IsDimension... D>
  requires detail::Operands<X>
auto reshape(const X& x, D...) {
  if constexpr (detail::IsPoison<X>) {
    return Poison{};
  } else {
    using S = detail::Shape<D...>;
    using From = detail::elements_t<detail::shape_t<X>>;
    using To = detail::elements_t<S>;
    constexpr bool both_constant =
        From::info.factors + From::info.divisors + To::info.factors + To::info.divisors == 0;
    constexpr bool ok = !both_constant || std::is_same_v<From, To>;
    static_assert(ok, "reshape must keep the number of elements");
    using E = detail::element_t<X>;
    return Tile<E, D{}...>(detail::emit(ir::Opcode::Reshape, {x.record()}, detail::type_info<E, S>));
  }
}
// Returns the same elements in row-major order along one axis, whose dimension is the product of those of the
// tile.
template <class X>
  requires detail::Operands<X>
auto flatten(const X& x) {
  if constexpr (detail::IsPoison<X>)
    return Poison{};
  else
    return reshape(x, detail::elements_t<detail::shape_t<X>>{});
}

// The precision with which dot multiplies f32 operands; it has no effect on other dtypes. A device may always
// be more precise than required.
//
//   ieee  full f32 products, the default;
//   tf32  operands are rounded to 10 bits of mantissa, the TF32 format of tensor cores.
enum class Precision : std::uint8_t { ieee, tf32 };

// The order in which dot adds the products that make up one element of its result.
//
//   any    the fastest order, which may depend on how many rows the tile and the launch have; the default;
//   fixed  an order that depends neither on these numbers nor on the number of threads, so that equal rows
//          of `a` give equal bits wherever they are. On CPUs, products of floats are added to the accumulator
//          in the order of K, which may be slower for tiles with few rows. On GPUs, `fixed` is the same as
//          `any`, whose order depends on M there, but only for tiles of at most 8 rows.
enum class SumOrder : std::uint8_t { any, fixed };

namespace detail {
inline constexpr const char* precision_names[] = {"ieee", "tf32"};
inline constexpr const char* sum_order_names[] = {nullptr, "fixed"}; // null: the attribute is left out

template <class A, class B> struct DotShape {
  static constexpr int status = 1;
};
template <class M, class K, class N> struct DotShape<Shape<M, K>, Shape<K, N>> {
  static constexpr int status = 0;
  using type = Shape<M, N>;
};
template <class L, class A1, class A2, class... A, class B1, class B2, class... B>
struct DotShape<Shape<L, A1, A2, A...>, Shape<L, B1, B2, B...>> {
  using inner = DotShape<Shape<A1, A2, A...>, Shape<B1, B2, B...>>;
  static constexpr int status = inner::status;
  static auto pick() {
    if constexpr (status == 0)
      return typename Prepend<L, typename inner::type>::type{};
    else
      return 0;
  }
  using type = decltype(pick());
};
template <class T>
using accumulator_t = std::conditional_t<std::is_same_v<T, double>, double,
                                         std::conditional_t<is_float(dtype_of<T>), float, std::int32_t>>;

// These are conditions of static_assert. Poison satisfies them, and each assumes that those above it hold.
template <class A, class B> constexpr bool dot_ranks() {
  if constexpr (any_poison<A, B>)
    return true;
  else
    return operand_shape_t<A>::rank >= 2 && operand_shape_t<B>::rank >= 2;
}
template <class A, class B> constexpr bool dot_dims() {
  if constexpr (any_poison<A, B> || !dot_ranks<A, B>())
    return true;
  else
    return DotShape<shape_t<A>, shape_t<B>>::status == 0;
}
template <class A, class B> constexpr bool dot_same() {
  return any_poison<A, B> || (operand_dtype<A>() == operand_dtype<B>() && !any_pointer<A, B>);
}
template <class A, class B> constexpr bool dot_dtype() {
  return any_poison<A, B> || !dot_same<A, B>() || is_float_operand<A> ||
         (size_of(operand_dtype<A>()) == 1 && !is_bool_operand<A>);
}
template <class A, class B>
inline constexpr bool can_dot =
    !any_poison<A, B> && dot_ranks<A, B>() && dot_dims<A, B>() && dot_same<A, B>() && dot_dtype<A, B>();
template <class A, class B> struct DotResult {
  using element = accumulator_t<element_t<A>>;
  using shape = typename DotShape<shape_t<A>, shape_t<B>>::type;
};
template <class A, class B, class C> constexpr bool dot_accumulator() {
  if constexpr (any_poison<C> || !can_dot<A, B>) {
    return true;
  } else if constexpr (TileLike<C>) {
    using R = DotResult<A, B>;
    return std::is_same_v<element_t<C>, typename R::element> && std::is_same_v<shape_t<C>, typename R::shape>;
  } else {
    return false;
  }
}
} // namespace detail

// Returns the matrix product of a [.., M, K] and b [.., K, N], a tile [.., M, N]. Leading dimensions, if any,
// must be the same in both; they form a batch of products. The operands must have the same dtype: a float, i8
// or u8. The products are not rounded before they are added; sums are in f32 (in f64 for f64, and in i32,
// which wraps around, for i8 and u8), in the order that SumOrder describes. The result has the dtype of the
// sums.
template <class A, class B>
  requires detail::Operands<A, B>
auto dot(const A& a, const B& b, Precision precision = Precision::ieee, SumOrder order = SumOrder::any,
         detail::Location loc = detail::Location::current()) {
  static_assert(detail::dot_ranks<A, B>(), "dot needs tiles with at least two axes: use expand first");
  static_assert(detail::dot_dims<A, B>(),
                "dot: the first tile's last dimension must be the second tile's second to last "
                "(and the batch dimensions must be the same)");
  static_assert(detail::dot_same<A, B>(), "dot needs two tiles of one dtype: cast one of them");
  static_assert(detail::dot_dtype<A, B>(), "dot multiplies floats, int8_t or uint8_t: cast the tiles");
  if constexpr (detail::can_dot<A, B>) {
    using R = detail::DotResult<A, B>;
    detail::Handle x = detail::record_value(a, loc), y = detail::record_value(b, loc);
    return detail::tile_t<typename R::element, typename R::shape>(
        detail::emit_dot({x, y}, detail::type_info<typename R::element, typename R::shape>,
                         detail::precision_names[static_cast<int>(precision)],
                         detail::sum_order_names[static_cast<int>(order)]));
  } else {
    return Poison{};
  }
}
// Returns accumulator + dot(a, b). The accumulator must have the dimensions and the dtype of the product. The
// expression `accumulator + dot(a, b)` means the same.
template <class A, class B, class C>
  requires detail::Operands<A, B, C>
auto dot(const A& a, const B& b, const C& accumulator, Precision precision = Precision::ieee,
         SumOrder order = SumOrder::any, detail::Location loc = detail::Location::current()) {
  static_assert(detail::dot_ranks<A, B>(), "dot needs tiles with at least two axes: use expand first");
  static_assert(detail::dot_dims<A, B>(),
                "dot: the first tile's last dimension must be the second tile's second to last "
                "(and the batch dimensions must be the same)");
  static_assert(detail::dot_same<A, B>(), "dot needs two tiles of one dtype: cast one of them");
  static_assert(detail::dot_dtype<A, B>(), "dot multiplies floats, int8_t or uint8_t: cast the tiles");
  static_assert(
      detail::dot_accumulator<A, B, C>(),
      "dot: the accumulator must have the product's dimensions, and f32 (f64 for f64, i32 for integers)");
  if constexpr (detail::can_dot<A, B> && detail::dot_accumulator<A, B, C>() && !detail::IsPoison<C>) {
    using R = detail::DotResult<A, B>;
    detail::Handle x = detail::record_value(a, loc), y = detail::record_value(b, loc),
                   z = detail::record_value(accumulator, loc);
    return detail::tile_t<typename R::element, typename R::shape>(
        detail::emit_dot({x, y, z}, detail::type_info<typename R::element, typename R::shape>,
                         detail::precision_names[static_cast<int>(precision)],
                         detail::sum_order_names[static_cast<int>(order)]));
  } else {
    return Poison{};
  }
}

} // namespace kiln
KILN_API_END
