// Defines shapes as type lists, the promotion of dtypes, and the concepts that constrain operators.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/emit.h>

KILN_API_BEGIN
namespace kiln {

struct Poison;
// Names an axis of a tile by its number, which is needed if a dimension occurs twice: sum(x, axis<1>). A
// negative number counts from the last axis.
template <int N> struct Axis : tile_functions::Associated {};
template <int N> inline constexpr Axis<N> axis{};

namespace detail {
template <class...> inline constexpr bool never = false;

// The dimensions of a tile, outermost first.
template <class... D> struct Shape {
  static constexpr int rank = sizeof...(D);
};

// The dimension type that a template argument of Tile stands for: the type of BM for BM, Constant<16> for 16.
template <auto D> struct DimensionOf {
  using type = std::remove_cv_t<decltype(D)>;
};
template <auto D>
  requires std::is_integral_v<decltype(D)>
struct DimensionOf<D> {
  using type = Constant<static_cast<std::int64_t>(D)>;
};
template <auto D> using dimension_of = typename DimensionOf<D>::type;

// The dtype of an element, which is a number or a pointer to numbers.
template <class T> struct ElementInfo {
  static constexpr DType dtype = dtype_of<T>;
  static constexpr bool pointer = false, readonly = false;
};
template <class T> struct ElementInfo<T*> {
  static constexpr DType dtype = dtype_of<T>;
  static constexpr bool pointer = true, readonly = std::is_const_v<T>;
};

template <class... D> inline constexpr const DimInfo* dim_infos[] = {&D::info..., nullptr};
template <class T, class S> struct TypeInfoOf;
template <class T, class... D> struct TypeInfoOf<T, Shape<D...>> {
  static constexpr TypeInfo value{ElementInfo<T>::dtype, ElementInfo<T>::pointer, ElementInfo<T>::readonly,
                                  sizeof...(D), dim_infos<D...>};
};
template <class T, class S> inline constexpr const TypeInfo& type_info = TypeInfoOf<T, S>::value;

template <DType T> struct ElementOf;
template <> struct ElementOf<DType::Bool> {
  using type = bool;
};
template <> struct ElementOf<DType::I8> {
  using type = std::int8_t;
};
template <> struct ElementOf<DType::I16> {
  using type = std::int16_t;
};
template <> struct ElementOf<DType::I32> {
  using type = std::int32_t;
};
template <> struct ElementOf<DType::I64> {
  using type = std::int64_t;
};
template <> struct ElementOf<DType::U8> {
  using type = std::uint8_t;
};
template <> struct ElementOf<DType::U16> {
  using type = std::uint16_t;
};
template <> struct ElementOf<DType::U32> {
  using type = std::uint32_t;
};
template <> struct ElementOf<DType::U64> {
  using type = std::uint64_t;
};
template <> struct ElementOf<DType::F16> {
  using type = f16;
};
template <> struct ElementOf<DType::BF16> {
  using type = bf16;
};
template <> struct ElementOf<DType::F32> {
  using type = float;
};
template <> struct ElementOf<DType::F64> {
  using type = double;
};
template <> struct ElementOf<DType::F8E4M3> {
  using type = f8e4m3;
};
template <> struct ElementOf<DType::F8E5M2> {
  using type = f8e5m2;
};

// Returns the dtype of `a op b`, where bool < integers < floats. Of two integers or two floats, the wider one
// wins. Of two integers of equal width, the unsigned one wins; two different floats of equal width give f32.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (size_of(a) != size_of(b) && a != DType::Bool && b != DType::Bool)
    return size_of(a) > size_of(b) ? a : b;
  if (is_float(a)) return DType::F32;
  if (a == DType::Bool || b == DType::Bool) return a == DType::Bool ? b : a;
  return is_unsigned(a) ? a : b;
}
template <class A, class B> using promote_t = typename ElementOf<promote(dtype_of<A>, dtype_of<B>)>::type;

// The dtype that a number of the host takes when it is combined with a tile of dtype T: T itself, unless the
// number is of a higher class (bool < integers < floats).
constexpr int class_rank(DType t) { return t == DType::Bool ? 0 : is_float(t) ? 2 : 1; }
template <class N> inline constexpr bool is_float_number = std::is_floating_point_v<N> || is_small_float<N>;
template <class N> constexpr int number_rank = is_float_number<N> ? 2 : std::is_same_v<N, bool> ? 0 : 1;
template <class N, class T>
inline constexpr DType number_dtype = number_rank<N> <= class_rank(dtype_of<T>) ? dtype_of<T>
                                      : number_rank<N> == 2                     ? DType::F32
                                      : sizeof(N) == 8                          ? DType::I64
                                                                                : DType::I32;
// The dtype of a number of the host that is not combined with a tile.
template <class N>
inline constexpr DType own_dtype = std::is_same_v<N, bool>       ? DType::Bool
                                   : std::is_floating_point_v<N> ? (sizeof(N) == 4 ? DType::F32 : DType::F64)
                                   : std::is_signed_v<N>         ? (sizeof(N) == 8 ? DType::I64 : DType::I32)
                                                                 : (sizeof(N) == 8   ? DType::U64
                                                                    : sizeof(N) == 1 ? DType::U8
                                                                                     : DType::U32);
template <class N>
  requires is_small_float<N>
inline constexpr DType own_dtype<N> = dtype_of<N>;

// --- Concepts ----------------------------------------------------------------------------------------------

// Tiles, scalars, offsets, Vars, expression nodes and tiles of views.
template <class X>
concept TileLike = requires { typename std::remove_cvref_t<X>::kiln_element; };
template <class X>
concept IsPoison = std::is_base_of_v<Poison, std::remove_cvref_t<X>>;
// A view, which is no operand: a tile of it must be loaded first.
template <class X>
concept IsView = requires { typename std::remove_cvref_t<X>::kiln_view; };
// A number of the host.
template <class X>
concept Number = std::is_arithmetic_v<std::remove_cvref_t<X>> || is_small_float<std::remove_cvref_t<X>>;
// Everything that an operation accepts as an operand.
template <class X>
concept Operand = TileLike<X> || IsPoison<X> || Number<X> || IsDimension<std::remove_cvref_t<X>>;
// Operands where only dimensions are allowed, at least one of which is not a dimension: a mistake to report.
template <class... X>
concept NumbersAsDimensions = (Operand<X> && ...) && (!IsDimension<std::remove_cvref_t<X>> || ...);
// At least one operand is a tile; the others may be numbers and dimensions.
template <class... X>
concept Operands = (Operand<X> && ...) && ((TileLike<X> || IsPoison<X>) || ...);

template <class X> using element_t = typename std::remove_cvref_t<X>::kiln_element;
template <class X> using shape_t = typename std::remove_cvref_t<X>::kiln_shape;
template <class X> inline constexpr int rank_of = shape_t<X>::rank;
template <class X> inline constexpr bool is_scalar_like = TileLike<X> && rank_of<X> == 0;

// --- Shapes ------------------------------------------------------------------------------------------------

using One = Constant<1>;
// The result of joining two dimensions that do not broadcast to each other.
struct Mismatch : Dimension {
  static constexpr DimInfo info{};
};

template <class A, class B> struct JoinDim {
  using type = Mismatch;
};
template <class A> struct JoinDim<A, A> {
  using type = A;
};
template <class A> struct JoinDim<A, One> {
  using type = A;
};
template <class A> struct JoinDim<One, A> {
  using type = A;
};
template <> struct JoinDim<One, One> {
  using type = One;
};

template <class D, class S> struct Prepend;
template <class D, class... R> struct Prepend<D, Shape<R...>> {
  using type = Shape<D, R...>;
};
// The shape with `N` leading axes of extent 1 added.
template <int N, class S> struct Pad : Pad<N - 1, typename Prepend<One, S>::type> {};
template <class S> struct Pad<0, S> {
  using type = S;
};

template <class A, class B> struct JoinEqual;
template <class... A, class... B> struct JoinEqual<Shape<A...>, Shape<B...>> {
  using type = Shape<typename JoinDim<A, B>::type...>;
  static constexpr bool ok = !(std::is_same_v<typename JoinDim<A, B>::type, Mismatch> || ...);
};
// The shape that A and B broadcast to. From the last axis on, an axis of extent 1 is repeated, and missing
// leading axes are added.
template <class A, class B> struct Join {
  static constexpr int rank = A::rank > B::rank ? A::rank : B::rank;
  using joined = JoinEqual<typename Pad<rank - A::rank, A>::type, typename Pad<rank - B::rank, B>::type>;
  using type = typename joined::type;
  static constexpr bool ok = joined::ok;
};
template <class A> struct Join<A, A> {
  using type = A;
  static constexpr bool ok = true;
};
template <class A>
  requires(A::rank > 0)
struct Join<A, Shape<>> {
  using type = A;
  static constexpr bool ok = true;
};
template <class A>
  requires(A::rank > 0)
struct Join<Shape<>, A> {
  using type = A;
  static constexpr bool ok = true;
};
template <class A, class B> using join_t = typename Join<A, B>::type;
template <class A, class B> inline constexpr bool joins = Join<A, B>::ok;
// Whether a value of shape `From` can be broadcast to exactly `To`.
template <class From, class To> inline constexpr bool broadcasts_to = std::is_same_v<join_t<From, To>, To>;

// The number of times that a dimension occurs in a shape, and the index of its first occurrence.
template <class D, class S> struct Find;
template <class D, class... R> struct Find<D, Shape<R...>> {
  static constexpr int count = (0 + ... + int{std::is_same_v<D, R>});
  static constexpr int index = [] {
    int i = 0;
    (void)((std::is_same_v<D, R> ? false : (++i, true)) && ...);
    return i;
  }();
};

template <int I, class S> struct At;
template <int I, class F, class... R> struct At<I, Shape<F, R...>> : At<I - 1, Shape<R...>> {};
template <class F, class... R> struct At<0, Shape<F, R...>> {
  using type = F;
};
template <int I, class S> using at_t = typename At<I, S>::type;

// The shape without axis I, and the shape with D instead of axis I.
template <int I, class S> struct Remove;
template <int I, class F, class... R>
struct Remove<I, Shape<F, R...>> : Prepend<F, typename Remove<I - 1, Shape<R...>>::type> {};
template <class F, class... R> struct Remove<0, Shape<F, R...>> {
  using type = Shape<R...>;
};
template <int I, class D, class S> struct Replace;
template <int I, class D, class F, class... R>
struct Replace<I, D, Shape<F, R...>> : Prepend<F, typename Replace<I - 1, D, Shape<R...>>::type> {};
template <class D, class F, class... R> struct Replace<0, D, Shape<F, R...>> {
  using type = Shape<D, R...>;
};
// The shape with D inserted before axis I.
template <int I, class D, class S> struct Insert;
template <int I, class D, class F, class... R>
  requires(I > 0)
struct Insert<I, D, Shape<F, R...>> : Prepend<F, typename Insert<I - 1, D, Shape<R...>>::type> {};
template <class D, class... R> struct Insert<0, D, Shape<R...>> {
  using type = Shape<D, R...>;
};
template <int I, class S> using remove_t = typename Remove<I, S>::type;
template <int I, class D, class S> using replace_t = typename Replace<I, D, S>::type;
template <int I, class D, class S> using insert_t = typename Insert<I, D, S>::type;

// The product of all dimensions of a shape.
template <class S> struct Elements;
template <> struct Elements<Shape<>> {
  using type = One;
};
template <class D> struct Elements<Shape<D>> {
  using type = D;
};
template <class D, class E, class... R> struct Elements<Shape<D, E, R...>> {
  using type = product_t<D, typename Elements<Shape<E, R...>>::type>;
};
template <class S> using elements_t = typename Elements<S>::type;

} // namespace detail
} // namespace kiln
KILN_API_END
