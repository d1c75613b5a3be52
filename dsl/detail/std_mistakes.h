// Reports calls of functions of the standard library with tiles, where it has no overload to report them.
//
// The functions in namespace std take part in overload resolution only if an operand is a tile, so that they
// change no call that would compile without them. The standard reserves that namespace for itself, but there
// is no other way to report such a mistake in a sentence: the types of a call such as std::max(tile, 0.0f)
// differ, so that no overload of the library fits. Their parameter packs make these functions a worse match
// than Kiln's own, so that max(tile, 0.0f) still calls kiln::max in a program with `using namespace std`.
// (With operands of one type, the library's template matches best: such a program must write kiln::max.)
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/tile.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class... X>
concept TilesForStd = sizeof...(X) >= 2 && (TileLike<X> || ...);
template <class... X>
concept Printed = (TileLike<X> || ...);
} // namespace detail

template <class A, class... X>
  requires detail::Printed<A, X...>
int printf(const char*, const A&, const X&...) {
  static_assert(detail::never<A>,
                "printf and similar functions run once, while the kernel is recorded: write "
                "device_print(\"x =\", x)");
  return 0;
}
template <class F, class A, class... X>
  requires detail::Printed<A, X...>
int fprintf(F*, const char*, const A&, const X&...) {
  static_assert(detail::never<A>,
                "printf and similar functions run once, while the kernel is recorded: write "
                "device_print(\"x =\", x)");
  return 0;
}

} // namespace kiln

namespace std {
template <class A, class... B>
  requires kiln::detail::TilesForStd<A, B...>
kiln::Poison max(const A&, const B&...) {
  static_assert(kiln::detail::never<A>,
                "std::max takes numbers of the host: for tiles and scalars write kiln::max");
  return {};
}
template <class A, class... B>
  requires kiln::detail::TilesForStd<A, B...>
kiln::Poison min(const A&, const B&...) {
  static_assert(kiln::detail::never<A>,
                "std::min takes numbers of the host: for tiles and scalars write kiln::min");
  return {};
}
template <class A, class... B>
  requires kiln::detail::TilesForStd<A, B...>
kiln::Poison clamp(const A&, const B&...) {
  static_assert(kiln::detail::never<A>,
                "std::clamp takes numbers of the host: for tiles and scalars write kiln::clamp");
  return {};
}
template <class... X>
  requires kiln::detail::Printed<X...>
int printf(const char*, const X&...) {
  static_assert(kiln::detail::never<X...>,
                "printf and similar functions run once, while the kernel is recorded: write "
                "device_print(\"x =\", x)");
  return 0;
}
template <class F, class... X>
  requires kiln::detail::Printed<X...>
int fprintf(F*, const char*, const X&...) {
  static_assert(kiln::detail::never<X...>,
                "printf and similar functions run once, while the kernel is recorded: write "
                "device_print(\"x =\", x)");
  return 0;
}
} // namespace std
KILN_API_END
