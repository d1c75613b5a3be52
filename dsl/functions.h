// Elementwise functions of tiles: mathematics, selection, conversion of dtypes.
//
// Each takes tiles, scalars and (beside a tile) host numbers, broadcasts as the operators do, and keeps its
// source location.
#pragma once

#include <kiln/dsl/tile.h>

namespace kiln {

// Tables, so that whole-tensor expressions offer the same names. Float functions take floats only.
#define KILN_FLOAT_FUNCTIONS(X)                                                                              \
  X(exp, Exp)                                                                                                \
  X(exp2, Exp2)                                                                                              \
  X(expm1, Expm1)                                                                                            \
  X(log, Log)                                                                                                \
  X(log2, Log2)                                                                                              \
  X(log1p, Log1p)                                                                                            \
  X(sin, Sin)                                                                                                \
  X(cos, Cos)                                                                                                \
  X(tan, Tan)                                                                                                \
  X(tanh, Tanh)                                                                                              \
  X(erf, Erf)                                                                                                \
  X(sigmoid, Sigmoid)                                                                                        \
  X(sqrt, Sqrt)                                                                                              \
  X(rsqrt, Rsqrt)                                                                                            \
  X(floor, Floor)                                                                                            \
  X(ceil, Ceil)                                                                                              \
  X(trunc, Trunc)                                                                                            \
  X(round, Round)
#define KILN_FLOAT_BINARY_FUNCTIONS(X)                                                                       \
  X(pow, Pow)                                                                                                \
  X(atan2, Atan2)

#define KILN_DEFINE(NAME, CODE)                                                                              \
  template <class A>                                                                                         \
    requires detail::Operands<A>                                                                             \
  auto NAME(const A& a, detail::Location loc = detail::Location::current()) {                                \
    if constexpr (detail::IsPoison<A>) {                                                                     \
      return Poison{};                                                                                       \
    } else {                                                                                                 \
      constexpr bool ok = detail::is_float_operand<A> && !detail::is_pointer_tile<A>;                        \
      static_assert(ok, #NAME " needs a tile of floats: write cast<float>(x) first");                        \
      if constexpr (ok)                                                                                      \
        return detail::unary_node<ir::Opcode::CODE>(loc, a);                                                 \
      else                                                                                                   \
        return Poison{};                                                                                     \
    }                                                                                                        \
  }
KILN_FLOAT_FUNCTIONS(KILN_DEFINE)
#undef KILN_DEFINE

#define KILN_DEFINE(NAME, CODE)                                                                              \
  template <class A, class B>                                                                                \
    requires detail::Operands<A, B>                                                                          \
  auto NAME(const A& a, const B& b, detail::Location loc = detail::Location::current()) {                    \
    if constexpr (detail::IsPoison<A> || detail::IsPoison<B>) {                                              \
      return Poison{};                                                                                       \
    } else {                                                                                                 \
      constexpr bool ok = detail::is_float_operand<A> || detail::is_float_operand<B>;                        \
      static_assert(ok, #NAME " needs a tile of floats: write cast<float>(x) first");                        \
      if constexpr (ok)                                                                                      \
        return detail::binary_node<ir::Opcode::CODE, void>(loc, a, b);                                       \
      else                                                                                                   \
        return Poison{};                                                                                     \
    }                                                                                                        \
  }
KILN_FLOAT_BINARY_FUNCTIONS(KILN_DEFINE)
#undef KILN_DEFINE

// Smaller and larger of both; a NaN loses. Beside a dimension they reduce: see reduce.h.
#define KILN_DEFINE(NAME, CODE)                                                                              \
  template <class A, class B>                                                                                \
    requires(detail::Operands<A, B> && !detail::IsDimension<A> && !detail::IsDimension<B>)                   \
  auto NAME(const A& a, const B& b, detail::Location loc = detail::Location::current()) {                    \
    if constexpr (detail::IsPoison<A> || detail::IsPoison<B>)                                                \
      return Poison{};                                                                                       \
    else                                                                                                     \
      return detail::binary_node<ir::Opcode::CODE, void>(loc, a, b);                                         \
  }
KILN_DEFINE(min, Min)
KILN_DEFINE(max, Max)
KILN_DEFINE(minimum, Min)
KILN_DEFINE(maximum, Max)
#undef KILN_DEFINE

template <class A>
  requires detail::Operands<A>
auto abs(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>)
    return Poison{};
  else
    return detail::unary_node<ir::Opcode::Abs>(loc, a);
}

template <class A>
  requires detail::Operands<A>
auto isnan(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>) {
    return Poison{};
  } else {
    static_assert(detail::is_float_operand<A>, "isnan needs a tile of floats: integers are never NaN");
    return detail::make_node<ir::Opcode::IsNan, bool, detail::shape_t<A>>(detail::operand_dtype<A>(), loc,
                                                                          detail::as_tile(a));
  }
}
template <class A>
  requires detail::Operands<A>
auto isinf(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>) {
    return Poison{};
  } else {
    static_assert(detail::is_float_operand<A>, "isinf needs a tile of floats: integers are never infinite");
    return detail::make_node<ir::Opcode::IsInf, bool, detail::shape_t<A>>(detail::operand_dtype<A>(), loc,
                                                                          detail::as_tile(a));
  }
}

// Number of set bits.
template <class A>
  requires detail::Operands<A>
auto popcount(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>) {
    return Poison{};
  } else {
    static_assert(is_integer(detail::operand_dtype<A>()), "popcount needs a tile of integers");
    return detail::unary_node<ir::Opcode::PopCount>(loc, a);
  }
}

// Upper half of the double-width product of integers.
template <class A, class B>
  requires detail::Operands<A, B>
auto mul_hi(const A& a, const B& b, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A> || detail::IsPoison<B>) {
    return Poison{};
  } else {
    constexpr bool ok = !detail::is_float_operand<A> && !detail::is_float_operand<B>;
    static_assert(ok, "mul_hi needs tiles of integers");
    if constexpr (ok)
      return detail::binary_node<ir::Opcode::MulHi, void>(loc, a, b);
    else
      return Poison{};
  }
}

// a / b rounded up, for non-negative integers and positive b.
template <class A, class B>
  requires detail::Operands<A, B>
auto cdiv(const A& a, const B& b) {
  if constexpr (detail::IsPoison<A> || detail::IsPoison<B>) {
    return Poison{};
  } else {
    constexpr bool ok = !detail::is_float_operand<A> && !detail::is_float_operand<B>;
    static_assert(ok, "cdiv needs integers: for floats write ceil(a / b)");
    if constexpr (ok) {
      auto quotient = detail::arithmetic<ir::Opcode::Div>(a, b);
      auto remainder = detail::arithmetic<ir::Opcode::Rem>(a, b);
      using E = detail::element_t<decltype(quotient)>;
      return quotient + detail::make_node<ir::Opcode::Cast, E, detail::shape_t<decltype(remainder)>>(
                            DType::Bool, {}, remainder != 0);
    } else {
      return Poison{};
    }
  }
}

namespace detail {
template <ir::Opcode Code, class A, class B, class C>
auto ternary_node(Location loc, const A& a, const B& b, const C& c) {
  using E = leading_t<A, B, C>;
  auto x = as_operand<E>(a);
  auto y = as_operand<E>(b);
  auto z = as_operand<E>(c);
  using AB = Join<shape_t<decltype(x)>, shape_t<decltype(y)>>;
  constexpr bool ok = AB::ok && joins<typename AB::type, shape_t<decltype(z)>>;
  static_assert(ok,
                "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
  if constexpr (ok) {
    using P = promote_t<promote_t<element_t<decltype(x)>, element_t<decltype(y)>>, element_t<decltype(z)>>;
    return make_node<Code, P, join_t<typename AB::type, shape_t<decltype(z)>>>(dtype_of<P>, loc, x, y, z);
  } else {
    return Poison{};
  }
}
} // namespace detail

// a * b + c, rounded once.
template <class A, class B, class C>
  requires detail::Operands<A, B, C>
auto fma(const A& a, const B& b, const C& c, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A> || detail::IsPoison<B> || detail::IsPoison<C>) {
    return Poison{};
  } else {
    constexpr bool ok =
        detail::is_float_operand<A> || detail::is_float_operand<B> || detail::is_float_operand<C>;
    static_assert(ok, "fma needs floats: for integers write a * b + c");
    if constexpr (ok)
      return detail::ternary_node<ir::Opcode::Fma>(loc, a, b, c);
    else
      return Poison{};
  }
}

// condition ? a : b, element by element. Both are computed.
template <class C, class A, class B>
  requires detail::Operands<C, A, B> && (detail::TileLike<C> || detail::IsPoison<C>)
auto where(const C& condition, const A& a, const B& b, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A> || detail::IsPoison<B> || detail::IsPoison<C>) {
    return Poison{};
  } else {
    constexpr bool is_bool = detail::is_bool_operand<C>;
    static_assert(is_bool, "the condition of where must be a tile of bool: compare with != 0");
    if constexpr (is_bool) {
      using E = std::conditional_t<detail::Number<A> && detail::Number<B>, void, detail::leading_t<A, B>>;
      constexpr bool numbers = detail::Number<A> && detail::Number<B>;
      using F = typename detail::ElementOf<detail::promote(detail::operand_dtype<A>(),
                                                           detail::operand_dtype<B>())>::type;
      using L = std::conditional_t<numbers, F, E>;
      auto c = detail::as_tile(condition);
      auto x = detail::as_operand<L>(a);
      auto y = detail::as_operand<L>(b);
      using AB = detail::Join<detail::shape_t<decltype(x)>, detail::shape_t<decltype(y)>>;
      constexpr bool ok = AB::ok && detail::joins<typename AB::type, detail::shape_t<C>>;
      static_assert(
          ok, "the operands' dimensions differ: they must be the same, or 1; use expand, trans or reshape");
      if constexpr (ok) {
        using P = detail::promote_t<detail::element_t<decltype(x)>, detail::element_t<decltype(y)>>;
        return detail::make_node<ir::Opcode::Select, P,
                                 detail::join_t<typename AB::type, detail::shape_t<C>>>(dtype_of<P>, loc, c,
                                                                                        x, y);
      } else {
        return Poison{};
      }
    } else {
      return Poison{};
    }
  }
}

// Converts to another dtype; float to integer saturates.
template <class T, class A>
  requires detail::Operands<A>
auto cast(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>) {
    return Poison{};
  } else if constexpr (detail::is_pointer_tile<A> || !ElementType<T>) {
    static_assert(detail::never<A>, "cast converts between dtypes: bool, integers and floats");
    return Poison{};
  } else if constexpr (std::is_same_v<detail::element_t<A>, T>) {
    return detail::as_tile(a);
  } else {
    return detail::make_node<ir::Opcode::Cast, T, detail::shape_t<A>>(detail::operand_dtype<A>(), loc,
                                                                      detail::as_tile(a));
  }
}

// The same bits as a dtype of equal size.
template <class T, class A>
  requires detail::Operands<A>
auto bitcast(const A& a, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::IsPoison<A>) {
    return Poison{};
  } else {
    constexpr bool ok =
        size_of(dtype_of<T>) == size_of(detail::operand_dtype<A>()) && !detail::is_pointer_tile<A>;
    static_assert(ok, "bitcast needs dtypes of equal size");
    if constexpr (ok)
      return detail::make_node<ir::Opcode::Bitcast, T, detail::shape_t<A>>(detail::operand_dtype<A>(), loc,
                                                                           detail::as_tile(a));
    else
      return Poison{};
  }
}

template <class A>
  requires detail::Operands<A>
auto relu(const A& a, detail::Location loc = detail::Location::current()) {
  return max(a, 0, loc);
}
// x limited to [low, high].
template <class A, class L, class H>
  requires detail::Operands<A, L, H>
auto clamp(const A& a, const L& low, const H& high, detail::Location loc = detail::Location::current()) {
  return min(max(a, low, loc), high, loc);
}
// x * sigmoid(x)
template <class A>
  requires detail::Operands<A>
auto silu(const A& a, detail::Location loc = detail::Location::current()) {
  return a * sigmoid(a, loc);
}
// x * Phi(x), with the error function.
template <class A>
  requires detail::Operands<A>
auto gelu(const A& a, detail::Location loc = detail::Location::current()) {
  return 0.5f * a * (1.0f + erf(a * 0.70710678118654752440f, loc));
}

} // namespace kiln
