// Defines the nodes of whole-tensor expressions: views, numbers and operations. Internal; see expression.h.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/functions.h>
#include <kiln/jit/runtime/tensor.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {

// While an expression is recorded, every tensor is a tile with this single dimension. assign_kernel.cpp
// replaces it by the real shape when the rank is known.
KILN_DIM(assign_block);
inline constexpr int max_assign_operations = 128;
inline constexpr int max_assign_operands = 64;

// --- Operands ---------------------------------------------------------------------------------------------

// The properties of an operand that its type determines.
struct AssignLeaf {
  enum class Kind : std::uint8_t { View, Float, Signed, Unsigned };
  Kind kind;
  DType dtype;
  int rank;
};
// The properties of an operand in one call. `extents` and `strides` are those of the view in the expression.
struct AssignOperand {
  const void* data;
  const std::int64_t* extents;
  const std::int64_t* strides;
  double real;           // Float
  std::uint64_t integer; // Signed, Unsigned
};

template <class T, int Rank> struct ViewLeaf {
  using kiln_whole = ViewLeaf;
  using tile = Tile<T, assign_block>;
  static constexpr int rank = Rank, leaves = 1, operations = 0;
  TensorView<const T, Rank> view;

  void gather(AssignOperand*& next) const { *next++ = {view.data(), view.extents(), view.strides(), 0, 0}; }
  static constexpr void describe(AssignLeaf*& next) { *next++ = {AssignLeaf::Kind::View, dtype_of<T>, Rank}; }
  static tile record(const Handle*& next) { return tile(*next++); }
};

// A number of C++ type N that is converted to the element type T.
template <class T, class N> struct NumberLeaf {
  using kiln_whole = NumberLeaf;
  using tile = Tile<T>;
  static constexpr int rank = 0, leaves = 1, operations = 0;
  N value;

  void gather(AssignOperand*& next) const {
    if constexpr (is_float_number<N>)
      *next++ = {nullptr, nullptr, nullptr, static_cast<double>(value), 0};
    else
      *next++ = {nullptr, nullptr, nullptr, 0, static_cast<std::uint64_t>(value)};
  }
  static constexpr void describe(AssignLeaf*& next) {
    *next++ = {is_float_number<N>    ? AssignLeaf::Kind::Float
               : std::is_signed_v<N> ? AssignLeaf::Kind::Signed
                                     : AssignLeaf::Kind::Unsigned,
               dtype_of<T>, 0};
  }
  static tile record(const Handle*& next) { return tile(*next++); }
};

// --- Nodes ------------------------------------------------------------------------------------------------

// The tile that results from recording `expression`.
template <class E> auto tile_of(const E& expression) {
  using R = tile_of_t<E>;
  if constexpr (std::is_same_v<E, R>)
    return expression;
  else
    return R(expression, Location{});
}

template <class... A> struct Arguments {};
template <class A, class... R> struct Arguments<A, R...> {
  A first;
  Arguments<R...> rest;
};
inline void gather_all(AssignOperand*&, const Arguments<>&) {}
template <class A, class... R> void gather_all(AssignOperand*& next, const Arguments<A, R...>& arguments) {
  arguments.first.gather(next);
  gather_all(next, arguments.rest);
}
inline Arguments<> pack() { return {}; }
template <class A, class... R> Arguments<A, R...> pack(const A& first, const R&... rest) {
  return {first, pack(rest...)};
}

template <class R> struct Application {
  R result;
  template <class Op, class... X> Application(Op, const X&... x) : result(tile_of(Op::apply(x...))) {}
};

// Applies `Op` to the tiles of the operands A.
template <class Op, class... A> struct WholeNode {
  using kiln_whole = WholeNode;
  using tile = decltype(tile_of(Op::apply(std::declval<const typename A::tile&>()...)));
  static constexpr int rank = [] {
    int most = 0;
    ((most = A::rank > most ? A::rank : most), ...);
    return most;
  }();
  static constexpr int leaves = (0 + ... + A::leaves);
  static constexpr int operations = (1 + ... + A::operations);
  static_assert(
      operations <= max_assign_operations && leaves <= max_assign_operands,
      "the expression has more than 128 operations or 64 operands: assign a part of it to a tensor first");
  Arguments<A...> arguments;

  void gather(AssignOperand*& next) const { gather_all(next, arguments); }
  static constexpr void describe(AssignLeaf*& next) { (A::describe(next), ...); }
  // Braces guarantee that the operands are recorded from left to right.
  static tile record(const Handle*& next) { return Application<tile>{Op{}, A::record(next)...}.result; }

  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const {
    static_assert(never<B>, "a whole-tensor expression has no truth value: assign it to a bool tensor");
    return false;
  }
};

// --- Operands in user code --------------------------------------------------------------------------------

template <class X> struct TensorTraits {
  static constexpr bool ok = false;
};
template <class T, int Rank> struct TensorTraits<TensorView<T, Rank>> {
  static constexpr bool ok = true;
  using leaf = ViewLeaf<std::remove_const_t<T>, Rank>;
};
template <class T, int Rank> struct TensorTraits<Tensor<T, Rank>> {
  static constexpr bool ok = true;
  using leaf = ViewLeaf<T, Rank>;
};

template <class X>
concept IsTensor = TensorTraits<std::remove_cvref_t<X>>::ok;
template <class X>
concept Whole = IsTensor<X> || requires { typename std::remove_cvref_t<X>::kiln_whole; };
template <class X>
concept WholeOperand = Whole<X> || Number<X> || IsPoison<X>;
// At least one operand is a tensor or an expression. The others may be numbers.
template <class... X>
concept WholeOperands = (WholeOperand<X> && ...) && (Whole<X> || ...);

// Returns a number as it is, and the node of anything else.
template <class X> auto as_whole(const X& x) {
  if constexpr (IsTensor<X>)
    return typename TensorTraits<X>::leaf{x};
  else
    return x;
}
template <class X> struct WholeType {
  using type = typename decltype(as_whole(std::declval<const X&>()))::tile;
};
template <Number X> struct WholeType<X> {
  using type = X;
};
template <IsPoison X> struct WholeType<X> {
  using type = Poison;
};
// The type that represents an operand while the expression is recorded: its tile, or the type of the number.
template <class X> using whole_t = typename WholeType<std::remove_cvref_t<X>>::type;

// Returns a number as the leaf of the dtype that it takes next to an operand of element type T, and the node
// of anything else.
template <class T, class X> auto as_whole_of(const X& x) {
  if constexpr (Number<X>)
    return NumberLeaf<typename ElementOf<number_dtype<X, T>>::type, X>{x};
  else
    return as_whole(x);
}

template <class Op, class... A> WholeNode<Op, A...> make_whole(const A&... a) { return {pack(a...)}; }
// Makes a node. Numbers take the dtype of the other operands.
template <class Op, class... X> auto whole(const X&... x) {
  using T = leading_t<whole_t<X>...>;
  return make_whole<Op>(as_whole_of<T>(x)...);
}

// Makes a node as whole() does, unless `ok` is false or an operand is Poison; then it returns Poison.
template <bool ok, class Op, class... X> auto whole_if(const X&... x) {
  if constexpr (any_poison<X...> || !ok)
    return Poison{};
  else
    return whole<Op>(x...);
}

} // namespace detail
} // namespace kiln
KILN_API_END
