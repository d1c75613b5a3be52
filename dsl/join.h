// Defines join and interleave, which pair the elements of two tiles, and split, which takes pairs apart, as
// in Triton.
//
//   auto pairs = join(re, im);              // [BM] and [BM] to [BM, 2]
//   auto [re, im] = split(pairs);           // the inverse
//   auto line = interleave(low, high);      // [BM] and [BM] to [BM * 2]: low[0], high[0], low[1], ...
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/reduce.h>

KILN_API_BEGIN
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

// Returns element `half` of the last axis.
template <class X> auto half_of(Handle x, int half) {
  constexpr int last = rank_of<X> - 1;
  using T = element_t<X>;
  using S = remove_t<last, shape_t<X>>;
  return tile_t<T, S>(emit(ir::Opcode::Extract, {x}, type_info<T, S>, {{"axis", last}, {"index", half}}));
}
} // namespace detail

// Stacks two tiles along a new last axis of extent 2: result[..., 0] is a, result[..., 1] is b. The tiles
// broadcast, and different dtypes are promoted.
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

// The inverse of join: returns x[..., 0] and x[..., 1]. The last dimension of x must be 2_c.
template <class X>
  requires detail::Operands<X>
auto split(const X& x, detail::Location loc = detail::Location::current()) {
  constexpr bool ok = detail::splits<X>();
  static_assert(ok, "split: the last axis must be 2_c");
  if constexpr (detail::IsPoison<X> || !ok) {
    return Tuple<Poison, Poison>{};
  } else {
    const detail::Handle pairs = detail::record_value(x, loc);
    return state(detail::half_of<X>(pairs, 0), detail::half_of<X>(pairs, 1));
  }
}

// Alternates the elements of two tiles along the last axis, which becomes twice as long:
// result[..., 2 * i] is a[..., i], and result[..., 2 * i + 1] is b[..., i]. The tiles broadcast, and
// different dtypes are promoted.
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
KILN_API_END
