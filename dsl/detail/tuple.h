// Defines Tuple, which structured bindings can unpack: states of loops, offsets of program_tile, results of
// reduce.
#pragma once

#include <kiln/dsl/api.h>

#include <utility>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <int I, class T> struct TupleLeaf {
  T value;
};
template <class Indices, class... T> struct TupleBase;
template <int... I, class... T>
struct TupleBase<std::integer_sequence<int, I...>, T...> : TupleLeaf<I, T>... {};
template <int I, class T> const T& leaf(const TupleLeaf<I, T>& l) { return l.value; }
} // namespace detail

template <class... T> struct Tuple : detail::TupleBase<std::make_integer_sequence<int, sizeof...(T)>, T...> {
  using kiln_tuple = Tuple;
  static constexpr int size = sizeof...(T);

  template <std::size_t I> auto get() const { return detail::leaf<static_cast<int>(I)>(*this); }
};

template <class X>
concept IsTuple = requires { typename X::kiln_tuple; };

} // namespace kiln

template <class... T>
struct std::tuple_size<kiln::Tuple<T...>> : std::integral_constant<std::size_t, sizeof...(T)> {};
template <std::size_t I, class... T> struct std::tuple_element<I, kiln::Tuple<T...>> {
  using type = decltype(std::declval<const kiln::Tuple<T...>&>().template get<I>());
};
KILN_API_END
