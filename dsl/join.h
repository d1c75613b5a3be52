// Tiles side by side: join, split and interleave, as packed formats and pairs need them.
//
//   auto pairs = join(re, im);              // [BM, 2]
//   auto [re, im] = split(pairs);           // back
//   auto line = interleave(low, high);      // [BM * 2]: low[0], high[0], low[1], ...
#pragma once

#include <kiln/dsl/reduce.h>

namespace kiln {

namespace detail {
using Two = Constant<2>;

template <class X> constexpr bool splits() {
  if constexpr (IsPoison<X>)
    return true;
  else if constexpr (rank_of<X> == 0)
    return false;
  else
    return std::is_same_v<at_t<rank_of<X> - 1, shape_t<X>>, Two> && !is_pointer_tile<X>;
}
// The unsigned dtype of as many bytes.
template <class T>
using bits_t =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// Element `half` of the last axis; a sum of bits, so that every float comes through as it is.
template <class X> auto half_of(const X& x, int half, Location loc) {
  using T = element_t<X>;
  auto chosen = arange(Two{}, 0, loc) == half;
  if constexpr (std::is_same_v<T, bool>)
    return recorded(any(x & chosen, axis<-1>, detail::Drop{}, loc));
  else
    return recorded(
        bitcast<T>(sum(where(chosen, bitcast<bits_t<T>>(x), 0), axis<-1>, detail::Drop{}, loc), loc));
}
} // namespace detail

// Both tiles along a new last axis of extent 2.
template <class A, class B>
  requires detail::Operands<A, B>
auto join(const A& a, const B& b, detail::Location loc = detail::Location::current()) {
  if constexpr (detail::any_poison<A, B>) {
    return Poison{};
  } else {
    static_assert(detail::joined<A, B>, "join: the tiles' dimensions must be the same, or 1");
    detail::set_location(loc);
    return detail::recorded(where(arange(detail::Two{}, 0, loc) == 0, expand<-1>(a), expand<-1>(b)));
  }
}

// The two tiles along the last axis, whose extent is 2.
template <class X>
  requires detail::Operands<X>
auto split(const X& x, detail::Location loc = detail::Location::current()) {
  constexpr bool ok = detail::splits<X>();
  static_assert(ok, "split: the last axis must be 2_c");
  if constexpr (detail::IsPoison<X> || !ok)
    return Tuple<Poison, Poison>{};
  else
    return state(detail::half_of(x, 0, loc), detail::half_of(x, 1, loc));
}

// The tiles' elements in turn along the last axis, which becomes twice as long.
template <class A, class B>
  requires detail::Operands<A, B>
auto interleave(const A& a, const B& b, detail::Location loc = detail::Location::current()) {
  auto pairs = join(a, b, loc);
  if constexpr (detail::IsPoison<decltype(pairs)>) {
    return Poison{};
  } else {
    using P = detail::shape_t<decltype(pairs)>;
    constexpr bool axis = P::rank >= 2;
    static_assert(axis, "interleave needs tiles with an axis: use join for scalars");
    if constexpr (axis) {
      using Short = detail::remove_t<P::rank - 1, P>;
      using Long =
          detail::replace_t<P::rank - 2, detail::product_t<detail::at_t<P::rank - 2, P>, detail::Two>, Short>;
      using T = detail::element_t<decltype(pairs)>;
      return detail::tile_t<T, Long>(
          detail::emit(ir::Opcode::Reshape, {pairs.record()}, detail::type_info<T, Long>));
    } else {
      return Poison{};
    }
  }
}

} // namespace kiln
