// Reports functions and operators of tiles whose operands are views, of which no tile was loaded.
//
// Each overload takes any number of operands, which makes it worse than all functions that fit, a program's
// own functions of these names among them.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/function_list.h>
#include <kiln/dsl/view.h>

#define KILN_FUNCTIONS_OF_TILES(X)                                                                           \
  X(isnan)                                                                                                   \
  X(isinf)                                                                                                   \
  X(isfinite)                                                                                                \
  X(abs)                                                                                                     \
  X(popcount)                                                                                                \
  X(min)                                                                                                     \
  X(max)                                                                                                     \
  X(minimum)                                                                                                 \
  X(maximum)                                                                                                 \
  X(mul_hi)                                                                                                  \
  X(cdiv)                                                                                                    \
  X(fma)                                                                                                     \
  X(where)                                                                                                   \
  X(relu)                                                                                                    \
  X(clamp)                                                                                                   \
  X(silu)                                                                                                    \
  X(full)                                                                                                    \
  X(trans)                                                                                                   \
  X(reshape)                                                                                                 \
  X(flatten)                                                                                                 \
  X(broadcast)                                                                                               \
  X(dot)                                                                                                     \
  X(sum)                                                                                                     \
  X(prod)                                                                                                    \
  X(any)                                                                                                     \
  X(all)                                                                                                     \
  X(xor_sum)                                                                                                 \
  X(argmax)                                                                                                  \
  X(argmin)                                                                                                  \
  X(reduce)                                                                                                  \
  X(associative_scan)                                                                                        \
  X(cumsum)                                                                                                  \
  X(cumprod)                                                                                                 \
  X(join)                                                                                                    \
  X(interleave)                                                                                              \
  X(state)                                                                                                   \
  X(tie)                                                                                                     \
  X(rand_bits)                                                                                               \
  X(rand)                                                                                                    \
  X(randn)                                                                                                   \
  X(if_else)                                                                                                 \
  X(if_then)                                                                                                 \
  X(device_assert)
// Those that C++ finds by their arguments only.
#define KILN_LOOKUPS_IN_TILES(X)                                                                             \
  X(gather)                                                                                                  \
  X(take)                                                                                                    \
  X(element)                                                                                                 \
  X(narrow)                                                                                                  \
  X(flip)                                                                                                    \
  X(cat)                                                                                                     \
  X(histogram)                                                                                               \
  X(sort)                                                                                                    \
  X(argsort)
#define KILN_OPERATORS_OF_TILES(X)                                                                           \
  X(+, sum)                                                                                                  \
  X(-, difference)                                                                                           \
  X(*, product)                                                                                              \
  X(/, quotient)                                                                                             \
  X(%, remainder)                                                                                            \
  X(==, equality)                                                                                            \
  X(!=, inequality)                                                                                          \
  X(<, less)                                                                                                 \
  X(<=, at_most)                                                                                             \
  X(>, greater)                                                                                              \
  X(>=, at_least)                                                                                            \
  X(&, conjunction)                                                                                          \
  X(|, disjunction)                                                                                          \
  X(^, exclusive)                                                                                            \
  X(<<, left_shift)                                                                                          \
  X(>>, right_shift)                                                                                         \
  X(&&, both)                                                                                                \
  X(||, either)

KILN_API_BEGIN
namespace kiln {

namespace detail {
// The function makes classes of calls with equal operands different.
template <class Function, class... X> struct ViewAsTile {
  static_assert(never<Function, X...>,
                "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
};
template <class... X>
concept SomeView = (IsView<X> || ...);
template <class A, class B>
concept ViewOperand = (IsView<A> && (IsView<B> || Operand<B>)) || (Operand<A> && IsView<B>);
} // namespace detail

#define KILN_REPORT_VIEW(NAME)                                                                               \
  template <class... X>                                                                                      \
    requires detail::SomeView<X...>                                                                          \
  Poison NAME(const X&...) {                                                                                 \
    (void)detail::ViewAsTile<struct NAME##_of_view, X...>{};                                                 \
    return {};                                                                                               \
  }
#define KILN_REPORT_VIEW_IN_FLOAT_FUNCTION(NAME, CODE) KILN_REPORT_VIEW(NAME)
#define KILN_REPORT_VIEW_OPERAND(OPERATOR, NAME)                                                             \
  template <class A, class B>                                                                                \
    requires detail::ViewOperand<A, B>                                                                       \
  Poison operator OPERATOR(const A&, const B&) {                                                             \
    (void)detail::ViewAsTile<struct NAME##_of_views, A, B>{};                                                \
    return {};                                                                                               \
  }

KILN_FLOAT_FUNCTIONS(KILN_REPORT_VIEW_IN_FLOAT_FUNCTION)
KILN_FLOAT_BINARY_FUNCTIONS(KILN_REPORT_VIEW_IN_FLOAT_FUNCTION)
KILN_FUNCTIONS_OF_TILES(KILN_REPORT_VIEW)
KILN_OPERATORS_OF_TILES(KILN_REPORT_VIEW_OPERAND)
namespace tile_functions {
KILN_LOOKUPS_IN_TILES(KILN_REPORT_VIEW)

template <class... X>
  requires detail::SomeView<X...>
Tuple<Poison, Poison> topk(const X&...) {
  (void)detail::ViewAsTile<struct topk_of_view, X...>{};
  return {};
}
} // namespace tile_functions

template <detail::IsView V> Poison operator-(const V&) {
  (void)detail::ViewAsTile<struct minus_of_view, V>{};
  return {};
}
template <detail::IsView V> Poison operator~(const V&) {
  (void)detail::ViewAsTile<struct inverse_of_view, V>{};
  return {};
}
template <detail::IsView V> Poison operator!(const V&) {
  (void)detail::ViewAsTile<struct negation_of_view, V>{};
  return {};
}
template <detail::IsView V> Tuple<Poison, Poison> split(const V&) {
  (void)detail::ViewAsTile<struct split_of_view, V>{};
  return {};
}
template <class T, detail::IsView V> Poison cast(const V&) {
  (void)detail::ViewAsTile<struct cast_of_view, T, V>{};
  return {};
}
template <class T, detail::IsView V> Poison bitcast(const V&) {
  (void)detail::ViewAsTile<struct bitcast_of_view, T, V>{};
  return {};
}
template <int At, detail::IsView V> Poison expand(const V&) {
  (void)detail::ViewAsTile<struct expand_of_view, V>{};
  return {};
}
template <int At, detail::IsView V> Poison squeeze(const V&) {
  (void)detail::ViewAsTile<struct squeeze_of_view, V>{};
  return {};
}
template <int... Order, detail::IsView V> Poison permute(const V&) {
  (void)detail::ViewAsTile<struct permute_of_view, V>{};
  return {};
}

} // namespace kiln
KILN_API_END

#undef KILN_REPORT_VIEW
#undef KILN_REPORT_VIEW_IN_FLOAT_FUNCTION
#undef KILN_REPORT_VIEW_OPERAND
#undef KILN_FUNCTIONS_OF_TILES
#undef KILN_LOOKUPS_IN_TILES
#undef KILN_OPERATORS_OF_TILES
