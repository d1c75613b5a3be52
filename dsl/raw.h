// Raw pointers, as in Triton: no bounds but the mask. Prefer views.
//
//   raw::Ptr<float> p                            // a parameter
//   auto x = raw::load(p + offsets, mask, 0);    // offsets count elements
#pragma once

#include <kiln/dsl/view.h>

namespace kiln::raw {

// A pointer scalar; Ptr<const T> only loads. Adding a tile of integers gives a tile of pointers.
template <class T> using Ptr = Tile<T*>;

// A hint for the cache: none, every level, the outer level only.
enum class Cache : std::uint8_t { none, all, outer };

namespace detail {
using namespace kiln::detail;

inline constexpr const char* cache_names[] = {nullptr, "ca", "cg"};

template <class P> struct Access {
  using pointer = element_t<P>;
  using element = std::remove_const_t<std::remove_pointer_t<pointer>>;
  using shape = shape_t<P>;
  using tile = tile_t<element, shape>;
  static constexpr bool writable = !std::is_const_v<std::remove_pointer_t<pointer>>;
  static const TypeInfo& info() { return type_info<element, shape>; }
};
template <class P> constexpr bool check_pointer() {
  static_assert(is_pointer_tile<P>, "raw memory operations need a pointer or a tile of pointers");
  return is_pointer_tile<P>;
}
template <class P> constexpr bool check_writable() {
  if constexpr (check_pointer<P>()) {
    static_assert(Access<P>::writable,
                  "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
    return Access<P>::writable;
  } else {
    return false;
  }
}

template <class P, class M, class O>
auto load(const P& pointers, const M& mask, const O& other, Cache cache, Location loc) {
  set_location(loc);
  if constexpr (IsPoison<P>) {
    return Poison{};
  } else if constexpr (check_pointer<P>()) {
    using A = Access<P>;
    Handle p = as_tile(pointers).record();
    MaskHandle<typename A::shape, M> m(mask);
    OtherHandle<typename A::shape, typename A::element, O> o(other);
    return typename A::tile(emit_load(p, m.get(), o.get(), A::info(), cache_names[static_cast<int>(cache)]));
  } else {
    return Poison{};
  }
}
template <class P, class V, class M>
void store(const P& pointers, const V& value, const M& mask, Location loc) {
  set_location(loc);
  if constexpr (!IsPoison<P>) {
    if constexpr (check_writable<P>()) {
      using A = Access<P>;
      if constexpr (check_stored<typename A::shape, typename A::element, V>()) {
        Handle p = as_tile(pointers).record(), v = as_operand<typename A::element>(value).record();
        MaskHandle<typename A::shape, M> m(mask);
        emit_store(p, v, m.get(), A::info());
      }
    }
  }
}
template <class P, class V, class M>
auto atomic(const char* kind, const P& pointers, const V& value, const M& mask, AtomicOptions options,
            Location loc) {
  set_location(loc);
  if constexpr (IsPoison<P> || IsPoison<V>) {
    return Poison{};
  } else if constexpr (check_writable<P>()) {
    using A = Access<P>;
    if constexpr (check_stored<typename A::shape, typename A::element, V>()) {
      Handle p = as_tile(pointers).record(), v = as_operand<typename A::element>(value).record();
      MaskHandle<typename A::shape, M> m(mask);
      return typename A::tile(emit_atomic(p, v, m.get(), A::info(), kind,
                                          order_names[static_cast<int>(options.order)],
                                          scope_names[static_cast<int>(options.scope)]));
    } else {
      return Poison{};
    }
  } else {
    return Poison{};
  }
}
} // namespace detail

// A masked-off lane reads as `other`, by default zero.
template <class P>
  requires kiln::detail::Operands<P>
auto load(const P& pointers, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load(pointers, kiln::detail::NoMask{}, kiln::detail::NoOther{}, cache, loc);
}
template <class P, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M>
auto load(const P& pointers, const M& mask, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load(pointers, mask, kiln::detail::NoOther{}, cache, loc);
}
template <class P, class M, class O>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M> && kiln::detail::Operand<O>
auto load(const P& pointers, const M& mask, const O& other, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load(pointers, mask, other, cache, loc);
}

template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
void store(const P& pointers, const V& value,
           kiln::detail::Location loc = kiln::detail::Location::current()) {
  detail::store(pointers, value, kiln::detail::NoMask{}, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
void store(const P& pointers, const V& value, const M& mask,
           kiln::detail::Location loc = kiln::detail::Location::current()) {
  detail::store(pointers, value, mask, loc);
}

// Atomics return the values before.
#define KILN_ATOMIC(NAME, KIND)                                                                              \
  template <class P, class V>                                                                                \
    requires kiln::detail::Operands<P> && kiln::detail::Operand<V>                                           \
  auto NAME(const P& pointers, const V& value, AtomicOptions options = {},                                   \
            kiln::detail::Location loc = kiln::detail::Location::current()) {                                \
    return detail::atomic(#KIND, pointers, value, kiln::detail::NoMask{}, options, loc);                     \
  }                                                                                                          \
  template <class P, class V, class M>                                                                       \
    requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>               \
  auto NAME(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},                    \
            kiln::detail::Location loc = kiln::detail::Location::current()) {                                \
    return detail::atomic(#KIND, pointers, value, mask, options, loc);                                       \
  }
KILN_ATOMIC(atomic_add, add)
KILN_ATOMIC(atomic_min, min)
KILN_ATOMIC(atomic_max, max)
KILN_ATOMIC(atomic_and, and)
KILN_ATOMIC(atomic_or, or)
KILN_ATOMIC(atomic_xor, xor)
KILN_ATOMIC(atomic_exchange, xchg)
#undef KILN_ATOMIC

template <class P, class E, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<E> && kiln::detail::Operand<V>
auto atomic_compare_exchange(const P& pointers, const E& expected, const V& desired,
                             AtomicOptions options = {},
                             kiln::detail::Location loc = kiln::detail::Location::current()) {
  using namespace kiln::detail;
  set_location(loc);
  if constexpr (detail::check_writable<P>()) {
    using A = detail::Access<P>;
    using T = typename A::element;
    if constexpr (check_stored<typename A::shape, T, E>() && check_stored<typename A::shape, T, V>()) {
      return typename A::tile(emit_atomic_cas(as_tile(pointers).record(), as_operand<T>(expected).record(),
                                              as_operand<T>(desired).record(), nullptr, A::info(),
                                              order_names[static_cast<int>(options.order)],
                                              scope_names[static_cast<int>(options.scope)]));
    } else {
      return Poison{};
    }
  } else {
    return Poison{};
  }
}

} // namespace kiln::raw
