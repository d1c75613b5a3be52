// Defines the branches of kernels: if_else and if_then. (A native C++ `if` runs while the kernel is
// recorded.)
//
//   auto scale = if_else(n > 0, [&] { return 1.0f / sum; }, [&] { return Scalar<float>(0); });
//   if_then(pid == 0, [&] { count.at(0).store(n); });
//
// Several results become one with state(a, b), as in loops.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/state.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class C> inline constexpr bool is_host_condition = Number<C> || IsDimension<C>;
template <class C>
inline constexpr bool is_condition =
    is_host_condition<C> || IsPoison<C> || (operand_shape_t<C>::rank == 0 && is_bool_operand<C>);
template <class F> inline constexpr bool is_branch = requires(const F& f) { f(); };

// Returns a null pointer to the result type of a branch, or Poison if F cannot be called without arguments.
template <class F> auto branch_result() {
  if constexpr (is_branch<F>)
    return static_cast<decltype(std::declval<const F&>()())*>(nullptr);
  else
    return static_cast<Poison*>(nullptr);
}
template <class F> using branch_t = std::remove_pointer_t<decltype(branch_result<F>())>;

template <class A, class B> constexpr bool branches_agree() {
  if constexpr (IsPoison<A> || IsPoison<B>)
    return true;
  else if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else if constexpr (is_state<A>)
    return returns<state_t<A>, B>;
  else
    return true;
}
} // namespace detail

// Runs then() if the condition, a scalar bool, is true, and otherwise() if it is false. Only the branch that
// is taken accesses memory. Returns the result of that branch. Both branches must return the same dtypes and
// dimensions, or nothing.
template <class C, class T, class F>
  requires detail::Operand<C>
auto if_else(const C& condition, const T& then, const F& otherwise,
             detail::Location loc = detail::Location::current()) {
  using namespace detail;
  static_assert(!is_host_condition<C>, "this condition is known while recording: write a native if");
  static_assert(
      is_condition<C>,
      "the condition of a branch must be a scalar bool: for tiles use where, or reduce with any or all");
  constexpr bool branches = is_branch<T> && is_branch<F>;
  static_assert(branches, "a branch is a function without parameters, [&] { return a; }: to choose between "
                          "values write where(condition, a, b)");
  using A = branch_t<T>;
  using B = branch_t<F>;
  constexpr bool states = std::is_void_v<A> || is_state<A>;
  static_assert(states,
                "a branch returns a tile, a number, or several of them as state(a, b), not a std::tuple");
  constexpr bool agree = branches_agree<A, B>();
  static_assert(agree, "both branches of if_else must return the same dtype and dimensions, or nothing");
  if constexpr (std::is_void_v<A>) {
    if constexpr (!is_host_condition<C> && !IsPoison<C> && is_condition<C> && branches && agree) {
      set_location(loc);
      RegionOp op(ir::Opcode::If, {as_tile(condition).record()}, {});
      op.enter(nullptr);
      then();
      op.leave({});
      op.enter(nullptr);
      otherwise();
      op.leave({});
      op.finish(nullptr, 0, nullptr);
    }
  } else if constexpr (!states) {
    return poison_like<A>{};
  } else if constexpr (is_host_condition<C> || IsPoison<C> || !is_condition<C> || !branches || !agree ||
                       is_poisoned<state_t<A>> || is_poisoned<B>) {
    return poison_like<state_t<A>>{};
  } else {
    set_location(loc);
    using State = state_t<A>;
    using Traits = StateTraits<State>;
    Handle handles[Traits::count];
    RegionOp op(ir::Opcode::If, {as_tile(condition).record()}, {});
    op.enter(nullptr);
    Traits::handles(to_state(then()), handles);
    op.leave({handles, Traits::count});
    op.enter(nullptr);
    state_handles<State>(otherwise(), handles);
    op.leave({handles, Traits::count});
    op.finish(Traits::types, Traits::count, handles);
    return Traits::make(handles);
  }
}

// Runs body(), which returns nothing, if the condition, a scalar bool, is true.
template <class C, class F>
  requires detail::Operand<C>
void if_then(const C& condition, const F& body, detail::Location loc = detail::Location::current()) {
  using namespace detail;
  static_assert(!is_host_condition<C>, "this condition is known while recording: write a native if");
  static_assert(
      is_condition<C>,
      "the condition of a branch must be a scalar bool: for tiles use where, or reduce with any or all");
  static_assert(is_branch<F>, "the body of if_then is a function without parameters: [&] { ... }");
  constexpr bool effects = returns_nothing<branch_t<F>>;
  static_assert(effects, "the result of if_then's body is not used: write if_else, or return nothing");
  if constexpr (!is_host_condition<C> && !IsPoison<C> && is_condition<C> && is_branch<F> && effects)
    if_else(condition, body, [] {}, loc);
}

// Reports a missing and an additional branch.
template <class C, class T> Poison if_else(const C&, const T&) {
  static_assert(detail::never<T>, "if_else takes two branches: with one write if_then(condition, body)");
  return {};
}
template <class C, class T, class F>
  requires(detail::Operand<C> && detail::is_branch<F>)
void if_then(const C&, const T&, const F&) {
  static_assert(detail::never<F>,
                "if_then takes one branch: with two write if_else(condition, then, otherwise)");
}

} // namespace kiln
KILN_API_END
