// Defines TileRef, the result of view.tile and view.at: elements of a view to load, store or update
// atomically.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/memory_operands.h>

KILN_API_BEGIN
namespace kiln {

// The memory order of an atomic operation, with the meaning that it has in C++ and PTX.
enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel };
// The threads among which an atomic operation is atomic and orders memory: those of one program, of the
// device, or of the whole system. On a CPU, cta and gpu are all kernels of the process.
enum class Scope : std::uint8_t { cta, gpu, sys };
struct AtomicOptions {
  Order order = Order::acq_rel;
  Scope scope = Scope::gpu;
};

namespace detail {
inline constexpr const char* order_names[] = {"relaxed", "acquire", "release", "acq_rel"};
inline constexpr const char* scope_names[] = {"cta", "gpu", "sys"};
} // namespace detail

// A tile of a view, or single elements of one. S is the shape of the tile that is loaded or stored, and
// `tile_type` is its type. Masks are tiles of bool; masks and stored values broadcast to S. A stored value
// must have the dtype of the view or a narrower one of the same class (integers or floats), which is
// converted; any other dtype needs a cast.
template <class T, int Rank, class S> class TileRef {
public:
  using element = std::remove_const_t<T>;
  using tile_type = detail::tile_t<element, S>;
  using Loc = detail::Location;

  // Loads the tile. Elements outside of the view, and those where the mask is false, are not accessed; their
  // value is `other`, or zero without it.
  tile_type load(Loc loc = Loc::current()) const {
    return load_with(detail::NoMask{}, detail::NoOther{}, loc);
  }
  template <class M>
    requires detail::Operand<M>
  tile_type load(const M& mask, Loc loc = Loc::current()) const {
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return load_with(mask, detail::NoOther{}, loc);
  }
  template <class M, class O>
    requires detail::Operand<M> && detail::Operand<O>
  tile_type load(const M& mask, const O& other, Loc loc = Loc::current()) const {
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    static_assert(detail::is_other<O, T>(), "other must have the view's dtype: write cast<T>(other)");
    static_assert(detail::fits_shape<O, S>(), "the dimensions of other must be those of the tile, or 1");
    return load_with(mask, other, loc);
  }
  // Loads the tile without a mask. Elements outside of the view have the value `other`.
  template <class O>
    requires detail::Operand<O>
  tile_type load_or(const O& other, Loc loc = Loc::current()) const {
    static_assert(detail::is_other<O, T>(), "other must have the view's dtype: write cast<T>(other)");
    static_assert(detail::fits_shape<O, S>(), "the dimensions of other must be those of the tile, or 1");
    return load_with(detail::NoMask{}, other, loc);
  }

  // Stores `value`, except for elements outside of the view and those where the mask is false.
  template <class V>
    requires detail::Operand<V>
  void store(const V& value, Loc loc = Loc::current()) const {
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    store_with(value, detail::NoMask{}, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  void store(const V& value, const M& mask, Loc loc = Loc::current()) const {
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    store_with(value, mask, loc);
  }

  template <detail::IsView V, class... M> void store(const V&, const M&...) const {
    static_assert(detail::never<V>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  }

  // The atomic operations update each element atomically and return the values before the update. They skip
  // elements outside of the view and those where the mask is false, and return zero for them. `and`, `or` and
  // `xor` take integers and bool; `add`, `min` and `max` take integers and floats. (The overloads are written
  // out instead of generated by a macro, because the expansion of the macro would be part of every error
  // message.)
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_add(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>,
                  "bool has no atomic_add: use atomic_or or atomic_xor, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("add", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_add(const V& value, const M& mask, AtomicOptions options = {},
                       Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>,
                  "bool has no atomic_add: use atomic_or or atomic_xor, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("add", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_min(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>, "bool has no atomic_min: use atomic_and");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("min", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_min(const V& value, const M& mask, AtomicOptions options = {},
                       Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>, "bool has no atomic_min: use atomic_and");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("min", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_max(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>, "bool has no atomic_max: use atomic_or");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("max", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_max(const V& value, const M& mask, AtomicOptions options = {},
                       Loc loc = Loc::current()) const {
    static_assert(detail::is_number_element<T>, "bool has no atomic_max: use atomic_or");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("max", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_and(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_and: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("and", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_and(const V& value, const M& mask, AtomicOptions options = {},
                       Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_and: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("and", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_or(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_or: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("or", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_or(const V& value, const M& mask, AtomicOptions options = {},
                      Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_or: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("or", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_xor(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_xor: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("xor", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_xor(const V& value, const M& mask, AtomicOptions options = {},
                       Loc loc = Loc::current()) const {
    static_assert(detail::is_bits_element<T>,
                  "floats have no atomic_xor: use atomic_exchange, or a view of integers");
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("xor", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_exchange(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    return atomic("xchg", value, detail::NoMask{}, options, loc);
  }
  template <class V, class M>
    requires detail::Operand<V> && detail::Operand<M>
  tile_type atomic_exchange(const V& value, const M& mask, AtomicOptions options = {},
                            Loc loc = Loc::current()) const {
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("xchg", value, mask, options, loc);
  }
  // Stores `desired` where the memory holds `expected`, compared by bits. Returns the values before the
  // update.
  template <class E, class V>
    requires detail::Operand<E> && detail::Operand<V>
  tile_type atomic_compare_exchange(const E& expected, const V& desired, AtomicOptions options = {},
                                    Loc loc = Loc::current()) const {
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_other<E, T>() && detail::fits_shape<E, S>(),
                  "the expected value must have the view's dtype, and the tile's dimensions or 1");
    detail::set_location(loc);
    if constexpr (detail::can_store<V, S, T> && detail::can_store<E, S, T>) {
      detail::Handle mask = mask_handle();
      return tile_type(detail::emit_atomic_cas(ptrs_handle(), detail::as_operand<element>(expected).record(),
                                               detail::as_operand<element>(desired).record(), &mask, info(),
                                               detail::order_names[static_cast<int>(options.order)],
                                               detail::scope_names[static_cast<int>(options.scope)]));
    } else {
      return tile_type(Poison{});
    }
  }

  // Returns the addresses of the elements, including those outside of the view, for kiln::raw.
  detail::tile_t<T*, S> ptrs(Loc loc = Loc::current()) const {
    detail::set_location(loc);
    return detail::tile_t<T*, S>(ptrs_handle());
  }
  // Returns which elements are inside of the view.
  detail::tile_t<bool, S> mask(Loc loc = Loc::current()) const {
    detail::set_location(loc);
    return detail::tile_t<bool, S>(mask_handle());
  }

  // These members make a TileRef look like a tile, so that using it as a value gives an error that says what
  // to write.
  using kiln_element = element;
  using kiln_shape = S;
  static constexpr int nodes = 1;
  tile_type kiln_snapshot() const {
    static_assert(detail::never<S>, "a tile of a view is not loaded yet: write view.tile(...).load()");
    return tile_type(Poison{});
  }
  detail::Handle record(Loc = {}) const { return kiln_snapshot().record(); }
  operator double() const {
    static_assert(detail::never<S>, "a tile of a view is not loaded yet: write view.tile(...).load()");
    return 0;
  }
  template <class I> Poison operator[](const I&) const {
    static_assert(detail::never<I>, "a tile of a view is not indexed with []: write view.at(i, j).load() for "
                                    "single elements");
    return {};
  }
  template <class V> void operator=(const V&) const {
    static_assert(detail::never<V>, "a tile of a view is written by view.tile(...).store(value)");
  }

  // Internal: load_as calls this function.
  template <class W, class M> auto load_wider(const M& mask, Loc loc) const {
    constexpr bool dtype = ElementType<W> && !std::is_const_v<W>;
    static_assert(dtype, "load_as needs a dtype: load_as<std::uint32_t>(view.at(i))");
    constexpr bool wider = dtype && detail::is_wider<W, element>();
    static_assert(!dtype || wider,
                  "load_as reads a wider dtype than that of the view: for the view's own dtype "
                  "write load()");
    if constexpr (dtype && wider) {
      detail::set_location(loc);
      detail::MaskHandle<S, M> m(mask);
      return detail::tile_t<W, S>(detail::emit_view_load_as(access(), m.get(), detail::type_info<T*, S>,
                                                            detail::type_info<const W*, S>,
                                                            detail::type_info<W, S>));
    } else {
      return Poison{};
    }
  }
  // Internal: View::tile and View::at fill these members.
  detail::Handle view;
  detail::Handle offsets[Rank];
  int axes[Rank + 1];
  const bool elements; // const: `a.tile(m) = b.tile(m)` copies no memory, so it must not compile

private:
  static const detail::TypeInfo& info() { return detail::type_info<element, S>; }
  detail::TileAccess access() const { return {view, offsets, Rank, axes, S::rank, elements}; }
  detail::Handle ptrs_handle() const { return detail::emit_view_ptrs(access(), detail::type_info<T*, S>); }
  detail::Handle mask_handle() const { return detail::emit_view_mask(access(), detail::type_info<bool, S>); }
  template <class M, class O> tile_type load_with(const M& mask, const O& other, Loc loc) const {
    detail::set_location(loc);
    detail::MaskHandle<S, M> m(mask);
    detail::OtherHandle<S, element, O> o(other);
    return tile_type(detail::emit_view_load(access(), m.get(), o.get(), info()));
  }
  template <class V, class M> void store_with(const V& value, const M& mask, Loc loc) const {
    detail::set_location(loc);
    if constexpr (detail::can_store<V, S, T>) {
      detail::Handle v = detail::as_operand<element>(value).record();
      detail::MaskHandle<S, M> m(mask);
      detail::emit_view_store(access(), v, m.get(), info());
    }
  }
  template <class V, class M>
  tile_type atomic(const char* kind, const V& value, const M& mask, AtomicOptions options, Loc loc) const {
    detail::set_location(loc);
    if constexpr (detail::can_store<V, S, T>) {
      detail::Handle v = detail::as_operand<element>(value).record();
      detail::MaskHandle<S, M> m(mask);
      detail::Handle inside = mask_handle();
      if (m.get())
        inside = detail::emit_elementwise(ir::Opcode::And, {inside, *m.get()}, DType::Bool,
                                          detail::type_info<bool, S>);
      return tile_type(detail::emit_atomic(ptrs_handle(), v, &inside, info(), kind,
                                           detail::order_names[static_cast<int>(options.order)],
                                           detail::scope_names[static_cast<int>(options.scope)]));
    } else {
      return tile_type(Poison{});
    }
  }
};

// Reads numbers of the dtype W, such as std::uint32_t, each from adjacent elements of a view of a narrower
// dtype, and returns a tile of W with the dimensions of `at`: of a view of bytes,
// load_as<std::uint32_t>(view.at(i)) reads the four along the last axis from index i on, of which the first
// is the least significant. The address must be a multiple of the size of the view's dtype only. The result
// is zero where the mask (a tile of bool) is false, and where one of the elements is outside of the view. The
// last axis must have stride 1: a launch with another stride throws UserError. A W that is not wider than the
// view's dtype is a C++ error. (For pointers there is raw::load_as.)
template <class W, class T, int R, class S>
auto load_as(const TileRef<T, R, S>& at, detail::Location loc = detail::Location::current()) {
  return at.template load_wider<W>(detail::NoMask{}, loc);
}
template <class W, class T, int R, class S, class M>
  requires detail::Operand<M>
auto load_as(const TileRef<T, R, S>& at, const M& mask, detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: write a comparison");
  static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
  return at.template load_wider<W>(mask, loc);
}
template <class W, class X>
  requires(detail::Operands<X> && !requires { typename X::tile_type; })
Poison load_as(const X&) {
  static_assert(detail::IsPoison<X>,
                "load_as takes elements of a view, load_as<std::uint32_t>(view.at(i)); for a "
                "pointer write raw::load_as<std::uint32_t>(p)");
  return {};
}

template <class T, int R, class... D>
Tile(const TileRef<T, R, detail::Shape<D...>>&) -> Tile<std::remove_const_t<T>, D{}...>;

} // namespace kiln
KILN_API_END
