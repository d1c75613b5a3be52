// Checks and records the optional operands of memory accesses (masks and `other`) and the values to be
// stored.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/functions.h>

KILN_API_BEGIN
namespace kiln::detail {

struct NoMask {};
struct NoOther {};

// Returns whether a value of type V can be stored to memory of element type T without a cast: it must have
// the same dtype or a narrower one of the same class.
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
// Whether memory of element type T takes atomic_add, atomic_min and atomic_max.
template <class T> inline constexpr bool is_number_element = !std::is_same_v<std::remove_const_t<T>, bool>;
// Whether memory of element type T takes atomic_and, atomic_or and atomic_xor.
template <class T> inline constexpr bool is_bits_element = !is_float(dtype_of<std::remove_const_t<T>>);
// Whether numbers of type W consist of several elements of type T.
template <class W, class T> constexpr bool is_wider() {
  if constexpr (ElementType<W>)
    return size_of(dtype_of<W>) > size_of(dtype_of<T>);
  else
    return false;
}
// The following are conditions of static_assert. Omitted operands satisfy all of them, as Poison does.
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

// The constructors of these classes record an optional operand of a memory operation.
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
KILN_API_END
