// Views: the parameters of kernels through which memory is reached, always within bounds.
//
//   View<const float, 2> a           // pointer, extents and strides, found at launch; const: read-only
//   a.tile(m, k).load()              // m, k of type Offset<BM>, Offset<BK>: a Tile<float, BM, BK>; outside
//   reads zero a.tile(i, k)                     // a plain integer drops its axis: Tile<float, BK>; only
//   integers: a scalar a.at(rows, cols).load()          // single elements by tiles of indices (gather);
//   .store scatters c.tile(m, n).store(x)            // outside is not written c.tile(m, n).atomic_add(x) //
//   returns the values before
//
// Every access takes an optional mask, and loads an `other` that masked-off and outside elements read as.
#pragma once

#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/functions.h>
#include <kiln/dsl/layout_class.h>

namespace kiln {

// What an atomic orders, and among whom; see SEMANTICS.md.
enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel };
enum class Scope : std::uint8_t { cta, gpu, sys };
struct AtomicOptions {
  Order order = Order::acq_rel;
  Scope scope = Scope::gpu;
};

namespace detail {
inline constexpr const char* order_names[] = {"relaxed", "acquire", "release", "acq_rel"};
inline constexpr const char* scope_names[] = {"cta", "gpu", "sys"};

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
} // namespace detail

// A tile of a view, or single elements of one, before it is loaded or stored.
template <class T, int Rank, class S> class TileRef {
public:
  using element = std::remove_const_t<T>;
  using tile_type = detail::tile_t<element, S>;
  using Loc = detail::Location;

  tile_type load(Loc loc = Loc::current()) const {
    return load_with(detail::NoMask{}, detail::NoOther{}, loc);
  }
  template <class M>
    requires detail::Operand<M>
  tile_type load(const M& mask, Loc loc = Loc::current()) const {
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return load_with(mask, detail::NoOther{}, loc);
  }
  template <class M, class O>
    requires detail::Operand<M> && detail::Operand<O>
  tile_type load(const M& mask, const O& other, Loc loc = Loc::current()) const {
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    static_assert(detail::is_other<O, T>(), "other must have the view's dtype: write cast<T>(other)");
    static_assert(detail::fits_shape<O, S>(), "the dimensions of other must be those of the tile, or 1");
    return load_with(mask, other, loc);
  }
  // What lies outside the view reads as `other`.
  template <class O>
    requires detail::Operand<O>
  tile_type load_or(const O& other, Loc loc = Loc::current()) const {
    static_assert(detail::is_other<O, T>(), "other must have the view's dtype: write cast<T>(other)");
    static_assert(detail::fits_shape<O, S>(), "the dimensions of other must be those of the tile, or 1");
    return load_with(detail::NoMask{}, other, loc);
  }

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
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    store_with(value, mask, loc);
  }

  // Atomic read, modify, write; returns the values before (zero where nothing was accessed). Written out, so
  // that a mistake's message has no macro in it.
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_add(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("add", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_min(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("min", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_max(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("max", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_and(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("and", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_or(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("or", value, mask, options, loc);
  }
  template <class V>
    requires detail::Operand<V>
  tile_type atomic_xor(const V& value, AtomicOptions options = {}, Loc loc = Loc::current()) const {
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
    static_assert(!std::is_const_v<T>,
                  "the view is read-only: declare the parameter as View<T, Rank> to write to it");
    static_assert(detail::is_other<V, T>(),
                  "the stored value's dtype is not the view's: write cast<T>(value)");
    static_assert(detail::fits_shape<V, S>(),
                  "the stored value's dimensions must be those of the tile, or 1");
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
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
    static_assert(detail::is_mask<M>(), "a mask must be a tile of bool: compare with something");
    static_assert(detail::fits_shape<M, S>(), "the mask's dimensions must be those of the tile, or 1");
    return atomic("xchg", value, mask, options, loc);
  }
  // Writes `desired` where memory holds `expected`.
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

  // The addresses of the elements, for kiln::raw; those outside the view included.
  detail::tile_t<T*, S> ptrs(Loc loc = Loc::current()) const {
    detail::set_location(loc);
    return detail::tile_t<T*, S>(ptrs_handle());
  }
  // True inside the view.
  detail::tile_t<bool, S> mask(Loc loc = Loc::current()) const {
    detail::set_location(loc);
    return detail::tile_t<bool, S>(mask_handle());
  }

  // To be told where one is used as a value or assigned.
  using kiln_element = element;
  using kiln_shape = S;
  static constexpr int nodes = 1;
  tile_type kiln_snapshot() const {
    static_assert(detail::never<S>, "a tile of a view is no value yet: write view.tile(...).load()");
    return tile_type(Poison{});
  }
  detail::Handle record(Loc = {}) const { return kiln_snapshot().record(); }
  template <class V> void operator=(const V&) const {
    static_assert(detail::never<V>, "a tile of a view is written by view.tile(...).store(value)");
  }

  // Internal: filled by View::tile and View::at.
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

template <class T, int R, class... D>
Tile(const TileRef<T, R, detail::Shape<D...>>&) -> Tile<std::remove_const_t<T>, D{}...>;

namespace detail {
// The shape of view.tile(indices...): one axis per Offset.
template <class... I> struct TileShape {
  using type = Shape<>;
};
template <class I, class... R> struct TileShape<I, R...> {
  static auto pick() {
    if constexpr (is_offset<I>)
      return typename Prepend<typename I::dimension, typename TileShape<R...>::type>::type{};
    else
      return typename TileShape<R...>::type{};
  }
  using type = decltype(pick());
};
template <class S, class... I> struct IndexShape {
  using type = S;
  static constexpr bool ok = true;
};
template <class S, class I, class... R> struct IndexShape<S, I, R...> {
  using joined = Join<S, shape_t<I>>;
  using rest = IndexShape<typename joined::type, R...>;
  using type = typename rest::type;
  static constexpr bool ok = joined::ok && rest::ok;
};
template <class I>
inline constexpr bool is_integer_index =
    (std::is_integral_v<I> && !std::is_same_v<I, bool>) || IsDimension<I>;
template <TileLike I>
inline constexpr bool is_integer_index<I> =
    !is_pointer_tile<I> && !is_float_operand<I> && !is_bool_operand<I>;
} // namespace detail

// Strided memory of the launch, with bounds. A third argument pins the layout class; without it, it is found
// at launch.
template <class T, int Rank, LayoutClass... Pinned> class View {
  static_assert(Rank >= 1 && Rank <= 8, "a view has 1 to 8 axes: use Scalar for single values");
  static_assert(sizeof...(Pinned) <= 1, "a view has one layout class");
  static_assert(ElementType<T>,
                "a view's element type must be bool, a fixed-width integer or a float that kiln names");

public:
  using element = T;
  static constexpr int rank = Rank;

  explicit View(const detail::Handle& h) : handle_(h) {}

  Scalar<std::int64_t> extent(int axis, detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<std::int64_t>(detail::emit_view_fact(ir::Opcode::ViewExtent, handle_, axis));
  }
  Scalar<std::int64_t> stride(int axis, detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<std::int64_t>(detail::emit_view_fact(ir::Opcode::ViewStride, handle_, axis));
  }
  Scalar<std::int64_t> rows(detail::Location loc = detail::Location::current()) const {
    static_assert(Rank >= 2, "a view of one axis has no rows: use size()");
    return extent(Rank - 2, loc);
  }
  Scalar<std::int64_t> cols(detail::Location loc = detail::Location::current()) const {
    return extent(Rank - 1, loc);
  }
  // The number of elements.
  Scalar<std::int64_t> size(detail::Location loc = detail::Location::current()) const {
    Scalar<std::int64_t> n = extent(0, loc);
    for (int i = 1; i < Rank; ++i)
      n = n * extent(i, loc);
    return n;
  }
  Scalar<T*> data(detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<T*>(detail::emit(ir::Opcode::ViewData, {handle_}, detail::type_info<T*, detail::Shape<>>));
  }

  template <class... I> auto tile(const I&... index) const {
    if constexpr ((detail::IsPoison<I> || ...)) {
      return Poison{};
    } else {
      constexpr bool count = sizeof...(I) == Rank;
      static_assert(count, "view.tile needs one offset or index for each axis of the view");
      constexpr bool integers = (detail::is_integer_index<I> && ...);
      static_assert(integers, "view.tile takes offsets (from program_tile or for_range) and integers");
      if constexpr (count && integers) {
        constexpr bool scalars = ((detail::shape_t<decltype(detail::as_value(index))>::rank == 0) && ...);
        static_assert(scalars, "view.tile takes offsets and scalars: for tiles of indices use view.at");
        if constexpr (scalars) {
          using S = typename detail::TileShape<I...>::type;
          TileRef<T, Rank, S> ref{handle_, {detail::as_value(index).record()...}, {}, false};
          int axis = 0, tile_axis = 0;
          ((detail::is_offset<I> ? (void)(ref.axes[tile_axis++] = axis) : void(), ++axis), ...);
          return ref;
        } else {
          return Poison{};
        }
      } else {
        return Poison{};
      }
    }
  }

  // Single elements: each index is a tile or a scalar, and they broadcast.
  template <class... I> auto at(const I&... index) const {
    if constexpr ((detail::IsPoison<I> || ...)) {
      return Poison{};
    } else {
      constexpr bool count = sizeof...(I) == Rank;
      static_assert(count, "view.at needs one index for each axis of the view");
      constexpr bool integers = (detail::is_integer_index<I> && ...);
      static_assert(integers, "view.at takes integers and tiles of integers");
      if constexpr (count && integers) {
        using Indices = detail::IndexShape<detail::Shape<>, decltype(detail::as_value(index))...>;
        static_assert(Indices::ok, "the dimensions of the index tiles must be the same, or 1: use expand");
        if constexpr (Indices::ok) {
          using S = typename Indices::type;
          return TileRef<T, Rank, S>{handle_, {detail::as_value(index).record()...}, {}, S::rank > 0};
        } else {
          return Poison{};
        }
      } else {
        return Poison{};
      }
    }
  }

  detail::Handle record() const { return handle_; }

private:
  detail::Handle handle_;
};

// Index of this program along a grid axis (0 to 7), and the number of programs along it.
inline Scalar<std::int64_t> program_id(int axis, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::emit_grid_fact(ir::Opcode::ProgramId, axis));
}
inline Scalar<std::int64_t> num_programs(int axis, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::emit_grid_fact(ir::Opcode::NumPrograms, axis));
}

namespace detail {
template <class V, class... D> Tuple<Offset<D{}>...> make_program_tile(const V& view, Location loc) {
  set_location(loc);
  Handle offsets[sizeof...(D)];
  emit_program_tile(view.record(), dim_infos<D...>, sizeof...(D), offsets);
  const Handle* next = offsets;
  return {{{Offset<D{}>(*next++)}...}};
}
} // namespace detail

// The offsets of this program's tile of a view; the view's extents and these dimensions define the grid.
// Fewer dimensions than axes: the grid covers the leading axes. Once in a kernel.
template <class T, int R, LayoutClass... P, detail::IsDimension A>
auto program_tile(const View<T, R, P...>& view, A, detail::Location loc = detail::Location::current()) {
  return detail::make_program_tile<View<T, R, P...>, A>(view, loc);
}
template <class T, int R, LayoutClass... P, detail::IsDimension A, detail::IsDimension B>
auto program_tile(const View<T, R, P...>& view, A, B, detail::Location loc = detail::Location::current()) {
  static_assert(2 <= R, "program_tile takes at most one dimension for each axis of the view");
  return detail::make_program_tile<View<T, R, P...>, A, B>(view, loc);
}
template <class T, int R, LayoutClass... P, detail::IsDimension A, detail::IsDimension B,
          detail::IsDimension C>
auto program_tile(const View<T, R, P...>& view, A, B, C, detail::Location loc = detail::Location::current()) {
  static_assert(3 <= R, "program_tile takes at most one dimension for each axis of the view");
  return detail::make_program_tile<View<T, R, P...>, A, B, C>(view, loc);
}
template <class T, int R, LayoutClass... P, detail::IsDimension A, detail::IsDimension B,
          detail::IsDimension C, detail::IsDimension D>
auto program_tile(const View<T, R, P...>& view, A, B, C, D,
                  detail::Location loc = detail::Location::current()) {
  static_assert(4 <= R, "program_tile takes at most one dimension for each axis of the view");
  return detail::make_program_tile<View<T, R, P...>, A, B, C, D>(view, loc);
}

// What was meant otherwise.
template <class V, class... D>
  requires(sizeof...(D) > 4 || detail::NumbersAsDimensions<D...>)
auto program_tile(const V&, D...) {
  static_assert(!detail::NumbersAsDimensions<D...>,
                "program_tile takes dimensions: a KILN_DIM, or a constant such as 64_c");
  static_assert(detail::NumbersAsDimensions<D...>,
                "program_tile takes at most 4 dimensions: merge axes of the view, or use program_id");
  return Tuple<std::conditional_t<detail::never<D>, D, Poison>...>{};
}

// The size that the config gives a dimension, as a host number. The recording then holds for this config
// only.
template <detail::IsDimension D> std::int64_t value(D, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return detail::bound_value(D::info);
}
// The size of a dimension as a scalar of the kernel; what `i * BM` uses.
template <detail::IsDimension D>
Scalar<std::int64_t> dim_size(D, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::DimensionNode<D>{}.record());
}

} // namespace kiln
