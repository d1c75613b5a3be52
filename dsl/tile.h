// Tiles, the expressions that compute them, and their operators.
//
//   Tile<float, BM, BN> x = ...;     // a block of values of the kernel being recorded; Scalar<T> has no axes
//   auto y = (x - 1) * x;            // an expression: holds values, safe to keep, recorded when it is used
//   Tile z = y + bias;               // recorded here
//
// Operands broadcast from the last axis: an axis of extent 1 stretches, missing leading axes are added.
// Dimensions are compared by name, never by size. Numbers take the tile's dtype; see SEMANTICS.md for
// promotion.
#pragma once

#include <kiln/dsl/detail/traits.h>

namespace kiln {

template <class T, auto... D> class Tile;
template <class T> using Scalar = Tile<T>;

namespace detail {

template <class T, class S> struct TileOf;
template <class T, class... D> struct TileOf<T, Shape<D...>> {
  using type = Tile<T, D{}...>;
};
// The tile type of an element type and a Shape.
template <class T, class S> using tile_t = typename TileOf<T, S>::type;

// --- Expression nodes --------------------------------------------------------------------------------------

// A host number with the dtype it takes beside its neighbour.
template <class T, class N> struct NumberNode {
  using kiln_element = T;
  using kiln_shape = Shape<>;
  static constexpr int nodes = 1;
  N value;

  Handle record(Location = {}) const {
    if constexpr (std::is_floating_point_v<N>)
      return emit_float(dtype_of<T>, value);
    else if constexpr (std::is_unsigned_v<N>)
      return emit_unsigned(dtype_of<T>, value);
    else
      return emit_integer(dtype_of<T>, value);
  }
};

// The size of a dimension as a scalar.
template <class D> struct DimensionNode {
  using kiln_element = std::int64_t;
  using kiln_shape = Shape<>;
  static constexpr int nodes = 1;

  Handle record(Location = {}) const {
    return emit(ir::Opcode::DimSize, {}, type_info<std::int64_t, Shape<>>,
                {{"dim", 0, nullptr, nullptr, &D::info}});
  }
};

// An elementwise operation with up to three operands.
template <ir::Opcode Code, class T, class S, class A, class... BC> struct Node;
template <ir::Opcode Code, class T, class S, class A> struct Node<Code, T, S, A> {
  using kiln_element = T;
  using kiln_shape = S;
  static constexpr int nodes = 1 + A::nodes;
  DType compute;
  Location loc;
  A a;

  Handle record(Location outer = {}) const {
    Location at = loc.line() ? loc : outer;
    Handle x = a.record(at);
    return emit_elementwise(Code, {x}, compute, type_info<T, S>, at);
  }
};
template <ir::Opcode Code, class T, class S, class A, class B> struct Node<Code, T, S, A, B> {
  using kiln_element = T;
  using kiln_shape = S;
  static constexpr int nodes = 1 + A::nodes + B::nodes;
  DType compute;
  Location loc;
  A a;
  B b;

  Handle record(Location outer = {}) const {
    Location at = loc.line() ? loc : outer;
    Handle x = a.record(at), y = b.record(at);
    return emit_elementwise(Code, {x, y}, compute, type_info<T, S>, at);
  }
};
template <ir::Opcode Code, class T, class S, class A, class B, class C> struct Node<Code, T, S, A, B, C> {
  using kiln_element = T;
  using kiln_shape = S;
  static constexpr int nodes = 1 + A::nodes + B::nodes + C::nodes;
  DType compute;
  Location loc;
  A a;
  B b;
  C c;

  Handle record(Location outer = {}) const {
    Location at = loc.line() ? loc : outer;
    Handle x = a.record(at), y = b.record(at), z = c.record(at);
    return emit_elementwise(Code, {x, y, z}, compute, type_info<T, S>, at);
  }
};

// Types of unbounded chains grow exponentially: an expression beyond this many nodes is recorded at once.
inline constexpr int max_nodes = 16;

template <ir::Opcode Code, class T, class S, class... A>
auto make_node(DType compute, Location loc, const A&... a) {
  using Made = Node<Code, T, S, A...>;
  if constexpr (Made::nodes > max_nodes)
    return tile_t<T, S>(Made{compute, loc, a...}.record());
  else
    return Made{compute, loc, a...};
}

// Tiles that are more than tiles (offsets, variables) enter expressions as what they are now.
template <class X> auto as_tile(const X& x) {
  if constexpr (requires { x.kiln_snapshot(); })
    return x.kiln_snapshot();
  else
    return x;
}

// An operand beside a tile of element T.
template <class T, class X> auto as_operand(const X& x) {
  if constexpr (TileLike<X>)
    return as_tile(x);
  else if constexpr (IsDimension<X>)
    return DimensionNode<X>{};
  else
    return NumberNode<typename ElementOf<number_dtype<X, T>>::type, X>{x};
}
// An operand on its own.
template <class X> auto as_value(const X& x) {
  if constexpr (TileLike<X>)
    return as_tile(x);
  else if constexpr (IsDimension<X>)
    return DimensionNode<X>{};
  else
    return NumberNode<typename ElementOf<own_dtype<X>>::type, X>{x};
}

// The element that decides which dtype numbers take: the promoted one of those operands that are no numbers.
template <class... X> struct Leading;
template <> struct Leading<> {
  using type = void;
};
template <class X, class... R> struct Leading<X, R...> {
  using rest = typename Leading<R...>::type;
  static auto pick() {
    if constexpr (Number<X>)
      return static_cast<rest*>(nullptr);
    else if constexpr (IsDimension<X>) {
      if constexpr (std::is_void_v<rest>)
        return static_cast<std::int64_t*>(nullptr);
      else
        return static_cast<promote_t<std::int64_t, rest>*>(nullptr);
    } else if constexpr (std::is_void_v<rest>)
      return static_cast<element_t<X>*>(nullptr);
    else
      return static_cast<promote_t<element_t<X>, rest>*>(nullptr);
  }
  using type = std::remove_pointer_t<decltype(pick())>;
};
template <class... X> using leading_t = typename Leading<X...>::type;

template <class X> inline constexpr bool is_pointer_tile = false;
template <TileLike X> inline constexpr bool is_pointer_tile<X> = std::is_pointer_v<element_t<X>>;

template <class X> using tile_of_t = tile_t<element_t<X>, shape_t<X>>;

} // namespace detail

// --- Poison ------------------------------------------------------------------------------------------------

struct Poison {
  template <class... X> Poison load(X&&...) const { return {}; }
  template <class... X> Poison load_or(X&&...) const { return {}; }
  template <class... X> void store(X&&...) const {}
  template <class... X> Poison gather(X&&...) const { return {}; }
  template <class... X> void scatter(X&&...) const {}
  template <class... X> Poison tile(X&&...) const { return {}; }
  template <class... X> Poison at(X&&...) const { return {}; }
  template <class... X> Poison ptrs(X&&...) const { return {}; }
  template <class... X> Poison mask(X&&...) const { return {}; }
  template <class... X> Poison atomic_add(X&&...) const { return {}; }
  template <class... X> Poison atomic_min(X&&...) const { return {}; }
  template <class... X> Poison atomic_max(X&&...) const { return {}; }
  template <class... X> Poison atomic_and(X&&...) const { return {}; }
  template <class... X> Poison atomic_or(X&&...) const { return {}; }
  template <class... X> Poison atomic_xor(X&&...) const { return {}; }
  template <class... X> Poison atomic_exchange(X&&...) const { return {}; }
  template <class... X> Poison atomic_compare_exchange(X&&...) const { return {}; }
  explicit operator bool() const { return false; }
};

// --- Tile --------------------------------------------------------------------------------------------------

template <class T, auto... D> class Tile {
public:
  using kiln_element = T;
  using kiln_shape = detail::Shape<detail::dimension_of<D>...>;
  static constexpr int nodes = 1;
  static constexpr int rank = sizeof...(D);

  // Records an expression of the same dtype and dimensions.
  template <detail::TileLike E>
    requires(!std::is_same_v<E, Tile>)
  Tile(const E& e, detail::Location loc = detail::Location::current()) : scope_(detail::current_scope()) {
    static_assert(
        std::is_same_v<detail::element_t<E>, T>,
        "the expression's dtype is not the tile's: write cast<T>(expression), or Tile without arguments");
    static_assert(
        std::is_same_v<detail::shape_t<E>, kiln_shape>,
        "the expression's dimensions are not the tile's: broadcast or reshape it, or write Tile without "
        "arguments");
    detail::set_location(loc);
    handle_ = e.record(loc);
  }
  template <detail::Number N>
    requires(rank == 0 && !std::is_pointer_v<T>)
  Tile(N number, detail::Location loc = detail::Location::current()) : scope_(detail::current_scope()) {
    detail::set_location(loc);
    handle_ = detail::NumberNode<T, N>{number}.record();
  }
  Tile(const Poison&) : scope_(0) {}
  explicit Tile(const detail::Handle& h) : handle_(h), scope_(detail::current_scope()) {}
  Tile(const Tile& other) : handle_(other.handle_), scope_(detail::current_scope()) {}

  // Assignment acts while recording, as in a native loop that unrolls. Inside for_range and its like use Var.
  Tile& operator=(const Tile& other) {
    if (scope_ != detail::current_scope()) detail::assigned_in_region();
    handle_ = other.handle_;
    return *this;
  }

  detail::Handle record(detail::Location = {}) const { return handle_; }

  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const {
    static_assert(detail::never<B>,
                  "a tile has no truth value while recording: use where(), if_else() or if_then()");
    return false;
  }

private:
  detail::Handle handle_;
  std::uint32_t scope_;
};

template <> class Tile<Poison> : public Poison {
public:
  template <class X> Tile(const X&) {}
};

template <ir::Opcode C, class T, class... D, class... A>
Tile(detail::Node<C, T, detail::Shape<D...>, A...>) -> Tile<T, D{}...>;
template <class T, auto... D> Tile(const Tile<T, D...>&) -> Tile<T, D...>;
template <detail::Number N> Tile(N) -> Tile<typename detail::ElementOf<detail::own_dtype<N>>::type>;
Tile(Poison) -> Tile<Poison>;

namespace detail {

// --- How operators are built -------------------------------------------------------------------------------

// Promotes, checks the dimensions, and builds the node. `Result` void: the promoted dtype.
template <ir::Opcode Code, class Result, class A, class B>
auto binary_node(Location loc, const A& a, const B& b) {
  using E = leading_t<A, B>;
  auto x = as_operand<E>(a);
  auto y = as_operand<E>(b);
  using X = decltype(x);
  using Y = decltype(y);
  constexpr bool ok = joins<shape_t<X>, shape_t<Y>>;
  static_assert(ok,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  if constexpr (ok) {
    using P = promote_t<element_t<X>, element_t<Y>>;
    using R = std::conditional_t<std::is_void_v<Result>, P, Result>;
    return make_node<Code, R, join_t<shape_t<X>, shape_t<Y>>>(dtype_of<P>, loc, x, y);
  } else {
    return Poison{};
  }
}

template <class X> constexpr DType operand_dtype() {
  if constexpr (TileLike<X>)
    return ElementInfo<element_t<X>>::dtype;
  else if constexpr (IsDimension<X>)
    return DType::I64;
  else
    return own_dtype<X>;
}
template <class X> inline constexpr bool is_float_operand = is_float(operand_dtype<X>());
template <class X> inline constexpr bool is_bool_operand = operand_dtype<X>() == DType::Bool;

// On two bools: they count as numbers.
template <ir::Opcode Code, class T, class A, class B> auto binary_as(const A& a, const B& b) {
  using X = decltype(as_operand<T>(a));
  using Y = decltype(as_operand<T>(b));
  constexpr bool ok = joins<shape_t<X>, shape_t<Y>>;
  static_assert(ok,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  if constexpr (ok)
    return make_node<Code, T, join_t<shape_t<X>, shape_t<Y>>>(dtype_of<T>, {}, as_operand<T>(a),
                                                              as_operand<T>(b));
  else
    return Poison{};
}

template <ir::Opcode Code, class A, class B> auto arithmetic(const A& a, const B& b) {
  if constexpr (IsPoison<A> || IsPoison<B>) {
    return Poison{};
  } else if constexpr (is_pointer_tile<A> || is_pointer_tile<B>) {
    static_assert(never<A>, "pointers only add and subtract integer offsets");
    return Poison{};
  } else if constexpr (is_bool_operand<A> && is_bool_operand<B>) {
    return binary_as<Code, std::int32_t>(a, b);
  } else {
    return binary_node<Code, void>({}, a, b);
  }
}
template <ir::Opcode Code, class A, class B> auto comparison(const A& a, const B& b) {
  if constexpr (IsPoison<A> || IsPoison<B>)
    return Poison{};
  else if constexpr (is_pointer_tile<A> || is_pointer_tile<B>) {
    static_assert(never<A>, "pointers do not compare: compare the offsets");
    return Poison{};
  } else
    return binary_node<Code, bool>({}, a, b);
}

template <ir::Opcode Code, class A, class B> auto bitwise(const A& a, const B& b) {
  if constexpr (IsPoison<A> || IsPoison<B>)
    return Poison{};
  else {
    constexpr bool ok =
        !is_float_operand<A> && !is_float_operand<B> && !is_pointer_tile<A> && !is_pointer_tile<B>;
    static_assert(
        ok, "bitwise operators and shifts need integers or bool: use bitcast to reach the bits of a float");
    if constexpr (ok)
      return binary_node<Code, void>({}, a, b);
    else
      return Poison{};
  }
}

// Pointer tile plus element offsets.
template <class P, class O> auto pointer_plus(const P& p, const O& o) {
  auto x = as_tile(p);
  auto y = as_operand<std::int64_t>(o);
  constexpr bool integer = !is_float_operand<O>;
  static_assert(integer, "a pointer offset must be an integer: it counts elements");
  constexpr bool ok = joins<shape_t<P>, shape_t<decltype(y)>>;
  static_assert(ok,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  if constexpr (ok && integer)
    return make_node<ir::Opcode::PtrAdd, element_t<P>, join_t<shape_t<P>, shape_t<decltype(y)>>>(DType::I64,
                                                                                                 {}, x, y);
  else
    return Poison{};
}

template <ir::Opcode Code, class A> auto unary_node(Location loc, const A& a) {
  auto x = as_tile(a);
  return make_node<Code, element_t<A>, shape_t<A>>(dtype_of<element_t<A>>, loc, x);
}

template <class A> auto negate(const A& a) {
  if constexpr (IsPoison<A>)
    return Poison{};
  else if constexpr (is_bool_operand<A> || is_pointer_tile<A>) {
    static_assert(never<A>, "minus needs a tile of numbers: use ! or ~ for bool");
    return Poison{};
  } else
    return unary_node<ir::Opcode::Neg>({}, a);
}

template <class A> auto complement(const A& a) {
  if constexpr (IsPoison<A>)
    return Poison{};
  else if constexpr (is_float_operand<A> || is_pointer_tile<A>) {
    static_assert(never<A>, "~ needs a tile of integers or bool");
    return Poison{};
  } else
    return unary_node<ir::Opcode::Not>({}, a);
}

template <class A> auto logical_not(const A& a) {
  if constexpr (IsPoison<A>)
    return Poison{};
  else if constexpr (!is_bool_operand<A>) {
    static_assert(never<A>, "! needs a tile of bool: compare with == 0");
    return Poison{};
  } else
    return unary_node<ir::Opcode::Not>({}, a);
}

} // namespace detail

// An i64 scalar, in elements, that knows which dimension a tile at it has; program_tile and for_range hand
// them out. Adding an integer scalar moves it: v.tile(m + 1, n - 1).
template <auto D> class Offset : public Tile<std::int64_t> {
public:
  using dimension = detail::dimension_of<D>;
  using Tile<std::int64_t>::Tile;
  Tile<std::int64_t> kiln_snapshot() const { return *this; }
};

namespace detail {
template <class X> inline constexpr bool is_offset = requires { typename X::dimension; };
template <class X>
inline constexpr bool is_integer_scalar = (std::is_integral_v<X> && !std::is_same_v<X, bool>);
template <TileLike X>
inline constexpr bool is_integer_scalar<X> =
    rank_of<X> == 0 && !is_pointer_tile<X> && !is_float_operand<X> && !is_bool_operand<X>;
template <class D> using offset_t = Offset<D{}>;

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
  if constexpr (is_pointer_tile<A> && TileLike<B>)
    return pointer_plus(a, negate(b));
  else if constexpr (is_pointer_tile<A> && Number<B>)
    return pointer_plus(a, -static_cast<std::int64_t>(b));
  else if constexpr (is_offset<A> && !is_offset<B> && is_integer_scalar<B>)
    return to_offset<typename A::dimension>(arithmetic<ir::Opcode::Sub>(a, b));
  else
    return arithmetic<ir::Opcode::Sub>(a, b);
}
// scalar * BM is the offset of the scalar-th tile.
template <class A, class B> auto multiply(const A& a, const B& b) {
  if constexpr (IsDimension<B> && !is_offset<A> && is_integer_scalar<A>)
    return to_offset<B>(arithmetic<ir::Opcode::Mul>(a, b));
  else if constexpr (IsDimension<A> && !is_offset<B> && is_integer_scalar<B>)
    return to_offset<A>(arithmetic<ir::Opcode::Mul>(a, b));
  else
    return arithmetic<ir::Opcode::Mul>(a, b);
}
} // namespace detail

// Any integer scalar as the offset of a tile: offset(BM, i).
template <detail::IsDimension D, class X> Offset<D{}> offset(D, const X& x) {
  static_assert(detail::is_integer_scalar<X>, "offset needs an integer scalar");
  return detail::to_offset<D>(detail::as_operand<std::int64_t>(x));
}

template <class A, class B>
  requires detail::Operands<A, B>
auto operator+(const A& a, const B& b) {
  return detail::add(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator-(const A& a, const B& b) {
  return detail::subtract(a, b);
}
template <class A, class B>
  requires detail::Operands<A, B>
auto operator*(const A& a, const B& b) {
  return detail::multiply(a, b);
}

#define KILN_BINARY_OPERATOR(SYMBOL, KIND, CODE)                                                             \
  template <class A, class B>                                                                                \
    requires detail::Operands<A, B>                                                                          \
  auto operator SYMBOL(const A& a, const B& b) {                                                             \
    return detail::KIND<ir::Opcode::CODE>(a, b);                                                             \
  }
KILN_BINARY_OPERATOR(/, arithmetic, Div)
KILN_BINARY_OPERATOR(%, arithmetic, Rem)
KILN_BINARY_OPERATOR(==, comparison, Eq)
KILN_BINARY_OPERATOR(!=, comparison, Ne)
KILN_BINARY_OPERATOR(<, comparison, Lt)
KILN_BINARY_OPERATOR(<=, comparison, Le)
KILN_BINARY_OPERATOR(>, comparison, Gt)
KILN_BINARY_OPERATOR(>=, comparison, Ge)
KILN_BINARY_OPERATOR(&, bitwise, And)
KILN_BINARY_OPERATOR(|, bitwise, Or)
KILN_BINARY_OPERATOR(^, bitwise, Xor)
KILN_BINARY_OPERATOR(<<, bitwise, Shl)
KILN_BINARY_OPERATOR(>>, bitwise, Shr)
#undef KILN_BINARY_OPERATOR

template <class A>
  requires detail::Operands<A>
auto operator-(const A& a) {
  return detail::negate(a);
}
template <class A>
  requires detail::Operands<A>
auto operator~(const A& a) {
  return detail::complement(a);
}
template <class A>
  requires detail::Operands<A>
auto operator!(const A& a) {
  return detail::logical_not(a);
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

// Compound assignment of tiles and variables.
#define KILN_COMPOUND(SYMBOL)                                                                                \
  template <class A, class B>                                                                                \
    requires detail::TileLike<A> && detail::Operands<A, B>                                                   \
  A& operator SYMBOL##=(A & a, const B & b) {                                                                \
    return a = a SYMBOL b;                                                                                   \
  }
KILN_COMPOUND(+)
KILN_COMPOUND(-)
KILN_COMPOUND(*)
KILN_COMPOUND(/)
KILN_COMPOUND(%)
KILN_COMPOUND(&)
KILN_COMPOUND(|)
KILN_COMPOUND(^)
KILN_COMPOUND(<<)
KILN_COMPOUND(>>)
#undef KILN_COMPOUND

} // namespace kiln
