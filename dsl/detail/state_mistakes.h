// Computing with a state of several tiles as if it were one, as combine functions of several tiles are often
// written at first: each operation says what to write instead.
#pragma once

#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/tile.h>

namespace kiln {

namespace detail {
template <class... X>
concept SomeTuple = (IsTuple<X> || ...);
} // namespace detail

template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator+(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator-(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator*(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator/(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator<(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator>(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison max(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison min(const A&, const B&) {
  static_assert(detail::never<A>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}
template <class C, class A, class B>
  requires detail::SomeTuple<A, B>
Poison where(const C&, const A&, const B&) {
  static_assert(std::is_same_v<C, Poison>,
                "a state of several tiles is no tile: take it apart first, auto [x, y] = a");
  return {};
}

} // namespace kiln
