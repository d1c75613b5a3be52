// Reductions and scans along one axis, ready-made or with a combine of the user's, over one tile or several.
//
//   sum(x, BN)                  // names the dimension it removes; axis<1> where a dimension occurs twice
//   max(x, BN, keep)            // leaves an axis of extent 1, so that x - max(x, BN, keep) broadcasts
//   sum(x)                      // over everything, a scalar
//   reduce(x, BN, [](auto a, auto b) { return a * b; })
//   auto [v, i] = reduce(tie(x, index), BN, [](auto a, auto b) { auto [v, i] = a; ...; return tie(...); })
#pragma once

#include <kiln/dsl/functions.h>
#include <kiln/dsl/shape.h>
#include <kiln/dsl/state.h>

namespace kiln {

struct Keep {};
inline constexpr Keep keep{};

namespace detail {
template <class K> inline constexpr bool keeps = std::is_same_v<K, Keep>;
struct Drop {};

// What a sum accumulates in: narrow floats in f32, bool as i32.
template <class T>
using sum_accumulator_t = std::conditional_t<is_float(dtype_of<T>) && size_of(dtype_of<T>) < 4, float,
                                             std::conditional_t<std::is_same_v<T, bool>, std::int32_t, T>>;
// What the result of a sum has.
template <class T> using sum_t = std::conditional_t<std::is_same_v<T, bool>, std::int32_t, T>;

// The reduced tile with the axis put back if it is kept, in dtype `Result`.
template <class Result, class K, int AxisIndex, class Reduced> auto finish_reduce(const Reduced& reduced) {
  using S = shape_t<Reduced>;
  Handle h = reduced.record();
  if constexpr (!std::is_same_v<Result, element_t<Reduced>>) h = emit_cast(h, dtype_of<Result>);
  if constexpr (keeps<K>) {
    using Kept = insert_t<AxisIndex, One, S>;
    return tile_t<Result, Kept>(
        emit(ir::Opcode::ExpandDims, {h}, type_info<Result, Kept>, {{"axis", AxisIndex}}));
  } else {
    return tile_t<Result, S>(h);
  }
}

template <ir::Opcode Combine, class Accumulator, class Result, class K, class X, class A>
auto reduce_axis(const X& x, A, Location loc) {
  if constexpr (IsPoison<X>) {
    return Poison{};
  } else if constexpr (check_axis<A, shape_t<X>>()) {
    constexpr int index = AxisIn<A, shape_t<X>>::value;
    using R = remove_t<index, shape_t<X>>;
    Handle h = record_value(x, loc);
    return finish_reduce<Result, K, index>(
        tile_t<Accumulator, R>(emit_reduce(Combine, h, index, type_info<Accumulator, R>)));
  } else {
    return Poison{};
  }
}

template <ir::Opcode Compare, class K, class X, class A> auto arg_reduce(const X& x, A, Location loc) {
  if constexpr (IsPoison<X>) {
    return Poison{};
  } else if constexpr (check_axis<A, shape_t<X>>()) {
    constexpr int index = AxisIn<A, shape_t<X>>::value;
    using R = remove_t<index, shape_t<X>>;
    Handle h = record_value(x, loc);
    return finish_reduce<std::int32_t, K, index>(tile_t<std::int32_t, R>(
        emit_arg_reduce(Compare, h, index, at_t<index, shape_t<X>>::info, type_info<std::int32_t, R>)));
  } else {
    return Poison{};
  }
}

template <class X> auto one_axis(const X& x) {
  auto v = as_tile(x);
  tile_of_t<decltype(v)> t(v.record());
  if constexpr (rank_of<X> == 1)
    return t;
  else
    return flatten(t);
}
} // namespace detail

// NAME(x, axis[, keep]) and NAME(x). ELEMENT is the element type of x.
#define KILN_REDUCTION(NAME, COMBINE, ACCUMULATOR, RESULT)                                                   \
  template <class X, class A>                                                                                \
    requires detail::Operands<X> && detail::IsAxis<A>                                                        \
  auto NAME(const X& x, A a, detail::Location loc = detail::Location::current()) {                           \
    return detail::NAME##_reduce<detail::Drop>(x, a, loc);                                                   \
  }                                                                                                          \
  template <class X, class A>                                                                                \
    requires detail::Operands<X> && detail::IsAxis<A>                                                        \
  auto NAME(const X& x, A a, Keep, detail::Location loc = detail::Location::current()) {                     \
    return detail::NAME##_reduce<Keep>(x, a, loc);                                                           \
  }                                                                                                          \
  template <class X>                                                                                         \
    requires detail::Operands<X>                                                                             \
  auto NAME(const X& x, detail::Location loc = detail::Location::current()) {                                \
    if constexpr (detail::IsPoison<X>)                                                                       \
      return Poison{};                                                                                       \
    else                                                                                                     \
      return detail::NAME##_reduce<detail::Drop>(detail::one_axis(x), axis<0>, loc);                         \
  }
#define KILN_REDUCTION_IN(NAME, COMBINE, ACCUMULATOR, RESULT)                                                \
  template <class K, class X, class A> auto NAME##_reduce(const X& x, A a, Location loc) {                   \
    if constexpr (IsPoison<X>) {                                                                             \
      return Poison{};                                                                                       \
    } else {                                                                                                 \
      using T [[maybe_unused]] = element_t<X>;                                                               \
      return reduce_axis<ir::Opcode::COMBINE, ACCUMULATOR, RESULT, K>(x, a, loc);                            \
    }                                                                                                        \
  }
#define KILN_REDUCTIONS(X)                                                                                   \
  X(sum, Add, sum_accumulator_t<T>, sum_t<T>)                                                                \
  X(prod, Mul, sum_accumulator_t<T>, sum_t<T>)                                                               \
  X(max, Max, T, T)                                                                                          \
  X(min, Min, T, T)                                                                                          \
  X(xor_sum, Xor, T, T)                                                                                      \
  X(any, Or, bool, bool)                                                                                     \
  X(all, And, bool, bool)
namespace detail {
KILN_REDUCTIONS(KILN_REDUCTION_IN)
template <class K, class X, class A> auto argmax_reduce(const X& x, A a, Location loc) {
  return arg_reduce<ir::Opcode::Gt, K>(x, a, loc);
}
template <class K, class X, class A> auto argmin_reduce(const X& x, A a, Location loc) {
  return arg_reduce<ir::Opcode::Lt, K>(x, a, loc);
}
} // namespace detail
KILN_REDUCTIONS(KILN_REDUCTION)
// The smallest index among equals, in i32; NaN is ignored unless there is nothing else.
KILN_REDUCTION(argmax, Gt, , )
KILN_REDUCTION(argmin, Lt, , )
#undef KILN_REDUCTION
#undef KILN_REDUCTION_IN
#undef KILN_REDUCTIONS

namespace detail {
// reduce and scan with a user's combine over the tiles of `s`, which have one shape.
template <class... T> struct FirstOf;
template <class T, class... R> struct FirstOf<T, R...> {
  using type = T;
};
template <class S> struct StateShape {
  using type = shape_t<S>;
  static constexpr bool same = true;
};
template <class... T> struct StateShape<Tuple<T...>> {
  using type = shape_t<typename FirstOf<T...>::type>;
  static constexpr bool same = (std::is_same_v<shape_t<T>, type> && ...);
};
template <class S> struct ScalarState {
  using type = Tile<element_t<S>>;
};
template <class... T> struct ScalarState<Tuple<T...>> {
  using type = Tuple<Tile<element_t<T>>...>;
};
template <class S, class Shape> struct WithShape {
  using type = tile_t<element_t<S>, Shape>;
};
template <class... T, class Shape> struct WithShape<Tuple<T...>, Shape> {
  using type = Tuple<tile_t<element_t<T>, Shape>...>;
};

template <ir::Opcode Code, class S, class A, class F>
auto combine_axis(const S& s, A, const F& combine, bool reverse, Location loc) {
  set_location(loc);
  if constexpr (is_poisoned<S>) {
    return Poison{};
  } else {
    using From = typename StateShape<S>::type;
    static_assert(StateShape<S>::same, "the tiles that are combined together must have the same dimensions");
    if constexpr (!StateShape<S>::same) {
      return Poison{};
    } else if constexpr (check_axis<A, From>()) {
      constexpr int index = AxisIn<A, From>::value;
      using To = std::conditional_t<Code == ir::Opcode::Reduce, remove_t<index, From>, From>;
      using Result = typename WithShape<S, To>::type;
      using Element = typename ScalarState<S>::type;
      constexpr int n = StateTraits<S>::count;
      Handle tiles[n], sides[2 * n], results[n];
      StateTraits<S>::handles(s, tiles);
      RegionOp op(Code, {}, {tiles, n});
      op.enter(sides);
      auto combined = combine(StateTraits<Element>::make(sides), StateTraits<Element>::make(sides + n));
      if constexpr (is_poisoned<decltype(combined)>) {
        return Poison{};
      } else {
        constexpr bool ok = returns_state<Element, decltype(combined)>();
        static_assert(ok, "a combine function must return what it takes: scalars of the same dtypes");
        if constexpr (ok) {
          Handle out[n];
          state_handles<Element>(combined, out);
          op.leave({out, n});
          if constexpr (Code == ir::Opcode::Scan)
            op.finish(StateTraits<Result>::types, n, results, {{"axis", index}, {"reverse", reverse}});
          else
            op.finish(StateTraits<Result>::types, n, results, {{"axis", index}});
          return StateTraits<Result>::make(results);
        } else {
          return Poison{};
        }
      }
    } else {
      return Poison{};
    }
  }
}
} // namespace detail

// Combines along an axis with an associative and commutative combine(a, b) of scalars, or of tuples of
// scalars.
template <class X, detail::IsAxis A, class F>
  requires(detail::Operands<X> || IsTuple<X>)
auto reduce(const X& x, A a, const F& combine, detail::Location loc = detail::Location::current()) {
  return detail::combine_axis<ir::Opcode::Reduce>(detail::to_state(x), a, combine, false, loc);
}

// Inclusive prefix along an axis with an associative combine(earlier, later); from the end if reversed.
struct ScanOptions {
  bool reverse = false;
};
template <class X, detail::IsAxis A, class F>
  requires(detail::Operands<X> || IsTuple<X>)
auto associative_scan(const X& x, A a, const F& combine, ScanOptions options = {},
                      detail::Location loc = detail::Location::current()) {
  return detail::combine_axis<ir::Opcode::Scan>(detail::to_state(x), a, combine, options.reverse, loc);
}

namespace detail {
template <ir::Opcode Combine, class X, class A> auto ready_scan(const X& x, A, bool reverse, Location loc) {
  if constexpr (IsPoison<X>) {
    return Poison{};
  } else if constexpr (check_axis<A, shape_t<X>>()) {
    using T = sum_accumulator_t<element_t<X>>;
    using R = sum_t<element_t<X>>;
    using S = shape_t<X>;
    Handle h = emit_scan(Combine, record_value(x, loc), AxisIn<A, S>::value, reverse, type_info<T, S>);
    return tile_t<R, S>(emit_cast(h, dtype_of<R>));
  } else {
    return Poison{};
  }
}
} // namespace detail

template <class X, detail::IsAxis A>
  requires detail::Operands<X>
auto cumsum(const X& x, A a, ScanOptions options = {}, detail::Location loc = detail::Location::current()) {
  return detail::ready_scan<ir::Opcode::Add>(x, a, options.reverse, loc);
}
template <class X, detail::IsAxis A>
  requires detail::Operands<X>
auto cumprod(const X& x, A a, ScanOptions options = {}, detail::Location loc = detail::Location::current()) {
  return detail::ready_scan<ir::Opcode::Mul>(x, a, options.reverse, loc);
}

} // namespace kiln
