// What loops carry and branches return: one tile, or several as a tuple.
#pragma once

#include <kiln/dsl/detail/state_mistakes.h>
#include <kiln/dsl/detail/tuple.h>
#include <kiln/dsl/operators.h>

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

// Several tiles as one state or result; taken apart by structured bindings: auto [m, l] = for_range(...,
// state(m0, l0), ...).
template <class... X>
  requires(detail::Operand<X> && ...)
auto state(const X&... x) {
  return Tuple<decltype(detail::recorded(x))...>{{{detail::recorded(x)}...}};
}
// The same, for the operands of reductions and scans.
template <class... X>
  requires(detail::Operand<X> && ...)
auto tie(const X&... x) {
  return state(x...);
}

namespace detail {
// A state as an array of handles and back. `Void` stands for no state.
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

// A tuple of the standard library, which is no state.
template <class X>
concept StdTuple = !IsTuple<X> && requires { std::tuple_size<X>::value; };
template <class X> inline constexpr bool is_state = Operand<X> || IsTuple<X> || std::is_same_v<X, Void>;

// What stands for a result that could not be formed: as many Poisons as the state has parts, so that
// structured bindings make no second error.
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

// The canonical state of an initial value or a body's result.
template <class X> auto to_state(const X& x) {
  if constexpr (IsTuple<X> || std::is_same_v<X, Void>)
    return x;
  else
    return recorded(x);
}
// A body's result in the state's type; numbers take its dtype.
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

// Calls body(first..., state), or with the state's parts one by one if that is how the body takes them. Never
// through the standard library, whose frames would bury the user's error.
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

// What a body returns for these parameters; NoMatch if it takes others. (Tried with a function that takes
// anything beside it, and not with `requires`: that would add ten lines to what clang says about a mistake in
// the body.)
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

// The same for a state, which a body may take whole or in parts.
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

// What a body may return: the state's type, or Poison.
template <class S, class X>
inline constexpr bool returns = is_poisoned<S> || is_poisoned<X> || returns_state<S, X>();
} // namespace detail
} // namespace kiln
