// Makes pointers and views from addresses that a kernel computes or reads, and reads wide numbers from bytes.
//
//   auto p = raw::pointer<const float>(table.at(i).load());   // an address, from an array of std::uint64_t
//   auto v = raw::view(p, {rows, cols});                      // a View<const float, 2> of the memory at p
//   auto w = raw::load_as<std::uint32_t>(bytes + 18 * i + 2); // four bytes, at any address
//
// Kiln knows nothing about the memory behind an address: it must be memory that the device can access, and
// stay valid until the launch has finished. Accesses through such pointers and views take effect in program
// order with all others, as they may reach any memory. The tuner cannot tune a kernel that reads addresses,
// because it runs configs in other processes, on memory of their own, where the addresses are not valid.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/raw.h>

KILN_API_BEGIN
namespace kiln::raw {

namespace detail {
template <class X> constexpr bool is_address() {
  if constexpr (IsPoison<X>)
    return true;
  else if constexpr (TileLike<X>)
    return is_pointer_tile<X> || (is_integer_operand<X> && size_of(operand_dtype<X>()) == 8);
  else
    return false;
}
// Whether X is a pointer to const, and T is not const.
template <class X, class T> constexpr bool drops_const() {
  if constexpr (is_pointer_tile<X>)
    return std::is_const_v<std::remove_pointer_t<element_t<X>>> && !std::is_const_v<T>;
  else
    return false;
}

// An extent or a stride of raw::view.
struct Bound {
  Handle handle;
  template <class X>
    requires Operand<X>
  Bound(const X& x) {
    static_assert(is_view_bound<X>,
                  "the extents and strides of raw::view are integers: raw::view(p, {rows, cols})");
    if constexpr (is_view_bound<X> && !IsPoison<X>) handle = as_operand<std::int64_t>(x).record();
  }
};
template <class P> constexpr bool is_single_pointer() {
  if constexpr (is_pointer_tile<P>)
    return rank_of<P> == 0;
  else
    return IsPoison<P>;
}
template <int R, class P>
auto view(const P& pointer, const Bound* extents, const Bound* strides, Location loc) {
  static_assert(is_single_pointer<P>(),
                "raw::view takes one pointer: a raw::Ptr, or raw::pointer<float>(address)");
  static_assert(R <= 8, "a view has 1 to 8 axes");
  if constexpr (is_single_pointer<P>() && !IsPoison<P> && R <= 8) {
    set_location(loc);
    Handle sizes[R], steps[R];
    for (int i = 0; i < R; ++i) {
      sizes[i] = extents[i].handle;
      if (strides) steps[i] = strides[i].handle;
    }
    return View<std::remove_pointer_t<element_t<P>>, R>(
        emit_view_of(as_tile(pointer).record(), sizes, strides ? steps : nullptr, R));
  } else {
    return Poison{};
  }
}

template <class W, class P, class M, class O>
auto load_as(const P& pointers, const M& mask, const O& other, Location loc) {
  static_assert(is_pointer<P>(), "raw memory operations need a pointer or a tile of pointers");
  constexpr bool dtype = ElementType<W> && !std::is_const_v<W>;
  static_assert(dtype, "load_as needs a dtype: raw::load_as<std::uint32_t>(p)");
  static_assert(is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(mask_fits<P, M>(), "the mask's dimensions must be those of the pointers, or 1");
  if constexpr (dtype && is_pointer_tile<P> && is_mask<M>() && mask_fits<P, M>() && !IsPoison<M> &&
                !IsPoison<O>) {
    using S = shape_t<P>;
    static_assert(is_other<O, W>() && fits_shape<O, S>(),
                  "other must have the dtype that is read, and the pointers' dimensions or 1");
    if constexpr (is_other<O, W>() && fits_shape<O, S>()) {
      set_location(loc);
      Handle p = as_tile(pointers).record();
      MaskHandle<S, M> m(mask);
      OtherHandle<S, W, O> o(other);
      return tile_t<W, S>(emit_load_as(p, m.get(), o.get(), type_info<const W*, S>, type_info<W, S>));
    } else {
      return Poison{};
    }
  } else {
    return Poison{};
  }
}
} // namespace detail

// Returns the pointers to elements of type T at the addresses `x`: 64-bit integers, such as std::uint64_t
// that the kernel reads from an array, or pointers to another dtype. x is a scalar or a tile. Each address
// must be a multiple of the size of T, unless its mask is false in every access.
template <class T, class X>
  requires kiln::detail::Operand<X>
auto pointer(const X& x, kiln::detail::Location loc = kiln::detail::Location::current()) {
  static_assert(ElementType<T>, "raw::pointer takes the dtype of the elements: raw::pointer<float>(address)");
  static_assert(detail::is_address<X>(),
                "an address is a 64-bit integer of the kernel: read it from an array of "
                "std::uint64_t, or pass it as Scalar<std::uint64_t>");
  static_assert(!detail::drops_const<X, T>(), "the pointer is to const: write raw::pointer<const T>(p)");
  if constexpr (ElementType<T> && detail::is_address<X>() && !detail::drops_const<X, T>() &&
                !kiln::detail::IsPoison<X>) {
    using S = kiln::detail::shape_t<X>;
    kiln::detail::set_location(loc);
    return kiln::detail::tile_t<T*, S>(kiln::detail::emit(
        ir::Opcode::Bitcast, {kiln::detail::as_tile(x).record()}, kiln::detail::type_info<T*, S>));
  } else {
    return Poison{};
  }
}

// Returns a view of the memory at a pointer, with bounds checks like those of a View that is a parameter:
// raw::view(p, {rows, cols}) is contiguous (row-major), and raw::view(p, {rows, cols}, {stride, 1}) has these
// strides, which count elements. The element type is that of the pointer. Extents and strides are integers of
// the kernel or the host, 1 to 8 of each. Strides may be negative; an extent that the kernel computes as zero
// or less makes the view empty. The view cannot define the grid (program_tile). Throws UserError if an extent
// is a negative number.
template <class P, std::size_t R>
  requires kiln::detail::Operand<P>
auto view(const P& pointer, const detail::Bound (&extents)[R],
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::view<static_cast<int>(R)>(pointer, extents, nullptr, loc);
}
template <class P, std::size_t R>
  requires kiln::detail::Operand<P>
auto view(const P& pointer, const detail::Bound (&extents)[R], const detail::Bound (&strides)[R],
          kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::view<static_cast<int>(R)>(pointer, extents, strides, loc);
}

// Report extents and strides without braces, or of different numbers, and a view as the pointer.
template <class P, class... N>
  requires((kiln::detail::Operand<P> || kiln::detail::IsView<P>) && (kiln::detail::Operand<N> && ...) &&
           sizeof...(N) > 0)
Poison view(const P&, const N&...) {
  static_assert(kiln::detail::never<P>, "the extents of raw::view are in braces: raw::view(p, {rows, cols})");
  return {};
}
template <class P, std::size_t R, class N>
  requires(kiln::detail::Operand<P> && kiln::detail::Operand<N>)
Poison view(const P&, const detail::Bound (&)[R], const N&) {
  static_assert(kiln::detail::never<P>,
                "the strides of raw::view are in braces: raw::view(p, {rows, cols}, {stride, 1})");
  return {};
}
template <class P, std::size_t R, std::size_t S>
  requires(kiln::detail::Operand<P> && R != S)
Poison view(const P&, const detail::Bound (&)[R], const detail::Bound (&)[S]) {
  static_assert(kiln::detail::never<P>, "raw::view takes as many strides as extents");
  return {};
}
template <kiln::detail::IsView V, std::size_t R> Poison view(const V&, const detail::Bound (&)[R]) {
  static_assert(kiln::detail::never<V>, "raw::view takes a pointer: raw::view(x.data(), {rows, cols})");
  return {};
}

// Reads numbers of the dtype W, such as std::uint32_t, at the addresses of `pointers`, which point to any
// dtype, and returns a tile of W with their dimensions. The first byte is the least significant. Each address
// must be a multiple of the size of the pointers' own dtype only, so pointers to std::uint8_t read from any
// address. Where the mask (a tile of bool) is false, memory is not accessed, and the result is `other`, or
// zero without it. (GPUs read bytes one by one if an address may be misaligned: where it is known to be
// aligned, load(pointer<W>(p)) is faster.)
template <class W, class P>
  requires kiln::detail::Operands<P>
auto load_as(const P& pointers, kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load_as<W>(pointers, kiln::detail::NoMask{}, kiln::detail::NoOther{}, loc);
}
template <class W, class P, class M>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M>
auto load_as(const P& pointers, const M& mask,
             kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load_as<W>(pointers, mask, kiln::detail::NoOther{}, loc);
}
template <class W, class P, class M, class O>
  requires kiln::detail::Operands<P> && kiln::detail::Operand<M> && kiln::detail::Operand<O>
auto load_as(const P& pointers, const M& mask, const O& other,
             kiln::detail::Location loc = kiln::detail::Location::current()) {
  return detail::load_as<W>(pointers, mask, other, loc);
}

} // namespace kiln::raw
KILN_API_END
