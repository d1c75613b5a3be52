// Defines loads, stores and atomics through raw pointers, as in Triton. Only masks limit them; prefer views.
//
//   raw::Ptr<float> p                            // a parameter
//   auto x = raw::load(p + offsets, mask, 0);    // offsets count elements, not bytes
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/view.h>

KILN_API_BEGIN
namespace kiln::raw {

// A pointer parameter; a Ptr<const T> can only be loaded from. Adding a tile of integers, which count
// elements, gives a tile of pointers.
template <class T> using Ptr = Tile<T*>;

// A hint for loads on GPUs: no hint, caching at all levels (PTX's ld.ca), or caching in the L2 only (ld.cg).
// CPUs ignore it.
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
template <class P> constexpr bool is_pointer() { return IsPoison<P> || is_pointer_tile<P>; }
template <class P> constexpr bool is_writable() {
  if constexpr (is_pointer_tile<P>)
    return Access<P>::writable;
  else
    return true;
}
template <class P> constexpr bool points_to_numbers() {
  if constexpr (is_pointer_tile<P>)
    return is_number_element<typename Access<P>::element>;
  else
    return true;
}
template <class P> constexpr bool points_to_bits() {
  if constexpr (is_pointer_tile<P>)
    return is_bits_element<typename Access<P>::element>;
  else
    return true;
}
template <class P, class M> constexpr bool mask_fits() {
  if constexpr (is_pointer_tile<P>)
    return fits_shape<M, shape_t<P>>();
  else
    return true;
}
template <class P, class V> constexpr bool value_fits() {
  if constexpr (is_pointer_tile<P>)
    return absent<V> || (is_other<V, typename Access<P>::element>() && fits_shape<V, shape_t<P>>());
  else
    return true;
}
// Returns whether the operation can be recorded. If not, the public function has reported why.
template <class P, class V, class M> constexpr bool can_access() {
  if constexpr (is_pointer_tile<P> && !IsPoison<V> && !IsPoison<M>)
    return is_mask<M>() && mask_fits<P, M>() && value_fits<P, V>();
  else
    return false;
}

template <class P, class M, class O>
auto load(const P& pointers, const M& mask, const O& other, Cache cache, Location loc) {
  set_location(loc);
  if constexpr (can_access<P, O, M>()) {
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
  if constexpr (can_access<P, V, M>() && is_writable<P>()) {
    using A = Access<P>;
    Handle p = as_tile(pointers).record(), v = as_operand<typename A::element>(value).record();
    MaskHandle<typename A::shape, M> m(mask);
    emit_store(p, v, m.get(), A::info());
  }
}
template <class P, class V, class M>
auto atomic(const char* kind, const P& pointers, const V& value, const M& mask, AtomicOptions options,
            Location loc) {
  set_location(loc);
  if constexpr (can_access<P, V, M>() && is_writable<P>()) {
    using A = Access<P>;
    Handle p = as_tile(pointers).record(), v = as_operand<typename A::element>(value).record();
    MaskHandle<typename A::shape, M> m(mask);
    return typename A::tile(emit_atomic(p, v, m.get(), A::info(), kind,
                                        order_names[static_cast<int>(options.order)],
                                        scope_names[static_cast<int>(options.scope)]));
  } else {
    return Poison{};
  }
}
} // namespace detail

// Loads through a pointer or a tile of pointers, and returns a tile of the dtype that they point to, with
// their dimensions. Where the mask, a tile of bool, is false, memory is not accessed, and the result is
// `other`, or zero without it. Mask and `other` broadcast to the dimensions of the pointers.
template <class P>
  requires kiln::detail::Operands<P>
auto load(const P& pointers, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  return detail::load(pointers, kiln::detail::NoMask{}, kiln::detail::NoOther{}, cache, loc);
}
template <class P, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M>
auto load(const P& pointers, const M& mask, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::load(pointers, mask, kiln::detail::NoOther{}, cache, loc);
}
template <class P, class M, class O>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M> && kiln::detail::Operand<O>
auto load(const P& pointers, const M& mask, const O& other, Cache cache = Cache::none,
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  static_assert(detail::value_fits<P, O>(),
                "other must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::load(pointers, mask, other, cache, loc);
}

// Stores `value` through a pointer or a tile of pointers, where the mask is true. The value must have the
// dtype that they point to, or a narrower one of the same class (integers or floats), which is converted.
// Value and mask broadcast to the dimensions of the pointers. A pointer to const is a C++ error.
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
void store(const P& pointers, const V& value,
           kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  detail::store(pointers, value, kiln::detail::NoMask{}, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
void store(const P& pointers, const V& value, const M& mask,
           kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  detail::store(pointers, value, mask, loc);
}

// The atomic operations update each element atomically, where the mask is true. They return the values before
// the update, and zero where the mask is false.
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_add(const P& pointers, const V& value, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(),
                "bool has no atomic_add: use atomic_or or atomic_xor, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("add", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_add(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(),
                "bool has no atomic_add: use atomic_or or atomic_xor, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("add", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_min(const P& pointers, const V& value, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(), "bool has no atomic_min: use atomic_and");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("min", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_min(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(), "bool has no atomic_min: use atomic_and");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("min", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_max(const P& pointers, const V& value, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(), "bool has no atomic_max: use atomic_or");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("max", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_max(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_numbers<P>(), "bool has no atomic_max: use atomic_or");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("max", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_and(const P& pointers, const V& value, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_and: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("and", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_and(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_and: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("and", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_or(const P& pointers, const V& value, AtomicOptions options = {},
               kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_or: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("or", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_or(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
               kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_or: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("or", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_xor(const P& pointers, const V& value, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_xor: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("xor", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_xor(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::points_to_bits<P>(),
                "floats have no atomic_xor: use atomic_exchange, or pointers to integers");
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("xor", pointers, value, mask, options, loc);
}
template <class P, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V>
auto atomic_exchange(const P& pointers, const V& value, AtomicOptions options = {},
                     kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  return detail::atomic("xchg", pointers, value, kiln::detail::NoMask{}, options, loc);
}
template <class P, class V, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<V> && kiln::detail::Operand<M>
auto atomic_exchange(const P& pointers, const V& value, const M& mask, AtomicOptions options = {},
                     kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(kiln::detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  return detail::atomic("xchg", pointers, value, mask, options, loc);
}

// Stores `desired` where the memory holds `expected`, compared by bits. Returns the values before the update.
template <class P, class E, class V>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<E> && kiln::detail::Operand<V>
auto atomic_compare_exchange(const P& pointers, const E& expected, const V& desired,
                             AtomicOptions options = {},
                             kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(detail::is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  static_assert(detail::is_writable<P>(),
                "the pointer is to const: declare the parameter as raw::Ptr<T> to write to it");
  static_assert(detail::value_fits<P, V>(),
                "the stored value must have the pointer's dtype, and the pointers' dimensions or 1");
  static_assert(detail::value_fits<P, E>(),
                "the expected value must have the pointer's dtype, and the pointers' dimensions or 1");
  using namespace kiln::detail;
  set_location(loc);
  if constexpr (detail::can_access<P, V, NoMask>() && detail::can_access<P, E, NoMask>() &&
                detail::is_writable<P>()) {
    using A = detail::Access<P>;
    using T = typename A::element;
    return typename A::tile(emit_atomic_cas(as_tile(pointers).record(), as_operand<T>(expected).record(),
                                            as_operand<T>(desired).record(), nullptr, A::info(),
                                            order_names[static_cast<int>(options.order)],
                                            scope_names[static_cast<int>(options.scope)]));
  } else {
    return Poison{};
  }
}

} // namespace kiln::raw
KILN_API_END
