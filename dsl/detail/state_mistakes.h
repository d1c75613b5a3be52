// Reports operations on a state of several tiles, which must be unpacked first. This mistake is frequent in
// combine functions of several tiles.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/tile.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class... X>
concept SomeTuple = (IsTuple<X> || ...);
} // namespace detail

template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator+(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator-(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator*(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator/(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator<(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison operator>(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison max(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class A, class B>
  requires detail::SomeTuple<A, B>
Poison min(const A&, const B&) {
  static_assert(detail::never<A>, "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}
template <class C, class A, class B>
  requires detail::SomeTuple<A, B>
Poison where(const C&, const A&, const B&) {
  static_assert(std::is_same_v<C, Poison>,
                "a state of several tiles is not a tile: unpack it first, auto [x, y] = a");
  return {};
}

} // namespace kiln
KILN_API_END
