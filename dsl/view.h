// Defines View, through which a kernel accesses memory, and program_tile, which defines the grid.
//
//   View<const float, 2> a           // pointer, extents and strides, given at launch; const: read-only
//   a.tile(m, k).load()              // m: Offset<BM>, k: Offset<BK>: a Tile<float, BM, BK>;
//                                    // elements outside of the view read as zero
//   a.tile(i, k)                     // a plain integer drops its axis: Tile<float, BK>;
//                                    // with integers alone, it is a scalar
//   a.at(rows, cols).load()          // single elements by tiles of indices (gather); .store scatters
//   c.tile(m, n).store(x)            // elements outside of the view are not written
//   c.tile(m, n).atomic_add(x)       // returns the values before the addition
//
// Every access takes an optional mask. Loads also take `other`, the value of elements that are outside of the
// view or where the mask is false. All extents, strides and offsets are i64 and count elements, not bytes.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/layout_class.h>
#include <kiln/dsl/tile_ref.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// The shape of view.tile(indices...), which has one axis for each Offset.
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
// The shape that the indices of view.at broadcast to.
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
// An expression i * 128 or 128 * i, which is probably meant as the offset of tile i.
template <class I> inline constexpr bool is_number_multiple = false;
template <class T, class S, class A, class N, class R>
inline constexpr bool is_number_multiple<Node<ir::Opcode::Mul, T, S, A, NumberNode<N, R>>> = true;
template <class T, class S, class A, class N, class R>
inline constexpr bool is_number_multiple<Node<ir::Opcode::Mul, T, S, NumberNode<N, R>, A>> = true;
template <class I>
inline constexpr bool is_integer_index =
    (std::is_integral_v<I> && !std::is_same_v<I, bool>) || IsDimension<I>;
template <TileLike I>
inline constexpr bool is_integer_index<I> =
    !is_pointer_tile<I> && !is_float_operand<I> && !is_bool_operand<I>;
} // namespace detail

// A parameter for memory with `Rank` extents and strides (1 to 8), whose accesses are checked against the
// extents. T is the element type, const for a read-only view. The third template argument pins the layout
// class: View<T, 2, LayoutClass::Aligned> accepts only memory that meets its conditions. Without it, each
// launch determines the class of its argument.
template <class T, int Rank, LayoutClass... Pinned> class View {
  static_assert(Rank >= 1 && Rank <= 8, "a view has 1 to 8 axes: use Scalar for single values");
  static_assert(sizeof...(Pinned) <= 1, "a view has at most one layout class");
  static_assert(ElementType<T>, "a view's element type must be bool, std::int8_t to std::uint64_t, f16, "
                                "bf16, float, double, f8e4m3 or f8e5m2");

public:
  using element = T;
  static constexpr int rank = Rank;

  explicit View(const detail::Handle& h) : handle_(h) {}

  // Return the number of elements along an axis, and the distance in memory, in elements, between neighbours
  // along it. A negative axis counts from the last one. They throw UserError if the view has no such axis.
  Scalar<std::int64_t> extent(int axis, detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<std::int64_t>(detail::emit_view_fact(ir::Opcode::ViewExtent, handle_, axis));
  }
  Scalar<std::int64_t> stride(int axis, detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<std::int64_t>(detail::emit_view_fact(ir::Opcode::ViewStride, handle_, axis));
  }
  // Return the extents of the second to last and of the last axis.
  Scalar<std::int64_t> rows(detail::Location loc = detail::Location::current()) const {
    static_assert(Rank >= 2, "a view of one axis has no rows: use size()");
    return extent(Rank - 2, loc);
  }
  Scalar<std::int64_t> cols(detail::Location loc = detail::Location::current()) const {
    return extent(Rank - 1, loc);
  }
  // Returns the number of elements, which is the product of the extents.
  Scalar<std::int64_t> size(detail::Location loc = detail::Location::current()) const {
    Scalar<std::int64_t> n = extent(0, loc);
    for (int i = 1; i < Rank; ++i)
      n = n * extent(i, loc);
    return n;
  }
  // Returns the address of the first element, for kiln::raw.
  Scalar<T*> data(detail::Location loc = detail::Location::current()) const {
    detail::set_location(loc);
    return Scalar<T*>(detail::emit(ir::Opcode::ViewData, {handle_}, detail::type_info<T*, detail::Shape<>>));
  }

  // Returns a tile of the view, to load, store or update (see tile_ref.h). It takes one index for each axis
  // of the view. An Offset<D> gives the tile an axis of dimension D that begins there; an integer selects one
  // index and gives no axis.
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
        constexpr bool begins = !(detail::is_offset<I> || ...) && (detail::is_number_multiple<I> || ...);
        static_assert(!begins, "integers alone select one element: for the tile that begins there write "
                               "view.tile(offset(BM, i)), for one element view.at(i)");
        if constexpr (scalars && !begins) {
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

  // Returns single elements of the view, to gather or scatter. It takes one index for each axis of the view:
  // a tile of integers, a scalar or a number. The indices broadcast to the dimensions of the result.
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

  // Report indexing as in C++, and the use as a pointer of the host.
  template <class I> Poison operator[](const I&) const {
    static_assert(detail::never<I>, "a view is not indexed with []: write view.tile(m, k).load() for a tile, "
                                    "or view.at(i, j).load() for single elements");
    return {};
  }
  template <class... I> Poison operator()(const I&...) const {
    static_assert(detail::never<T, I...>, "a view is not indexed with (): write view.tile(m, k).load() for a "
                                          "tile, or view.at(i, j).load() for single elements");
    return {};
  }
  template <class P>
    requires(std::is_pointer_v<P> && std::is_object_v<std::remove_pointer_t<P>>)
  operator P() const {
    static_assert(detail::never<P>, "a view is not a pointer: write view.data() for a raw::Ptr to its first "
                                    "element");
    return nullptr;
  }

  detail::Handle record() const { return handle_; }

private:
  detail::Handle handle_;
};

// Report arithmetic on views.
namespace detail {
template <class X> inline constexpr bool is_view = false;
template <class T, int R, LayoutClass... P> inline constexpr bool is_view<View<T, R, P...>> = true;
template <class A, class B>
concept SomeView = (is_view<A> && (is_view<B> || Operand<B>)) || (Operand<A> && is_view<B>);
} // namespace detail
template <class A, class B>
  requires detail::SomeView<A, B>
Poison operator+(const A&, const B&) {
  static_assert(detail::never<A>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  return {};
}
template <class A, class B>
  requires detail::SomeView<A, B>
Poison operator-(const A&, const B&) {
  static_assert(detail::never<A>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  return {};
}
template <class A, class B>
  requires detail::SomeView<A, B>
Poison operator*(const A&, const B&) {
  static_assert(detail::never<A>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  return {};
}
template <class A, class B>
  requires detail::SomeView<A, B>
Poison operator/(const A&, const B&) {
  static_assert(detail::never<A>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  return {};
}

// Return the index of this program along an axis of the grid, and the number of programs along it. They throw
// UserError if `axis` is not from 0 to 7. An axis that the grid of the launch does not have counts as one
// with a single program.
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

// Returns the offsets of the tile of `view` that this program computes:
//
//   auto [m, n] = program_tile(c, BM, BN);    // Offset<BM> and Offset<BN>
//
// It also defines the grid: cdiv(extent, dimension) programs along each axis of the view for which a
// dimension is given. If fewer dimensions than axes are given (at most 4), the grid covers the leading axes;
// 1_c stands for an axis of which each program takes one index. A kernel must call program_tile at most once,
// outside of loops and branches; otherwise it throws UserError.
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

// Reports sizes that are plain numbers, and more than 4 dimensions.
template <class V, class... D>
  requires(sizeof...(D) > 4 || detail::NumbersAsDimensions<D...>)
auto program_tile(const V&, D...) {
  static_assert(!detail::NumbersAsDimensions<D...>,
                "program_tile takes dimensions: a KILN_DIM, or a constant such as 64_c");
  static_assert(detail::NumbersAsDimensions<D...>,
                "program_tile takes at most 4 dimensions: merge axes of the view, or use program_id");
  return Tuple<std::conditional_t<detail::never<D>, D, Poison>...>{};
}

// Returns the size that the config gives a dimension, as a number of the host, which a native `if` or `for`
// can use. The recording is then valid for this config only. Throws UserError if the config has no size for
// the dimension.
template <detail::IsDimension D> std::int64_t value(D, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return detail::bound_value(D::info);
}
// Returns the size of a dimension as a scalar of the kernel. The recording stays valid for all configs.
template <detail::IsDimension D>
Scalar<std::int64_t> dim_size(D, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::DimensionNode<D>{}.record());
}

} // namespace kiln
KILN_API_END
