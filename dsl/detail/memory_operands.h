// What loads, stores and atomics take beside an address: masks, other values, stored ones; and what fits.
#pragma once

#include <kiln/dsl/functions.h>

namespace kiln::detail {

struct NoMask {};
struct NoOther {};

// Whether a value of type V goes into memory of element T without a cast: the same dtype, or a narrower one
// of its class.
template <class V, class T> constexpr bool fits_element() {
  if constexpr (IsPoison<V>) {
    return true;
  } else if constexpr (Number<V>) {
    return number_rank<V> <= class_rank(dtype_of<T>) || std::is_same_v<T, bool>;
  } else {
    constexpr DType v = operand_dtype<V>(), t = dtype_of<T>;
    return !is_pointer_tile<V> &&
           (v == t || (class_rank(v) == class_rank(t) && promote(v, t) == t && size_of(v) < size_of(t)));
  }
}
// Conditions of static_assert: what was left out and Poison pass them all.
template <class X> inline constexpr bool absent = std::is_same_v<X, NoMask> || std::is_same_v<X, NoOther>;
template <class M> constexpr bool is_mask() {
  if constexpr (absent<M> || IsPoison<M>)
    return true;
  else
    return is_bool_operand<M>;
}
template <class X, class S> constexpr bool fits_shape() {
  if constexpr (absent<X> || IsPoison<X>)
    return true;
  else
    return broadcasts_to<operand_shape_t<X>, S>;
}
template <class O, class T> constexpr bool is_other() {
  if constexpr (absent<O>)
    return true;
  else
    return fits_element<O, std::remove_const_t<T>>();
}
template <class V, class S, class T>
inline constexpr bool can_store =
    !IsPoison<V> && !std::is_const_v<T> && fits_element<V, std::remove_const_t<T>>() && fits_shape<V, S>();

// Optional operands of memory operations, recorded in order.
template <class S, class M> struct MaskHandle {
  Handle handle;
  const Handle* get() const { return absent<M> ? nullptr : &handle; }
  MaskHandle(const M& mask) {
    if constexpr (!absent<M> && !IsPoison<M>)
      if constexpr (is_mask<M>() && fits_shape<M, S>()) handle = as_value(mask).record();
  }
};
template <class S, class T, class O> struct OtherHandle {
  Handle handle;
  const Handle* get() const { return absent<O> ? nullptr : &handle; }
  OtherHandle(const O& other) {
    if constexpr (!absent<O> && !IsPoison<O>)
      if constexpr (fits_element<O, T>() && fits_shape<O, S>()) handle = as_operand<T>(other).record();
  }
};

} // namespace kiln::detail
