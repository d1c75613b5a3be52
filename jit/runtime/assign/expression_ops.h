// Defines the operations of whole-tensor expressions as functions of tiles.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/functions.h>

KILN_API_BEGIN
// Calls are qualified, because argument-dependent lookup would also find functions of std: the location is a
// std type.
namespace kiln::detail::whole_op {
#define KILN_UNARY(OP, CALL)                                                                                 \
  struct OP {                                                                                                \
    template <class X> static auto apply(const X& x) { return CALL; }                                        \
  };
#define KILN_BINARY(OP, CALL)                                                                                \
  struct OP {                                                                                                \
    template <class X, class Y> static auto apply(const X& x, const Y& y) { return CALL; }                   \
  };
KILN_BINARY(Add, x + y)
KILN_BINARY(Subtract, x - y)
KILN_BINARY(Multiply, x* y)
KILN_BINARY(Divide, x / y)
KILN_BINARY(Remainder, x % y)
KILN_BINARY(Equal, x == y)
KILN_BINARY(NotEqual, x != y)
KILN_BINARY(Less, x < y)
KILN_BINARY(LessEqual, x <= y)
KILN_BINARY(Greater, x > y)
KILN_BINARY(GreaterEqual, x >= y)
KILN_BINARY(And, x& y)
KILN_BINARY(Or, x | y)
KILN_BINARY(Xor, x ^ y)
KILN_BINARY(ShiftLeft, x << y)
KILN_BINARY(ShiftRight, x >> y)
KILN_UNARY(Negate, -x)
KILN_UNARY(Complement, ~x)
KILN_UNARY(LogicalNot, !x)
KILN_UNARY(Exp, kiln::exp(x, Location{}))
KILN_UNARY(Exp2, kiln::exp2(x, Location{}))
KILN_UNARY(Expm1, kiln::expm1(x, Location{}))
KILN_UNARY(Log, kiln::log(x, Location{}))
KILN_UNARY(Log2, kiln::log2(x, Location{}))
KILN_UNARY(Log1p, kiln::log1p(x, Location{}))
KILN_UNARY(Sin, kiln::sin(x, Location{}))
KILN_UNARY(Cos, kiln::cos(x, Location{}))
KILN_UNARY(Tan, kiln::tan(x, Location{}))
KILN_UNARY(Tanh, kiln::tanh(x, Location{}))
KILN_UNARY(Erf, kiln::erf(x, Location{}))
KILN_UNARY(Sigmoid, kiln::sigmoid(x, Location{}))
KILN_UNARY(Sqrt, kiln::sqrt(x, Location{}))
KILN_UNARY(Rsqrt, kiln::rsqrt(x, Location{}))
KILN_UNARY(Floor, kiln::floor(x, Location{}))
KILN_UNARY(Ceil, kiln::ceil(x, Location{}))
KILN_UNARY(Trunc, kiln::trunc(x, Location{}))
KILN_UNARY(Round, kiln::round(x, Location{}))
KILN_UNARY(Silu, kiln::silu(x, Location{}))
KILN_UNARY(Gelu, kiln::gelu(x, Location{}))
KILN_UNARY(IsNan, kiln::isnan(x, Location{}))
KILN_UNARY(IsInf, kiln::isinf(x, Location{}))
KILN_UNARY(Abs, kiln::abs(x, Location{}))
KILN_UNARY(Relu, kiln::relu(x, Location{}))
KILN_UNARY(PopCount, kiln::popcount(x, Location{}))
KILN_BINARY(Pow, kiln::pow(x, y, Location{}))
KILN_BINARY(Atan2, kiln::atan2(x, y, Location{}))
KILN_BINARY(Min, kiln::min(x, y, Location{}))
KILN_BINARY(Max, kiln::max(x, y, Location{}))
KILN_BINARY(MulHi, kiln::mul_hi(x, y))
KILN_BINARY(CeilDiv, kiln::cdiv(x, y))
#undef KILN_UNARY
#undef KILN_BINARY

struct Fma {
  template <class X, class Y, class Z> static auto apply(const X& x, const Y& y, const Z& z) {
    return kiln::fma(x, y, z, Location{});
  }
};
struct Clamp {
  template <class X, class L, class H> static auto apply(const X& x, const L& low, const H& high) {
    return kiln::clamp(x, low, high, Location{});
  }
};
struct Where {
  template <class C, class X, class Y> static auto apply(const C& c, const X& x, const Y& y) {
    return kiln::where(c, x, y, Location{});
  }
};
template <class T> struct Cast {
  template <class X> static auto apply(const X& x) { return kiln::cast<T>(x, Location{}); }
};
template <class T> struct Bitcast {
  template <class X> static auto apply(const X& x) { return kiln::bitcast<T>(x, Location{}); }
};
template <class F> struct Map {
  template <class... X> static auto apply(const X&... x) { return F{}(x...); }
};
} // namespace kiln::detail::whole_op
KILN_API_END
