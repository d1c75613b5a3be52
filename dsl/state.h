// Defines state(a, b), which makes one value of several tiles, for loops to carry and for branches to return.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/state_mistakes.h>
#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/operators.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class X> auto recorded(const X& x) {
  if constexpr (IsPoison<X>) {
    return Poison{};
  } else {
    auto v = as_value(x);
    return tile_of_t<decltype(v)>(v.record());
  }
}
} // namespace detail

// Makes one state of a loop, or one result of a branch, of several tiles, scalars or numbers. Structured
// bindings unpack it again:
//
//   auto [m, l] = for_range(BN, n, state(m0, l0), body);
template <class... X>
  requires((detail::Operand<X> && ...) && sizeof...(X) != 1)
auto state(const X&... x) {
  return Tuple<decltype(detail::recorded(x))...>{{{detail::recorded(x)}...}};
}
template <class X>
  requires detail::Operand<X>
auto state(const X& x) {
  static_assert(detail::never<X>, "a single value is a state by itself: pass x, not state(x)");
  return detail::recorded(x);
}
// Makes one operand of reduce or associative_scan of several tiles. It is another name of state().
template <class... X>
  requires(detail::Operand<X> && ...)
auto tie(const X&... x) {
  return Tuple<decltype(detail::recorded(x))...>{{{detail::recorded(x)}...}};
}

namespace detail {
// Converts a state to an array of handles and back. `Void` is the state of a loop without a state.
struct Void {};

template <class S> struct StateTraits { // one tile
  static constexpr int count = 1;
  static constexpr const TypeInfo* types[] = {&type_info<element_t<S>, shape_t<S>>};
  static void handles(const S& s, Handle* out) { *out = s.record(); }
  static S make(const Handle* h) { return S(*h); }
};
template <class... T> struct StateTraits<Tuple<T...>> {
  static constexpr int count = sizeof...(T);
  static constexpr const TypeInfo* types[] = {&type_info<element_t<T>, shape_t<T>>...};
  static void handles(const Tuple<T...>& s, Handle* out) {
    fill(s, out, std::make_index_sequence<sizeof...(T)>{});
  }
  static Tuple<T...> make(const Handle* h) { return {{{T(*h++)}...}}; }

private:
  template <std::size_t... I> static void fill(const Tuple<T...>& s, Handle* out, std::index_sequence<I...>) {
    ((out[I] = s.template get<I>().record()), ...);
  }
};
template <> struct StateTraits<Void> {
  static constexpr int count = 0;
  static constexpr const TypeInfo* types[] = {nullptr};
  static void handles(Void, Handle*) {}
  static Void make(const Handle*) { return {}; }
};

template <class X> inline constexpr bool is_poisoned = IsPoison<X>;
template <class... T> inline constexpr bool is_poisoned<Tuple<T...>> = (IsPoison<T> || ...);

// A tuple of the standard library, which cannot be a state.
template <class X>
concept StdTuple = !IsTuple<X> && !TileLike<X> && requires { std::tuple_size<X>::value; };
template <class X> inline constexpr bool is_state = Operand<X> || IsTuple<X> || std::is_same_v<X, Void>;

// The type that replaces a result after a mistake. It has as many Poisons as the state has parts, so that
// structured bindings cause no second error.
template <class X> struct PoisonLike {
  using type = Poison;
};
template <std::size_t> using poison_part = Poison;
template <class X>
  requires(IsTuple<X> || StdTuple<X>)
struct PoisonLike<X> {
  template <std::size_t... I> static Tuple<poison_part<I>...> make(std::index_sequence<I...>);
  using type = decltype(make(std::make_index_sequence<std::tuple_size<X>::value>{}));
};
template <class X> using poison_like = typename PoisonLike<X>::type;

// Returns an initial value or the result of a body as a state: tuples stay as they are, anything else is
// recorded.
template <class X> auto to_state(const X& x) {
  if constexpr (IsTuple<X> || std::is_same_v<X, Void>)
    return x;
  else
    return recorded(x);
}
// Returns whether a body that returns an X returns the next state S. A number may stand for a scalar of its
// dtype.
template <class S, class X> constexpr bool returns_state() {
  if constexpr (Number<X>) {
    if constexpr (TileLike<S>)
      return rank_of<S> == 0 && number_rank<X> <= class_rank(operand_dtype<S>());
    else
      return false;
  } else if constexpr (TileLike<X> && TileLike<S>) {
    return std::is_same_v<element_t<X>, element_t<S>> && std::is_same_v<shape_t<X>, shape_t<S>>;
  } else {
    return std::is_same_v<S, X>;
  }
}
template <class S, class X> void state_handles(const X& x, Handle* out) {
  if constexpr (Number<X>)
    *out = as_operand<element_t<S>>(x).record();
  else if constexpr (TileLike<X>)
    *out = as_tile(x).record();
  else
    StateTraits<S>::handles(x, out);
}

// Calls body(first..., state), or body(first..., parts...) if the body takes the parts of the state one by
// one. It does not use std::apply, whose instantiation frames would hide the error of the user.
template <class F, class... T, std::size_t... I, class... First>
auto call_apart(const F& body, const Tuple<T...>& s, std::index_sequence<I...>, const First&... first) {
  return body(first..., s.template get<I>()...);
}
template <class F, class S, class... First> auto call_body(const F& body, const S& s, const First&... first) {
  if constexpr (std::is_same_v<S, Void>) {
    return body(first...);
  } else if constexpr (IsTuple<S>) {
    if constexpr (requires { body(first..., s); })
      return body(first..., s);
    else
      return call_apart(body, s, std::make_index_sequence<S::size>{}, first...);
  } else {
    return body(first..., s);
  }
}
template <class X> using state_t = decltype(to_state(std::declval<const X&>()));

// Finds the type that a body returns for given parameters: `probe<F>()(...)` has the type NoMatch if the body
// takes others. (A second overload that takes anything decides this. `requires` would add ten lines to what
// clang says about a mistake in the body.)
struct NoMatch {};
template <class F> struct BodyOrNoMatch : F {
  using F::operator();
  NoMatch operator()(...) const;
};
template <class R, class... P> struct BodyOrNoMatch<R(P...)> {
  R operator()(P...) const;
  NoMatch operator()(...) const;
};
template <class R, class... P> struct BodyOrNoMatch<R (*)(P...)> : BodyOrNoMatch<R(P...)> {};
template <class F> const BodyOrNoMatch<F>& probe();
template <class Next> inline constexpr bool matches = !std::is_same_v<Next, NoMatch>;

// Finds the type that a body returns for the state S, which it may take as a whole or in parts. The type is
// NoMatch if the body takes neither.
template <class F, class S> struct BodyResult {
  using type = decltype(probe<F>()(std::declval<const S&>()));
};
template <class F, class Whole, class... T> struct PartsResult {
  using type = Whole;
};
template <class F, class... T> struct PartsResult<F, NoMatch, T...> {
  using type = decltype(probe<F>()(std::declval<const T&>()...));
};
template <class F, class... T> struct BodyResult<F, Tuple<T...>> {
  using whole = decltype(probe<F>()(std::declval<const Tuple<T...>&>()));
  using type = typename PartsResult<F, whole, T...>::type;
};

// Whether a body may return an X: the type of the state, or Poison.
template <class S, class X>
inline constexpr bool returns = is_poisoned<S> || is_poisoned<X> || returns_state<S, X>();

// Whether a body whose result has type Next returned nothing, as the body of a loop without a state must.
// Poison, the result of a mistake that was already reported, passes.
template <class Next> inline constexpr bool returns_nothing = std::is_void_v<Next> || IsPoison<Next>;

} // namespace detail
} // namespace kiln
KILN_API_END
