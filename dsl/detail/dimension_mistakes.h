// Reports arithmetic and comparisons of dimensions with numbers of the host, such as BM * 2 and j < BM.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/poison.h>
#include <kiln/dsl/detail/traits.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// One operand is a dimension, and the other one is a dimension or a number.
template <class A, class B>
concept HostDimensions = (IsDimension<A> && (IsDimension<B> || Number<B>)) || (Number<A> && IsDimension<B>);
// The result of BM == 4, which may stand for BM = 4 in a config.
struct ComparedDimension {
  constexpr operator bool() const { return false; }
  operator Binding() const { return Binding::of_interned("", 1); }
};
template <class A, class B> using either_dimension = std::conditional_t<IsDimension<A>, A, B>;
} // namespace detail

template <detail::IsDimension D, detail::Number N> constexpr D operator*(D, N) {
  static_assert(std::is_floating_point_v<N>,
                "a dimension is multiplied or divided by a constant with _c: write BM * 2_c or BM / 2_c, and "
                "value(BM) * 2 for a number");
  static_assert(!std::is_floating_point_v<N>,
                "a dimension is not a number: write value(BM) for the size that the config gives it, or "
                "dim_size(BM) for this size as a scalar of the kernel");
  return {};
}
template <detail::IsDimension D, detail::Number N> constexpr D operator*(N, D) {
  static_assert(std::is_floating_point_v<N>,
                "a dimension is multiplied or divided by a constant with _c: write BM * 2_c or BM / 2_c, and "
                "value(BM) * 2 for a number");
  static_assert(!std::is_floating_point_v<N>,
                "a dimension is not a number: write value(BM) for the size that the config gives it, or "
                "dim_size(BM) for this size as a scalar of the kernel");
  return {};
}
template <detail::IsDimension D, detail::Number N> constexpr D operator/(D, N) {
  static_assert(std::is_floating_point_v<N>,
                "a dimension is multiplied or divided by a constant with _c: write BM * 2_c or BM / 2_c, and "
                "value(BM) * 2 for a number");
  static_assert(!std::is_floating_point_v<N>,
                "a dimension is not a number: write value(BM) for the size that the config gives it, or "
                "dim_size(BM) for this size as a scalar of the kernel");
  return {};
}
template <detail::IsDimension D, detail::Number N> constexpr D operator/(N, D) {
  static_assert(std::is_floating_point_v<N>,
                "a dimension is multiplied or divided by a constant with _c: write BM * 2_c or BM / 2_c, and "
                "value(BM) * 2 for a number");
  static_assert(!std::is_floating_point_v<N>,
                "a dimension is not a number: write value(BM) for the size that the config gives it, or "
                "dim_size(BM) for this size as a scalar of the kernel");
  return {};
}
template <detail::IsDimension A> Poison operator-(A) {
  static_assert(detail::never<A>, "a dimension is not a number: write -value(BM) or -dim_size(BM)");
  return {};
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr detail::either_dimension<A, B> operator+(A, B) {
  static_assert(detail::never<A>, "only products and quotients of dimensions are dimensions: declare another "
                                  "KILN_DIM for this size, or write value(BM) for BM's size as a number");
  return {};
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr detail::either_dimension<A, B> operator-(A, B) {
  static_assert(detail::never<A>, "only products and quotients of dimensions are dimensions: declare another "
                                  "KILN_DIM for this size, or write value(BM) for BM's size as a number");
  return {};
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr detail::either_dimension<A, B> operator%(A, B) {
  static_assert(detail::never<A>, "only products and quotients of dimensions are dimensions: declare another "
                                  "KILN_DIM for this size, or write value(BM) for BM's size as a number");
  return {};
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr detail::ComparedDimension operator==(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM); a config binds it with {BM = 4}");
  return {};
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr bool operator!=(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM)");
  return false;
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr bool operator<(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM)");
  return false;
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr bool operator<=(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM)");
  return false;
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr bool operator>(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM)");
  return false;
}
template <class A, class B>
  requires detail::HostDimensions<A, B>
constexpr bool operator>=(A, B) {
  static_assert(detail::never<A>, "a dimension is not a number: write value(BM) for the size that the config "
                                  "gives it, for example in j < value(BM)");
  return false;
}

} // namespace kiln
KILN_API_END
