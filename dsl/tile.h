// Defines Tile, a block of values in a kernel, and the expression nodes that operators on tiles return.
//
//   Tile<float, BM, BN> x = ...;     // a block of values of the kernel that is being recorded
//   Scalar<float> s = sum(x);        // a tile without axes
//   auto y = (x - 1) * x;            // an expression: holds values, safe to keep, recorded when used
//   Tile z = y + bias;               // records the expression here
//
// Operands broadcast from the last axis: an axis of extent 1 is repeated, and missing leading axes are added.
// Dimensions are compared by name, never by size. A number takes the dtype of the tile that it is combined
// with; SEMANTICS.md has the rules of promotion.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/method_mistakes.h>
#include <kiln/dsl/detail/traits.h>

KILN_API_BEGIN
namespace kiln {

template <class T, auto... D> class Tile;
template <class T> using Scalar = Tile<T>;

namespace detail {

template <class T, class S> struct TileOf;
template <class T, class... D> struct TileOf<T, Shape<D...>> {
  using type = Tile<T, D{}...>;
};
// The Tile with element type T and the dimensions of the Shape S.
template <class T, class S> using tile_t = typename TileOf<T, S>::type;

// Reports the use of a tile as a native condition. The operators of tiles name this class in their exception
// specifications, and not in their bodies, so that the error comes before those about the operands of `?:`.
template <class X, class B> struct NoTruthValue {
  static_assert(never<X, B>, "a tile has no truth value while recording: use where(), if_else() or if_then() "
                             "(and for std::max and std::min kiln::max and kiln::min)");
  static constexpr bool value = true;
};

// --- Expression nodes --------------------------------------------------------------------------------------

// A number of the host, with the dtype T that it takes in its expression.
template <class T, class N> struct NumberNode {
  using kiln_element = T;
  using kiln_shape = Shape<>;
  static constexpr int nodes = 1;
  N value;

  Handle record(Location = {}) const {
    if constexpr (is_float_number<N>)
      return emit_float(dtype_of<T>, static_cast<double>(value));
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
  // Report the use as a number of the host, for example by std::exp, in `float f = s + 1`, or by a cast.
  operator double() const {
    static_assert(
        never<T>,
        "a tile is not a number while recording: for std::exp and similar functions write kiln::exp; convert "
        "it with cast<float>(x), keep it with auto or Scalar, print it with device_print, and give both "
        "sides of ?: one type, as in Tile(a)");
    return 0;
  }
  template <class I> Poison operator[](const I&) const {
    static_assert(never<I>, "a tile is not indexed with []: select single elements when they are loaded, "
                            "view.at(i, j).load(), or reduce the tile, as in sum(x, BN)");
    return {};
  }
  // Reports the use as a native condition.
  template <class V>
    requires std::is_same_v<V, bool>
  explicit operator V() const noexcept(NoTruthValue<Node, V>::value) {
    return false;
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
  // Report the use as a number of the host, for example by std::exp, in `float f = s + 1`, or by a cast.
  operator double() const {
    static_assert(
        never<T>,
        "a tile is not a number while recording: for std::exp and similar functions write kiln::exp; convert "
        "it with cast<float>(x), keep it with auto or Scalar, print it with device_print, and give both "
        "sides of ?: one type, as in Tile(a)");
    return 0;
  }
  template <class I> Poison operator[](const I&) const {
    static_assert(never<I>, "a tile is not indexed with []: select single elements when they are loaded, "
                            "view.at(i, j).load(), or reduce the tile, as in sum(x, BN)");
    return {};
  }
  // Reports the use as a native condition.
  template <class V>
    requires std::is_same_v<V, bool>
  explicit operator V() const noexcept(NoTruthValue<Node, V>::value) {
    return false;
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
  // Report the use as a number of the host, for example by std::exp, in `float f = s + 1`, or by a cast.
  operator double() const {
    static_assert(
        never<T>,
        "a tile is not a number while recording: for std::exp and similar functions write kiln::exp; convert "
        "it with cast<float>(x), keep it with auto or Scalar, print it with device_print, and give both "
        "sides of ?: one type, as in Tile(a)");
    return 0;
  }
  template <class I> Poison operator[](const I&) const {
    static_assert(never<I>, "a tile is not indexed with []: select single elements when they are loaded, "
                            "view.at(i, j).load(), or reduce the tile, as in sum(x, BN)");
    return {};
  }
  // Reports the use as a native condition.
  template <class V>
    requires std::is_same_v<V, bool>
  explicit operator V() const noexcept(NoTruthValue<Node, V>::value) {
    return false;
  }
};

// An expression with more nodes than this is recorded at once, because the types of unbounded chains grow
// exponentially: twelve lines of `auto t1 = t0 * t0 + t0` took g++ 10 s and 700 MB.
inline constexpr int max_nodes = 16;

template <ir::Opcode Code, class T, class S, class... A>
auto make_node(DType compute, Location loc, const A&... a) {
  using Made = Node<Code, T, S, A...>;
  if constexpr (Made::nodes > max_nodes)
    return tile_t<T, S>(Made{compute, loc, a...}.record());
  else
    return Made{compute, loc, a...};
}

// Returns the operand that an expression keeps for x: a copy of the current value of an Offset or a Var,
// which are more than a value, and x itself otherwise.
template <class X> auto as_tile(const X& x) {
  if constexpr (requires { x.kiln_snapshot(); })
    return x.kiln_snapshot();
  else
    return x;
}

// Returns the node of an operand that is combined with a tile of element type T.
template <class T, class X> auto as_operand(const X& x) {
  if constexpr (TileLike<X>)
    return as_tile(x);
  else if constexpr (IsDimension<X>)
    return DimensionNode<X>{};
  else
    return NumberNode<typename ElementOf<number_dtype<X, T>>::type, X>{x};
}
// Returns the node of an operand on its own; a number has its own dtype.
template <class X> auto as_value(const X& x) {
  if constexpr (TileLike<X>)
    return as_tile(x);
  else if constexpr (IsDimension<X>)
    return DimensionNode<X>{};
  else
    return NumberNode<typename ElementOf<own_dtype<X>>::type, X>{x};
}

// The element type that determines the dtype of numbers: that of the other operands, promoted. It is void if
// all operands are numbers.
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

// --- Tile --------------------------------------------------------------------------------------------------

// A block of values of dtype T with one dimension for each axis, outermost first. D are KILN_DIM dimensions,
// constants such as 16_c, or integers. `Tile t = expression;` records the expression and deduces the type;
// with explicit arguments, the expression must have exactly this dtype and these dimensions.
//
// A tile belongs to the recording of one kernel and to the loop or branch that computed it. Using it
// elsewhere throws UserError.
template <class T, auto... D> class Tile : public detail::TileMethods {
public:
  using kiln_element = T;
  using kiln_shape = detail::Shape<detail::dimension_of<D>...>;
  static constexpr int nodes = 1;
  static constexpr int rank = sizeof...(D);

  // Records an expression of the same dtype and dimensions.
  template <detail::TileLike E>
    requires(!std::is_same_v<E, Tile>)
  Tile(const E& e, detail::Location loc = detail::Location::current()) : scope_(detail::current_scope()) {
    constexpr bool pointer = std::is_pointer_v<T> && !std::is_pointer_v<detail::element_t<E>>;
    static_assert(!pointer,
                  "an address becomes a pointer with raw::pointer<float>(address), where the address "
                  "is a 64-bit integer of the kernel");
    static_assert(
        pointer || std::is_same_v<detail::element_t<E>, T>,
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
  template <detail::Number N>
    requires(rank == 0 && std::is_pointer_v<T>)
  Tile(N) : scope_(0) {
    static_assert(detail::never<N>,
                  "a pointer is not made of a number of the host: pass it to the kernel as a "
                  "parameter of type raw::Ptr<T>, and add offsets to it, which count "
                  "elements");
  }
  template <detail::Number N>
    requires(rank > 0)
  Tile(N) : scope_(0) {
    static_assert(detail::never<N>,
                  "a number is not a tile: write zeros<float>(BM, BN), or full(2.5f, BM, BN)");
  }
  // This is a template, so that the error appears only where the constructor is used.
  template <class V = void> Tile() : scope_(0) {
    static_assert(detail::never<V>, "a tile needs an initial value, such as zeros<float>(BM, BN); use Var "
                                    "for a value that is assigned later");
  }
  Tile(const Poison&) : scope_(0) {}
  explicit Tile(const detail::Handle& h) : handle_(h), scope_(detail::current_scope()) {}
  Tile(const Tile& other) : handle_(other.handle_), scope_(detail::current_scope()) {}

  // Makes this C++ variable refer to another value from here on. This happens while the kernel is recorded,
  // for example in a native loop that unrolls. Throws UserError if the tile was declared outside of the
  // current for_range, while_loop or branch: use a Var there.
  Tile& operator=(const Tile& other) {
    if (scope_ != detail::current_scope()) detail::assigned_in_region();
    handle_ = other.handle_;
    return *this;
  }

  detail::Handle record(detail::Location = {}) const { return handle_; }

  // Reports the use as a number of the host, for example by std::exp. (It converts to double only, because
  // std::exp has overloads for other types, and because `known ? s : 0.0f` must convert the number to a
  // scalar.)
  template <class B>
    requires std::is_same_v<B, double>
  operator B() const {
    static_assert(
        detail::never<B>,
        "a tile is not a number while recording: for std::exp and similar functions write kiln::exp; convert "
        "it with cast<float>(x), keep it with auto or Scalar, and print it with device_print");
    return 0;
  }
  // Reports a cast of the host, as in (float)t and static_cast<int>(s).
  template <class B>
    requires(detail::Number<B> && !std::is_same_v<B, double> && !std::is_same_v<B, bool>)
  explicit operator B() const {
    static_assert(detail::never<B>, "a cast of C++ does not convert a tile: write cast<float>(x), with the "
                                    "dtype in angle brackets");
    return {};
  }
  // Reports a cast of C++ to a pointer, as in (float*)address.
  template <class B>
    requires(!std::is_pointer_v<T> && rank == 0 && std::is_pointer_v<B> &&
             std::is_object_v<std::remove_pointer_t<B>>)
  explicit operator B() const {
    static_assert(detail::never<B>,
                  "an address becomes a pointer with raw::pointer<float>(address), where the address "
                  "is a 64-bit integer of the kernel");
    return nullptr;
  }
  // Reports the use of a pointer of the kernel as a pointer of the host.
  template <class B>
    requires(std::is_pointer_v<T> && std::is_pointer_v<B> && std::is_object_v<std::remove_pointer_t<B>>)
  operator B() const {
    static_assert(detail::never<B>, "a pointer of the kernel is not a pointer of the host: keep it with auto "
                                    "or raw::Ptr, and access memory with raw::load and raw::store");
    return nullptr;
  }
  template <class I> Poison operator[](const I&) const {
    static_assert(detail::never<I> || std::is_pointer_v<T>,
                  "a tile is not indexed with []: select single elements when they are loaded, "
                  "view.at(i, j).load(), or reduce the tile, as in sum(x, BN)");
    static_assert(detail::never<I> || !std::is_pointer_v<T>,
                  "a pointer is not indexed with []: write raw::load(p + i) or raw::store(p + i, value)");
    return {};
  }
  // Reports the use as a native condition.
  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const noexcept(detail::NoTruthValue<Tile, B>::value) {
    return false;
  }

private:
  detail::Handle handle_;
  std::uint32_t scope_;
};

template <> class Tile<Poison> : public Poison {
public:
  template <class X> Tile(const X&) {
    static_assert(!detail::IsView<X>,
                  "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  }
};
template <detail::IsView V> Tile(const V&) -> Tile<Poison>;

template <ir::Opcode C, class T, class... D, class... A>
Tile(detail::Node<C, T, detail::Shape<D...>, A...>) -> Tile<T, D{}...>;
template <class T, auto... D> Tile(const Tile<T, D...>&) -> Tile<T, D...>;
template <detail::Number N> Tile(N) -> Tile<typename detail::ElementOf<detail::own_dtype<N>>::type>;
Tile(Poison) -> Tile<Poison>;

} // namespace kiln
KILN_API_END
