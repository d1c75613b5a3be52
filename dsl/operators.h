// Defines the operators of tiles, and Offset, an index that knows the dimension of the tile that begins
// there.
//
//   + - * / %              integers truncate in / and %, and two bools count as i32
//   & | ^ << >> ~ !        integers and bool; ! takes bool only
//   == != < <= > >=        tiles of bool
//   && ||                  errors: use & and |
//
// Operands are tiles, scalars, dimensions and, except for one of them, numbers of the host. They broadcast
// from the last axis, and dtypes are promoted: see SEMANTICS.md. A pointer plus or minus integers moves by
// elements.
//
// (Each operator checks its operands in its own body and not in a function that it calls, because every
// function in between would add three lines to what the compiler says about a mistake.)
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/dimension_mistakes.h>
#include <kiln/dsl/tile.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {

// --- What operands must be ---------------------------------------------------------------------------------

template <class X> constexpr auto operand_shape() {
  if constexpr (TileLike<X>)
    return shape_t<X>{};
  else
    return Shape<>{};
}
template <class X> using operand_shape_t = decltype(operand_shape<X>());
template <class X> constexpr DType operand_dtype() {
  if constexpr (TileLike<X>)
    return ElementInfo<element_t<X>>::dtype;
  else if constexpr (IsDimension<X>)
    return DType::I64;
  else if constexpr (IsPoison<X>)
    return DType::F32;
  else
    return own_dtype<X>;
}

template <class... X> inline constexpr bool any_poison = (IsPoison<X> || ...);
template <class... X> inline constexpr bool any_pointer = (is_pointer_tile<X> || ...);
template <class X>
inline constexpr bool is_float_operand = is_float(operand_dtype<X>()) && !is_pointer_tile<X>;
template <class X>
inline constexpr bool is_bool_operand = operand_dtype<X>() == DType::Bool && !is_pointer_tile<X>;
template <class X>
inline constexpr bool is_integer_operand = is_integer(operand_dtype<X>()) && !is_pointer_tile<X>;

// The following are conditions of static_assert. Poison satisfies all of them.
template <class A, class B> inline constexpr bool joined = joins<operand_shape_t<A>, operand_shape_t<B>>;
template <class A, class B, class C>
inline constexpr bool all_joined =
    joined<A, B> && joins<join_t<operand_shape_t<A>, operand_shape_t<B>>, operand_shape_t<C>>;
template <class... X> inline constexpr bool no_pointers = any_poison<X...> || !any_pointer<X...>;
// A pointer takes integers as offsets: p + i, i + p, p - i.
template <class A, class B>
inline constexpr bool adds_to_pointer =
    any_poison<A, B> || !any_pointer<A, B> || is_integer_operand<A> || is_integer_operand<B>;
template <class A, class B>
inline constexpr bool subtracts_from_pointer =
    any_poison<A, B> || !any_pointer<A, B> || is_integer_operand<B>;
template <class... X>
inline constexpr bool all_bits = any_poison<X...> || !(any_pointer<X...> || (is_float_operand<X> || ...));
template <class... X> inline constexpr bool some_float = any_poison<X...> || (is_float_operand<X> || ...);
template <class... X> inline constexpr bool all_integer = any_poison<X...> || (is_integer_operand<X> && ...);
// A comparison of what a comparison returns with something else, as in 0 < x < 1.
template <class A, class B>
inline constexpr bool chained = !any_poison<A, B> && !any_pointer<A, B> &&
                                ((TileLike<A> && is_bool_operand<A> && !is_bool_operand<B>) ||
                                 (TileLike<B> && is_bool_operand<B> && !is_bool_operand<A>));
template <class... X> inline constexpr bool all_bool = any_poison<X...> || (is_bool_operand<X> && ...);

// --- How operators are built -------------------------------------------------------------------------------

// Promotes the operands and builds the node. Its dtype is Result, or the promoted dtype if Result is void.
// The result is Poison if the operands do not fit.
template <ir::Opcode Code, class Result, class A, class B>
auto binary_node(Location loc, const A& a, const B& b) {
  if constexpr (any_poison<A, B> || any_pointer<A, B> || !joined<A, B>) {
    return Poison{};
  } else {
    using E = leading_t<A, B>;
    auto x = as_operand<E>(a);
    auto y = as_operand<E>(b);
    using P = promote_t<element_t<decltype(x)>, element_t<decltype(y)>>;
    using R = std::conditional_t<std::is_void_v<Result>, P, Result>;
    return make_node<Code, R, join_t<operand_shape_t<A>, operand_shape_t<B>>>(dtype_of<P>, loc, x, y);
  }
}
template <ir::Opcode Code, class A, class B, class C>
auto ternary_node(Location loc, const A& a, const B& b, const C& c) {
  if constexpr (any_poison<A, B, C> || any_pointer<A, B, C> || !all_joined<A, B, C>) {
    return Poison{};
  } else {
    using E = leading_t<A, B, C>;
    auto x = as_operand<E>(a);
    auto y = as_operand<E>(b);
    auto z = as_operand<E>(c);
    using P = promote_t<promote_t<element_t<decltype(x)>, element_t<decltype(y)>>, element_t<decltype(z)>>;
    using S = join_t<join_t<operand_shape_t<A>, operand_shape_t<B>>, operand_shape_t<C>>;
    return make_node<Code, P, S>(dtype_of<P>, loc, x, y, z);
  }
}
template <ir::Opcode Code, class A> auto unary_node(Location loc, const A& a) {
  if constexpr (IsPoison<A> || is_pointer_tile<A>)
    return Poison{};
  else
    return make_node<Code, element_t<A>, shape_t<A>>(dtype_of<element_t<A>>, loc, as_tile(a));
}

// Builds the node of +, -, *, / or another arithmetic operator, for which two bools are promoted to i32.
template <ir::Opcode Code, class A, class B> auto arithmetic(const A& a, const B& b) {
  if constexpr (any_poison<A, B> || any_pointer<A, B> || !joined<A, B>)
    return Poison{};
  else if constexpr (is_bool_operand<A> && is_bool_operand<B>)
    return make_node<Code, std::int32_t, join_t<operand_shape_t<A>, operand_shape_t<B>>>(
        DType::I32, {}, as_operand<std::int32_t>(a), as_operand<std::int32_t>(b));
  else
    return binary_node<Code, void>({}, a, b);
}
template <ir::Opcode Code, class A, class B> auto bitwise(const A& a, const B& b) {
  if constexpr (all_bits<A, B>)
    return binary_node<Code, void>({}, a, b);
  else
    return Poison{};
}

// A tile of pointers plus offsets in elements.
template <class P, class O> auto pointer_plus(const P& p, const O& o) {
  if constexpr (any_poison<P, O> || !is_integer_operand<O> || !joined<P, O>) {
    return Poison{};
  } else {
    auto y = as_operand<std::int64_t>(o);
    return make_node<ir::Opcode::PtrAdd, element_t<P>, join_t<shape_t<P>, shape_t<decltype(y)>>>(
        DType::I64, {}, as_tile(p), y);
  }
}
} // namespace detail

// An i64 scalar that counts elements and knows the dimension of the tile that begins there. program_tile and
// for_range return offsets, and i * BM is the offset of tile i. An offset plus or minus an integer scalar is
// an offset of the same dimension: v.tile(m + 1, n - 1). Other operations use it as a plain i64 scalar.
template <auto D> class Offset : public Tile<std::int64_t> {
public:
  using dimension = detail::dimension_of<D>;
  using Tile<std::int64_t>::Tile;
  Tile<std::int64_t> kiln_snapshot() const { return static_cast<const Tile<std::int64_t>&>(*this); }
};

namespace detail {
template <class X> inline constexpr bool is_offset = requires { typename X::dimension; };
template <class X>
inline constexpr bool is_integer_scalar = (std::is_integral_v<X> && !std::is_same_v<X, bool>);
template <TileLike X>
inline constexpr bool is_integer_scalar<X> =
    rank_of<X> == 0 && !is_pointer_tile<X> && !is_float_operand<X> && !is_bool_operand<X>;
template <class D> using offset_t = Offset<D{}>;

// The value of an offset in an expression in which it is multiplied by a dimension, which view.tile reports.
struct OffsetValue : Tile<std::int64_t> {
  template <auto D>
  explicit OffsetValue(const Offset<D>& offset) : Tile<std::int64_t>(offset.kiln_snapshot()) {}
};

template <class D, class N> offset_t<D> to_offset(const N& node) {
  return offset_t<D>(emit_cast(node.record(), DType::I64));
}

template <class A, class B> auto add(const A& a, const B& b) {
  if constexpr (is_pointer_tile<A>)
    return pointer_plus(a, b);
  else if constexpr (is_pointer_tile<B>)
    return pointer_plus(b, a);
  else if constexpr (is_offset<A> && !is_offset<B> && is_integer_scalar<B>)
    return to_offset<typename A::dimension>(arithmetic<ir::Opcode::Add>(a, b));
  else if constexpr (is_offset<B> && !is_offset<A> && is_integer_scalar<A>)
    return to_offset<typename B::dimension>(arithmetic<ir::Opcode::Add>(a, b));
  else
    return arithmetic<ir::Opcode::Add>(a, b);
}
template <class A, class B> auto subtract(const A& a, const B& b) {
  if constexpr (is_pointer_tile<A> && (TileLike<B> || IsDimension<B>))
    return pointer_plus(a, unary_node<ir::Opcode::Neg>({}, as_value(b)));
  else if constexpr (is_pointer_tile<A> && is_integer_scalar<B>)
    return pointer_plus(a, -static_cast<std::int64_t>(b));
  else if constexpr (is_offset<A> && !is_offset<B> && is_integer_scalar<B>)
    return to_offset<typename A::dimension>(arithmetic<ir::Opcode::Sub>(a, b));
  else
    return arithmetic<ir::Opcode::Sub>(a, b);
}
// An integer scalar i times a dimension BM is the offset of tile i.
template <class A, class B> auto multiply(const A& a, const B& b) {
  if constexpr (IsDimension<B> && !is_offset<A> && is_integer_scalar<A>)
    return to_offset<B>(arithmetic<ir::Opcode::Mul>(a, b));
  else if constexpr (IsDimension<A> && !is_offset<B> && is_integer_scalar<B>)
    return to_offset<A>(arithmetic<ir::Opcode::Mul>(a, b));
  else if constexpr (is_offset<A> && IsDimension<B>)
    return make_node<ir::Opcode::Mul, std::int64_t, Shape<>>(DType::I64, {}, OffsetValue(a),
                                                             DimensionNode<B>{});
  else if constexpr (IsDimension<A> && is_offset<B>)
    return make_node<ir::Opcode::Mul, std::int64_t, Shape<>>(DType::I64, {}, OffsetValue(b),
                                                             DimensionNode<A>{});
  else
    return arithmetic<ir::Opcode::Mul>(a, b);
}
} // namespace detail

// Reports sizes that are plain numbers: offset(64, i), and offset(D, i) with a constexpr int D.
template <class D, class X>
  requires(detail::Number<D>)
Poison offset(const D&, const X&) {
  static_assert(detail::never<D>,
                "offset takes a dimension: a KILN_DIM, or a constant such as 64_c (constant<N> for a "
                "constexpr int N)");
  return {};
}
// Returns an integer scalar or number as the offset of a tile: offset(BM, i) begins at element i.
template <detail::IsDimension D, class X> Offset<D{}> offset(D, const X& x) {
  static_assert(detail::is_integer_scalar<X>, "offset needs an integer scalar");
  return detail::to_offset<D>(detail::as_operand<std::int64_t>(x));
}

// Reports an offset without an index.
template <detail::IsDimension D> Poison offset(D) {
  static_assert(detail::never<D>,
                "offset takes a dimension, and the index of the first element: offset(BM, 0)");
  return {};
}

template <class A, class B>
  requires detail::Operands<A, B>
auto operator+(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::adds_to_pointer<A, B>, "a pointer offset must be an integer: it counts elements");
  return detail::add(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator-(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::subtracts_from_pointer<A, B>,
                "a pointer offset must be an integer: it counts elements");
  return detail::subtract(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator*(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers support only + and - with integer offsets");
  return detail::multiply(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator/(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers support only + and - with integer offsets");
  return detail::arithmetic<ir::Opcode::Div>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator%(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers support only + and - with integer offsets");
  return detail::arithmetic<ir::Opcode::Rem>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator==(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  return detail::binary_node<ir::Opcode::Eq, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator!=(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  return detail::binary_node<ir::Opcode::Ne, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator<(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  static_assert(!detail::chained<A, B>,
                "a comparison gives a tile of bool: for a range write (low < x) & (x < high)");
  return detail::binary_node<ir::Opcode::Lt, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator<=(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  static_assert(!detail::chained<A, B>,
                "a comparison gives a tile of bool: for a range write (low < x) & (x < high)");
  return detail::binary_node<ir::Opcode::Le, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator>(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  static_assert(!detail::chained<A, B>,
                "a comparison gives a tile of bool: for a range write (low < x) & (x < high)");
  return detail::binary_node<ir::Opcode::Gt, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator>=(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(detail::no_pointers<A, B>, "pointers cannot be compared: compare the offsets");
  static_assert(!detail::chained<A, B>,
                "a comparison gives a tile of bool: for a range write (low < x) & (x < high)");
  return detail::binary_node<ir::Opcode::Ge, bool>({}, a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator&(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(
      detail::all_bits<A, B>,
      "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
  return detail::bitwise<ir::Opcode::And>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator|(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(
      detail::all_bits<A, B>,
      "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
  return detail::bitwise<ir::Opcode::Or>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator^(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(
      detail::all_bits<A, B>,
      "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
  return detail::bitwise<ir::Opcode::Xor>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator<<(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(
      detail::all_bits<A, B>,
      "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
  return detail::bitwise<ir::Opcode::Shl>(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator>>(const A& a, const B& b) {
  static_assert(detail::joined<A, B>,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  static_assert(
      detail::all_bits<A, B>,
      "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
  return detail::bitwise<ir::Opcode::Shr>(a, b);
}

template <class A>
  requires detail::Operands<A>
auto operator-(const A& a) {
  static_assert(detail::IsPoison<A> || (detail::no_pointers<A> && !detail::is_bool_operand<A>),
                "unary minus needs a tile of numbers: use ! or ~ for bool");
  return detail::unary_node<ir::Opcode::Neg>({}, a);
}
template <class A>
  requires detail::Operands<A>
auto operator~(const A& a) {
  static_assert(detail::all_bits<A>, "~ needs a tile of integers or bool");
  return detail::unary_node<ir::Opcode::Not>({}, a);
}
template <class A>
  requires detail::Operands<A>
auto operator!(const A& a) {
  static_assert(detail::all_bool<A>, "! needs a tile of bool: compare with == 0");
  return detail::unary_node<ir::Opcode::Not>({}, a);
}

// Reports an access through a pointer.
template <class A>
  requires detail::TileLike<A>
Poison operator*(const A&) {
  static_assert(detail::never<A>,
                "* does not access memory in a kernel: write raw::load(p) or raw::store(p, value)");
  return {};
}

template <class A, class B>
  requires detail::Operands<A, B>
Poison operator&&(const A&, const B&) {
  static_assert(detail::never<A>, "&& does not work on tiles, because both sides are always computed: use &");
  return {};
}
template <class A, class B>
  requires detail::Operands<A, B>
Poison operator||(const A&, const B&) {
  static_assert(detail::never<A>, "|| does not work on tiles, because both sides are always computed: use |");
  return {};
}

// Compound assignments of tiles and Vars: x += y means x = x + y.
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator+=(A& a, const B& b) {
  return a = a + b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator-=(A& a, const B& b) {
  return a = a - b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator*=(A& a, const B& b) {
  return a = a * b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator/=(A& a, const B& b) {
  return a = a / b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator%=(A& a, const B& b) {
  return a = a % b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator&=(A& a, const B& b) {
  return a = a & b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator|=(A& a, const B& b) {
  return a = a | b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator^=(A& a, const B& b) {
  return a = a ^ b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator<<=(A& a, const B& b) {
  return a = a << b;
}
template <class A, class B>
  requires detail::TileLike<A> && detail::Operands<A, B>
A& operator>>=(A& a, const B& b) {
  return a = a >> b;
}

} // namespace kiln
KILN_API_END
