// Defines Var, a variable that the bodies of loops and branches can assign.
//
//   Var<float> best = 0;
//   for_range(BK, n, [&](auto k) { best = max(best, max(x.tile(k).load())); });
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/state.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class T> struct VarTile {
  using type = Tile<T>;
};
template <class T, auto... D> struct VarTile<Tile<T, D...>> {
  using type = tile_t<T, shape_t<Tile<T, D...>>>;
};
} // namespace detail

// A variable that the bodies of loops and branches can assign without passing it in their state. Var<float>
// is a scalar, Var<Tile<float, BM>> a tile; `Var sums = zeros<float>(BM);` deduces the type. A Var keeps its
// dtype and dimensions: assigned numbers are converted to the dtype, and assigned tiles broadcast to the
// dimensions.
template <class T> class Var : public tile_functions::Associated {
public:
  using tile_type = typename detail::VarTile<T>::type;
  using kiln_element = detail::element_t<tile_type>;
  using kiln_shape = detail::shape_t<tile_type>;

  template <class X>
    requires detail::Operand<X>
  Var(const X& initial, detail::Location loc = detail::Location::current())
      : id_((detail::set_location(loc), detail::variable_create(to_handle(initial)))) {
    static_assert(keeps_dtype<X>, "a Var keeps its dtype: write cast<T>(value)");
    static_assert(keeps_shape<X>, "a Var keeps its dimensions: the value's must be the same, or 1");
  }
  // This is a template, so that the error appears only where the constructor is used.
  template <class V = void> Var() : id_(0) {
    static_assert(detail::never<V>, "a Var needs an initial value: Var<float> best = 0");
  }
  Var(const Var& other) : id_(detail::variable_create(other.record())) {}
  ~Var() { detail::variable_destroy(id_); }

  template <class X>
    requires detail::Operand<X>
  Var& operator=(const X& x) {
    static_assert(keeps_dtype<X>, "a Var keeps its dtype: write cast<T>(value)");
    static_assert(keeps_shape<X>, "a Var keeps its dimensions: the value's must be the same, or 1");
    detail::variable_assign(id_, to_handle(x));
    return *this;
  }
  Var& operator=(const Var& other) {
    detail::variable_assign(id_, other.record());
    return *this;
  }

  // Returns the current value. Expressions take this copy, so that they do not change when the variable does.
  tile_type kiln_snapshot() const { return tile_type(record()); }
  operator tile_type() const { return kiln_snapshot(); }
  detail::Handle record(detail::Location = {}) const { return detail::variable_read(id_); }

  template <class I> Poison operator[](const I&) const {
    static_assert(detail::never<I>,
                  "a tile is not indexed with []: select single elements when they are loaded, "
                  "view.at(i, j).load(), or reduce the tile, as in sum(x, BN)");
    return {};
  }
  // Report the use as a native condition, and a cast of the host, as in (float)best.
  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const noexcept(detail::NoTruthValue<Var, B>::value) {
    return false;
  }
  template <class B>
    requires(detail::Number<B> && !std::is_same_v<B, bool>)
  explicit operator B() const {
    static_assert(detail::never<B>, "a cast of C++ does not convert a tile: write cast<float>(x), with the "
                                    "dtype in angle brackets");
    return {};
  }

private:
  // These functions are conditions of static_assert. Poison satisfies them.
  template <class X> static constexpr bool dtype_fits() {
    if constexpr (detail::IsPoison<X>)
      return true;
    else if constexpr (detail::Number<X>)
      return detail::number_rank<X> <= detail::class_rank(dtype_of<kiln_element>);
    else
      return detail::operand_dtype<X>() == dtype_of<kiln_element> && !detail::is_pointer_tile<X>;
  }
  template <class X> static constexpr bool keeps_dtype = dtype_fits<X>();
  template <class X>
  static constexpr bool keeps_shape = detail::broadcasts_to<detail::operand_shape_t<X>, kiln_shape>;

  template <class X> static detail::Handle to_handle(const X& x) {
    if constexpr (detail::IsPoison<X> || !keeps_dtype<X> || !keeps_shape<X>)
      return {};
    else
      return detail::emit_convert(detail::as_operand<kiln_element>(x).record(),
                                  detail::type_info<kiln_element, kiln_shape>);
  }
  std::uint64_t id_;
};
template <class X>
  requires detail::TileLike<X>
Var(X) -> Var<detail::tile_of_t<X>>;
template <detail::Number N> Var(N) -> Var<typename detail::ElementOf<detail::own_dtype<N>>::type>;
// Tile now = best; copies the current value.
template <class T> Tile(const Var<T>&) -> Tile<T>;
template <class T, auto... D> Tile(const Var<Tile<T, D...>>&) -> Tile<T, D...>;

} // namespace kiln
KILN_API_END
