// Defines the control flow of kernels: for_range, while_loop, if_else, if_then and Var. (A native C++ `for`
// or `if` runs while the kernel is recorded.)
//
//   auto acc = for_range(BK, n, zeros<float>(BM),
//                        [&](auto k, auto acc) { return acc + x.tile(m, k).load(); });
//   auto [a, b] = for_range(0, n, 1, state(a0, b0),
//                           [&](auto i, auto a, auto b) { return state(a + b, b * i); });
//   Var<float> best = 0;
//   for_range(BK, n, [&](auto k) { best = max(best, max(x.tile(k).load())); });
//
// The state of a loop is the value that each iteration passes to the next. The body takes the state and
// returns the next one, which has the same dtypes and dimensions. Several values become one state with
// state(a, b), which the body may take as separate parameters. Branches can return states too.
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

// Whether a body whose result has type Next returned nothing, as the body of a loop without a state must.
// Poison, the result of a mistake that was already reported, passes.
template <class Next> inline constexpr bool returns_nothing = std::is_void_v<Next> || IsPoison<Next>;

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

// --- Assignable state --------------------------------------------------------------------------------------

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

} // namespace kiln
KILN_API_END
