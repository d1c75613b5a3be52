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
//   a.slice(1, 0, n)                 // a view of the first n columns, with bounds of its own
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
// An expression of an offset times a named dimension, such as m * BM.
template <class I> inline constexpr bool is_offset_multiple = false;
template <class T, class S, class D>
  requires requires { D::dimension_name; }
inline constexpr bool is_offset_multiple<Node<ir::Opcode::Mul, T, S, OffsetValue, DimensionNode<D>>> = true;
template <class I>
inline constexpr bool is_integer_index =
    (std::is_integral_v<I> && !std::is_same_v<I, bool>) || IsDimension<I>;
template <TileLike I>
inline constexpr bool is_integer_index<I> =
    !is_pointer_tile<I> && !is_float_operand<I> && !is_bool_operand<I>;
// An integer of the kernel or the host, or a dimension. Poison is one, too.
template <class I>
inline constexpr bool is_view_bound = IsPoison<I> || IsDimension<I> || is_integer_scalar<I>;
} // namespace detail

// A parameter for memory with `Rank` extents and strides (1 to 8), whose accesses are checked against the
// extents. T is the element type, const for a read-only view. The third template argument pins the layout
// class: View<T, 2, LayoutClass::Aligned> accepts only memory that meets its conditions. Without it, each
// launch determines the class of its argument.
template <class T, int Rank, LayoutClass... Pinned> class View : public detail::ViewMethods {
  static_assert(Rank >= 1 && Rank <= 8, "a view has 1 to 8 axes: use Scalar for single values");
  static_assert(sizeof...(Pinned) <= 1, "a view has at most one layout class");
  static_assert(ElementType<T>, "a view's element type must be bool, std::int8_t to std::uint64_t, f16, "
                                "bf16, float, double, f8e4m3 or f8e5m2");

public:
  using element = T;
  using kiln_view = View;
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
  // of the view. An Offset<D> gives the tile an axis of dimension D that begins there; an integer (a number
  // or an integer scalar) selects one index and gives no axis. Throws UserError if an index is a negative
  // number, since indices do not count from the end.
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
        constexpr bool twice = (detail::is_offset_multiple<I> || ...);
        static_assert(!twice,
                      "an offset already counts elements, and not tiles: write view.tile(m, n) without "
                      "multiplying m by a dimension");
        constexpr bool begins = !(detail::is_offset<I> || ...) && (detail::is_number_multiple<I> || ...);
        static_assert(!begins, "integers alone select one element: for the tile that begins there write "
                               "view.tile(offset(BM, i)), for one element view.at(i)");
        if constexpr (scalars && !begins && !twice) {
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
  // a tile of integers, a scalar or a number. The indices broadcast to the dimensions of the result. Throws
  // UserError if an index is a negative number.
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

  // Returns the view of the elements whose indices along `axis` are begin, begin + 1, ..., end - 1. Indices
  // of the result count from `begin`, and its extent is end - begin, or 0 if `end` is not above `begin`.
  // Elements outside of it are treated like those outside of a view: they read as `other`, and stores do not
  // write them. Begin and end are integers of the kernel or the host, and are limited to 0 ... extent(axis).
  // A negative axis counts from the last one. Throws UserError if the view has no such axis, or if a bound is
  // a negative number.
  template <class B, class E>
    requires detail::Operand<B> && detail::Operand<E>
  auto slice(int axis, const B& begin, const E& end,
             detail::Location loc = detail::Location::current()) const {
    constexpr bool integers = detail::is_view_bound<B> && detail::is_view_bound<E>;
    static_assert(integers, "view.slice takes an axis, and two integers: view.slice(1, begin, end)");
    if constexpr (integers && !detail::any_poison<B, E>) {
      detail::set_location(loc);
      return View<T, Rank>(detail::emit_view_slice(handle_, axis,
                                                   detail::as_operand<std::int64_t>(begin).record(),
                                                   detail::as_operand<std::int64_t>(end).record()));
    } else {
      return Poison{};
    }
  }

  // Report a slice without its axis or end, axes that the kernel computes, and a size along one axis.
  template <class A, class... B>
    requires(sizeof...(B) != 2 || !std::is_convertible_v<const A&, int>)
  Poison slice(const A&, const B&...) const {
    static_assert(sizeof...(B) == 2, "view.slice takes an axis, and two integers: view.slice(1, begin, end)");
    static_assert(sizeof...(B) != 2, "an axis of a view is a number of the host: view.slice(1, begin, end)");
    return {};
  }
  template <detail::TileLike A> Scalar<std::int64_t> extent(const A&) const {
    static_assert(detail::never<A>, "an axis of a view is a number of the host: view.extent(1)");
    return Scalar<std::int64_t>(Poison{});
  }
  template <detail::Operand A> Scalar<std::int64_t> size(const A&) const {
    static_assert(detail::never<A>,
                  "view.size() counts all elements: for those along one axis write view.extent(1)");
    return Scalar<std::int64_t>(Poison{});
  }
  // Report indexing as in C++, and the use as a condition or a pointer of the host.
  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const noexcept(detail::ViewCondition<View>::value) {
    return false;
  }
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
  template <class... X> Poison load(const X&...) const {
    static_assert(detail::never<T, X...>,
                  "a view is not loaded as a whole: write view.tile(m, k).load() for a tile, "
                  "or view.at(i, j).load() for single elements");
    return {};
  }
  template <class... X> void store(const X&...) const {
    static_assert(detail::never<T, X...>,
                  "a view is not stored as a whole: write view.tile(m, k).store(x) for a "
                  "tile, or view.at(i, j).store(x) for single elements");
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

// Return the index of this program along an axis of the grid, and the number of programs along it. They throw
// UserError if `axis` is not from 0 to 7. An axis that the grid of the launch does not have counts as one
// with a single program.
inline Scalar<std::int64_t> program_id(int axis, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::emit_grid_fact(ir::Opcode::ProgramId, axis));
}
template <detail::TileLike A> Scalar<std::int64_t> program_id(const A&) {
  static_assert(detail::never<A>, "an axis of the grid is a number of the host: program_id(0)");
  return Scalar<std::int64_t>(Poison{});
}
inline Scalar<std::int64_t> num_programs(int axis, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  return Scalar<std::int64_t>(detail::emit_grid_fact(ir::Opcode::NumPrograms, axis));
}

// Stand for axes of a view in program_tile: `each` for an axis of which each program takes one index, and
// `whole` for an axis that the grid does not cover, because each program takes all of it.
inline constexpr struct Each {
} each;
inline constexpr struct Whole {
} whole;

namespace detail {
template <class A>
concept GridAxis = IsDimension<A> || std::is_same_v<A, Each> || std::is_same_v<A, Whole>;
struct NoAxis {}; // for an argument that is not given
template <class A>
concept OptionalAxis = GridAxis<A> || std::is_same_v<A, NoAxis>;
// At least one argument is a number.
template <class... A>
concept NumbersAsGridAxes = ((GridAxis<A> || Operand<A>) && ...) && (!GridAxis<A> || ...);
template <class A> inline constexpr bool is_gridded = IsDimension<A> || std::is_same_v<A, Each>;

// The extent of the tile along an axis, and the type of its offset.
template <class A> struct GridExtent {
  using dimension = A;
  using offset = Offset<A{}>;
};
template <> struct GridExtent<Each> {
  using dimension = One;
  using offset = Scalar<std::int64_t>;
};

// The arguments that stand for axes which the grid covers, and the numbers of these axes.
template <int Next, class... A> struct Gridded {
  using list = DimList<>;
  static constexpr int count = 0;
  static void fill(const DimInfo**, int*) {}
};
template <int Next, class A, class... R> struct Gridded<Next, A, R...> {
  using rest = Gridded<Next + 1, R...>;
  static auto pick() {
    if constexpr (is_gridded<A>)
      return typename PushFront<typename rest::list, A>::type{};
    else
      return typename rest::list{};
  }
  using list = decltype(pick());
  static constexpr int count = rest::count + is_gridded<A>;
  static void fill(const DimInfo** dims, int* axes) {
    if constexpr (is_gridded<A>) *dims++ = &GridExtent<A>::dimension::info, *axes++ = Next;
    rest::fill(dims, axes);
  }
};

template <class... A> Tuple<typename GridExtent<A>::offset...> offsets_of(DimList<A...>, const Handle* next) {
  return {{{typename GridExtent<A>::offset(*next++)}...}};
}
} // namespace detail

// Returns the offsets of the tile of `view` that this program computes:
//
//   auto [m, n] = program_tile(c, BM, BN);           // Offset<BM> and Offset<BN>
//   auto [row, n] = program_tile(c, each, BN);       // each: an index, Scalar<std::int64_t>
//   auto [b, head] = program_tile(x, BM, whole, each); // whole: not covered, and no offset
//
// It also defines the grid: cdiv(extent, dimension) programs along each axis of the view for which a
// dimension is given, `extent` programs along an axis for which `each` is given, and none along the others.
// Axes for which no argument is given count as `whole`. The grid has at most 4 axes. (The dimension 1_c makes
// each program take one index as well, but its offset gives tiles an axis of extent 1, which `each` does
// not.) A kernel must call program_tile at most once, outside of loops and branches, and with a view that is
// a parameter; otherwise it throws UserError.
template <class T, int R, LayoutClass... P, detail::GridAxis A, detail::OptionalAxis B = detail::NoAxis,
          detail::OptionalAxis C = detail::NoAxis, detail::OptionalAxis D = detail::NoAxis,
          detail::OptionalAxis E = detail::NoAxis, detail::OptionalAxis F = detail::NoAxis,
          detail::OptionalAxis G = detail::NoAxis, detail::OptionalAxis H = detail::NoAxis>
auto program_tile(const View<T, R, P...>& view, A, B = {}, C = {}, D = {}, E = {}, F = {}, G = {}, H = {},
                  detail::Location loc = detail::Location::current()) {
  using Axes = detail::Gridded<0, A, B, C, D, E, F, G, H>;
  constexpr int given = 1 + detail::GridAxis<B> + detail::GridAxis<C> + detail::GridAxis<D> +
                        detail::GridAxis<E> + detail::GridAxis<F> + detail::GridAxis<G> + detail::GridAxis<H>;
  static_assert(given <= R, "program_tile takes at most one dimension for each axis of the view");
  static_assert(given > R || Axes::count <= 4,
                "program_tile takes at most 4 dimensions: merge axes of the view, or use program_id");
  static_assert(Axes::count > 0, "the grid needs an axis: give program_tile a dimension or each");
  detail::set_location(loc);
  detail::Handle offsets[8];
  if constexpr (Axes::count > 0) {
    const detail::DimInfo* dims[8];
    int axes[8];
    Axes::fill(dims, axes);
    detail::emit_program_tile(view.record(), dims, axes, Axes::count, offsets);
  }
  return detail::offsets_of(typename Axes::list{}, offsets);
}

// Reports sizes that are plain numbers.
template <class V, class... D>
  requires detail::NumbersAsGridAxes<D...>
auto program_tile(const V&, D...) {
  static_assert(!detail::NumbersAsGridAxes<D...>,
                "program_tile takes dimensions: a KILN_DIM, or a constant such as 64_c "
                "(constant<N> for a constexpr int N)");
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
