// Defines the loops of kernels: for_range and while_loop. (A native C++ `for` runs while the kernel is
// recorded.) Branches are in branch.h, and Var, an alternative to the state of a loop, is in var.h.
//
//   auto acc = for_range(BK, n, zeros<float>(BM),
//                        [&](auto k, auto acc) { return acc + x.tile(m, k).load(); });
//   auto [a, b] = for_range(0, n, 1, state(a0, b0),
//                           [&](auto i, auto a, auto b) { return state(a + b, b * i); });
//
// The state of a loop is the value that each iteration passes to the next. The body takes the state and
// returns the next one, which has the same dtypes and dimensions. Several values become one state with
// state(a, b), which the body may take as separate parameters.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/state.h>

KILN_API_BEGIN
namespace kiln {

// Hints for the compilation of a loop. `stages` is the number of iterations whose loads are in flight at
// once; 0 stands for num_stages of the config, and a negative number throws UserError. No device uses it yet.
struct LoopOptions {
  int stages = 0;
};

// The bounds of a loop that does not start at zero: for_range(BK, range(begin, end), ...).
template <class B, class E> struct Range {
  using kiln_range = Range;
  B begin;
  E end;
};
template <class B, class E>
  requires detail::Operand<B> && detail::Operand<E>
auto range(const B& begin, const E& end) {
  auto b = detail::as_value(begin);
  auto e = detail::as_value(end);
  return Range<decltype(b), decltype(e)>{b, e};
}

namespace detail {
template <class X>
concept IsRange = requires { typename X::kiln_range; };
template <class X>
concept LoopBound = Operand<X> || IsRange<X>;

template <class X>
inline constexpr bool is_bound = IsRange<X> || IsPoison<X> || is_integer_scalar<X> || IsDimension<X>;

// Records a bound or step as an i64 scalar.
template <class X> Handle index_handle(const X& x) {
  if constexpr (is_integer_scalar<X> || IsDimension<X>)
    return emit_cast(as_operand<std::int64_t>(x).record(), DType::I64);
  else
    return {};
}

template <class Index, class S, class F>
auto record_loop(Handle lower, Handle upper, Handle step, const S& initial, const F& body,
                 LoopOptions options) {
  if constexpr (is_poisoned<S>) {
    return poison_like<S>{};
  } else {
    using Traits = StateTraits<S>;
    Handle handles[Traits::count + 1], arguments[Traits::count + 1];
    Traits::handles(initial, handles);
    RegionOp op(ir::Opcode::For, {lower, upper, step}, {handles, Traits::count});
    op.enter(arguments);
    Index index(arguments[0]);
    S carried = Traits::make(arguments + 1);
    if constexpr (std::is_same_v<S, Void>) {
      body(index);
    } else {
      auto next = call_body(body, carried, index);
      if constexpr (is_poisoned<decltype(next)>)
        Traits::handles(carried, handles);
      else
        state_handles<S>(next, handles);
    }
    op.leave({handles, Traits::count});
    if (options.stages != 0)
      op.finish(Traits::types, Traits::count, handles, {{"stages", options.stages}});
    else
      op.finish(Traits::types, Traits::count, handles);
    if constexpr (!std::is_same_v<S, Void>) return Traits::make(handles);
  }
}

template <class D, class E, class S, class F>
auto dimension_loop(const E& end, const S& initial, const F& body, LoopOptions options, Location loc) {
  set_location(loc);
  if constexpr (!is_bound<E> || IsPoison<E>) {
    return initial;
  } else {
    Handle step = DimensionNode<D>{}.record();
    if constexpr (IsRange<E>)
      return record_loop<Offset<D{}>>(index_handle(end.begin), index_handle(end.end), step, initial, body,
                                      options);
    else
      return record_loop<Offset<D{}>>(index_handle(0), index_handle(end), step, initial, body, options);
  }
}
template <class B, class E, class T, class S, class F>
auto scalar_loop(const B& begin, const E& end, const T& step, const S& initial, const F& body,
                 LoopOptions options, Location loc) {
  set_location(loc);
  if constexpr (IsPoison<B> || IsPoison<E> || IsPoison<T> || !is_bound<B> || !is_bound<E> || !is_bound<T>)
    return initial;
  else
    return record_loop<Scalar<std::int64_t>>(index_handle(begin), index_handle(end), index_handle(step),
                                             initial, body, options);
}
} // namespace detail

// Each overload of for_range instantiates the body itself, by naming the type of its result, and not in a
// function that it calls: each function in between would add three lines to what the compiler says about a
// mistake in the body.

// Runs body(k, state) for k = 0, D, 2 * D, ... while k < `end`, and returns the last state. k is an
// Offset<D>. `end` is an integer scalar, a number or a range(begin, end); bounds are i64. If the range is
// empty, nothing runs, and the result is the initial state.
template <detail::IsDimension D, detail::LoopBound E, class S, class F>
auto for_range(D, const E& end, const S& initial, const F& body, LoopOptions options = {},
               detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<E>, "for_range needs integer scalars as bounds and step");
  static_assert(
      detail::is_state<S>,
      "the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple");
  if constexpr (!detail::is_state<S>) {
    return initial;
  } else {
    using Next = decltype(detail::probe<F>()(std::declval<const Offset<D{}>&>(),
                                             std::declval<const detail::state_t<S>&>()));
    constexpr bool takes = detail::matches<Next>;
    static_assert(takes, "the body of for_range takes the index and the state");
    constexpr bool same = !takes || detail::returns<detail::state_t<S>, Next>;
    static_assert(
        same,
        "the body of for_range must return the next state, of the initial state's dtype and dimensions");
    if constexpr (takes && same)
      return detail::dimension_loop<D>(end, detail::to_state(initial), body, options, loc);
    else
      return detail::to_state(initial);
  }
}
// Runs body(k, a, b), or body(k, state) if the body takes that, for k = 0, D, 2 * D, ... while k < `end`, and
// returns the last state. The state has several values: `initial` is state(a, b), and the body returns the
// next state as state(...).
template <detail::IsDimension D, detail::LoopBound E, class... S, class F>
auto for_range(D, const E& end, const Tuple<S...>& initial, const F& body, LoopOptions options = {},
               detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<E>, "for_range needs integer scalars as bounds and step");
  using Together = decltype(detail::probe<F>()(std::declval<const Offset<D{}>&>(), initial));
  if constexpr (detail::matches<Together>) {
    constexpr bool same = detail::returns<Tuple<S...>, Together>;
    static_assert(same, "the body of for_range must return the next states, state(...), of the initial ones' "
                        "dtypes and dimensions");
    if constexpr (same)
      return detail::dimension_loop<D>(end, initial, body, options, loc);
    else
      return initial;
  } else {
    using Next =
        decltype(detail::probe<F>()(std::declval<const Offset<D{}>&>(), std::declval<const S&>()...));
    constexpr bool takes = detail::matches<Next>;
    static_assert(takes, "the body of for_range takes the index and one parameter for each state");
    constexpr bool same = !takes || detail::returns<Tuple<S...>, Next>;
    static_assert(same, "the body of for_range must return the next states, state(...), of the initial ones' "
                        "dtypes and dimensions");
    if constexpr (takes && same)
      return detail::dimension_loop<D>(end, initial, body, options, loc);
    else
      return initial;
  }
}
// Runs body(k) for k = 0, D, 2 * D, ... while k < `end`. The body only has side effects, and returns nothing.
template <detail::IsDimension D, detail::LoopBound E, class F>
void for_range(D, const E& end, const F& body, LoopOptions options = {},
               detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<E>, "for_range needs integer scalars as bounds and step");
  using Next = decltype(detail::probe<F>()(std::declval<const Offset<D{}>&>()));
  constexpr bool takes = detail::matches<Next>;
  static_assert(takes, "the body of a for_range without a state takes only the index");
  static_assert(
      !takes || detail::returns_nothing<Next>,
      "the body's result is not used: pass a state, for_range(BN, n, state, body), or return nothing");
  if constexpr (takes) detail::dimension_loop<D>(end, detail::Void{}, body, options, loc);
}
// Runs body(i, state) for i = begin, begin + step, ... while i < `end`, and returns the last state. i is an
// i64 scalar. Bounds and step are integer scalars or numbers; if the step is not positive, nothing runs. Of
// the next two overloads, one takes several values in the state, and the other has no state.
template <class B, class E, class T, class S, class F>
  requires(!detail::IsDimension<B> && detail::Operand<B>)
auto for_range(const B& begin, const E& end, const T& step, const S& initial, const F& body,
               LoopOptions options = {}, detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<B> && detail::is_bound<E> && detail::is_bound<T>,
                "for_range needs integer scalars as bounds and step");
  static_assert(
      detail::is_state<S>,
      "the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple");
  using Index = Scalar<std::int64_t>;
  if constexpr (!detail::is_state<S>) {
    return initial;
  } else {
    using Next =
        decltype(detail::probe<F>()(std::declval<const Index&>(), std::declval<const detail::state_t<S>&>()));
    constexpr bool takes = detail::matches<Next>;
    static_assert(takes, "the body of for_range takes the index and the state");
    constexpr bool same = !takes || detail::returns<detail::state_t<S>, Next>;
    static_assert(
        same,
        "the body of for_range must return the next state, of the initial state's dtype and dimensions");
    if constexpr (takes && same)
      return detail::scalar_loop(begin, end, step, detail::to_state(initial), body, options, loc);
    else
      return detail::to_state(initial);
  }
}
template <class B, class E, class T, class... S, class F>
  requires(!detail::IsDimension<B> && detail::Operand<B>)
auto for_range(const B& begin, const E& end, const T& step, const Tuple<S...>& initial, const F& body,
               LoopOptions options = {}, detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<B> && detail::is_bound<E> && detail::is_bound<T>,
                "for_range needs integer scalars as bounds and step");
  using Index = Scalar<std::int64_t>;
  using Together = decltype(detail::probe<F>()(std::declval<const Index&>(), initial));
  if constexpr (detail::matches<Together>) {
    constexpr bool same = detail::returns<Tuple<S...>, Together>;
    static_assert(same, "the body of for_range must return the next states, state(...), of the initial ones' "
                        "dtypes and dimensions");
    if constexpr (same)
      return detail::scalar_loop(begin, end, step, initial, body, options, loc);
    else
      return initial;
  } else {
    using Next = decltype(detail::probe<F>()(std::declval<const Index&>(), std::declval<const S&>()...));
    constexpr bool takes = detail::matches<Next>;
    static_assert(takes, "the body of for_range takes the index and one parameter for each state");
    constexpr bool same = !takes || detail::returns<Tuple<S...>, Next>;
    static_assert(same, "the body of for_range must return the next states, state(...), of the initial ones' "
                        "dtypes and dimensions");
    if constexpr (takes && same)
      return detail::scalar_loop(begin, end, step, initial, body, options, loc);
    else
      return initial;
  }
}
template <class B, class E, class T, class F>
  requires(!detail::IsDimension<B> && detail::Operand<B>)
void for_range(const B& begin, const E& end, const T& step, const F& body, LoopOptions options = {},
               detail::Location loc = detail::Location::current()) {
  static_assert(detail::is_bound<B> && detail::is_bound<E> && detail::is_bound<T>,
                "for_range needs integer scalars as bounds and step");
  using Next = decltype(detail::probe<F>()(std::declval<const Scalar<std::int64_t>&>()));
  constexpr bool takes = detail::matches<Next>;
  static_assert(takes, "the body of a for_range without a state takes only the index");
  static_assert(
      !takes || detail::returns_nothing<Next>,
      "the body's result is not used: pass a state, for_range(BN, n, state, body), or return nothing");
  if constexpr (takes) detail::scalar_loop(begin, end, step, detail::Void{}, body, options, loc);
}
template <class B, class E, class F>
  requires(!detail::IsDimension<B> && detail::Operand<B> && detail::Operand<E> && !detail::Operand<F>)
Poison for_range(const B&, const E&, const F&) {
  static_assert(detail::never<F>, "for_range over scalars takes a step: for_range(begin, end, 1, body)");
  return {};
}
// Reports all other arguments. (A pack of parameters makes it worse than the overloads above.)
template <class... X> Poison for_range(const X&...) {
  static_assert(
      detail::never<X...>,
      "for_range takes a dimension and the end, or begin, end and step; then the state, if any, and "
      "the body: for_range(BN, n, acc, body), for_range(0, n, 1, body)");
  return {};
}

namespace detail {
// Returns whether X can be a condition: a scalar bool, or Poison.
template <class X> constexpr bool flag_fits() {
  if constexpr (IsPoison<X>)
    return true;
  else if constexpr (TileLike<X>)
    return rank_of<X> == 0 && is_bool_operand<X>;
  else
    return false;
}
template <class X> inline constexpr bool is_flag = flag_fits<X>();
} // namespace detail

// Repeats state = body(state) while condition(state), a scalar bool, is true, and returns the last state.
// Both functions may take the state as a whole or in parts. The condition must not assign a Var.
template <class S, class C, class F>
auto while_loop(const S& initial, const C& condition, const F& body,
                detail::Location loc = detail::Location::current()) {
  using namespace detail;
  static_assert(
      is_state<S>,
      "the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple");
  if constexpr (!is_state<S>) {
    return initial;
  } else if constexpr (is_poisoned<state_t<S>>) {
    return poison_like<state_t<S>>{};
  } else {
    using State = state_t<S>;
    using Flag = typename BodyResult<C, State>::type;
    using Next = typename BodyResult<F, State>::type;
    static_assert(matches<Flag>,
                  "the condition of while_loop takes the state, or one parameter for each of its parts");
    constexpr bool asks = !matches<Flag> || is_flag<Flag>;
    static_assert(
        asks,
        "the condition of while_loop must be a scalar bool: compare scalars, or reduce with any or all");
    static_assert(matches<Next>,
                  "the body of while_loop takes the state, or one parameter for each of its parts");
    constexpr bool same = !matches<Next> || returns<State, Next>;
    static_assert(
        same || IsTuple<S>,
        "the body of while_loop must return the next state, of the initial state's dtype and dimensions");
    static_assert(same || !IsTuple<S>, "the body of while_loop must return the next states, state(...), of "
                                       "the initial ones' dtypes and dimensions");
    if constexpr (matches<Flag> && asks && matches<Next> && same) {
      set_location(loc);
      using Traits = StateTraits<State>;
      Handle handles[Traits::count], arguments[Traits::count];
      Traits::handles(to_state(initial), handles);
      RegionOp op(ir::Opcode::While, {}, {handles, Traits::count});
      op.enter(arguments);
      auto go_on = call_body(condition, Traits::make(arguments));
      Handle flag;
      if constexpr (!IsPoison<Flag>) flag = as_tile(go_on).record();
      op.leave({flag});
      op.enter(arguments);
      auto next = call_body(body, Traits::make(arguments));
      if constexpr (!is_poisoned<Next>) state_handles<State>(next, handles);
      op.leave({handles, Traits::count});
      op.finish(Traits::types, Traits::count, handles);
      return Traits::make(handles);
    } else {
      return to_state(initial);
    }
  }
}

template <class C, class F> void while_loop(const C&, const F&) {
  static_assert(detail::never<F>, "while_loop takes the state first: while_loop(state, condition, body)");
}

} // namespace kiln
KILN_API_END
