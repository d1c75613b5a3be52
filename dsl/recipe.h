// Describes a kernel's lambda without its C++ type: the parameters, and a function that calls it.
//
// With a Recipe, code of the library, which is compiled once, can record a kernel for any config.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/raw.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {

// --- Parameters --------------------------------------------------------------------------------------------

template <class... P> struct ParameterList {
  static constexpr int size = sizeof...(P);
};

// How a parameter type is recorded: View, Scalar or raw::Ptr. Other types cannot be parameters.
template <class P> struct Parameter {
  static constexpr bool ok = false;
};
template <class T, int Rank, LayoutClass... Pinned> struct Parameter<View<T, Rank, Pinned...>> {
  static constexpr bool ok = true;
  using element = T;
  static constexpr ParameterInfo info{ParameterInfo::Kind::View, dtype_of<T>, std::is_const_v<T>, Rank,
                                      (ParameterInfo::not_pinned, ..., static_cast<int>(Pinned))};
  static View<T, Rank, Pinned...> make(const Handle& h) { return View<T, Rank, Pinned...>(h); }
};
template <class T> struct Parameter<Tile<T>> {
  static constexpr bool ok = true;
  using element = T;
  static constexpr ParameterInfo info{ParameterInfo::Kind::Scalar, dtype_of<T>, false, 0, 0};
  static Tile<T> make(const Handle& h) { return Tile<T>(h); }
};
template <class T> struct Parameter<Tile<T*>> {
  static constexpr bool ok = true;
  using element = T;
  static constexpr ParameterInfo info{ParameterInfo::Kind::Pointer, dtype_of<T>, std::is_const_v<T>, 0, 0};
  static Tile<T*> make(const Handle& h) { return Tile<T*>(h); }
};

// The parameters of a kernel's lambda as ParameterList<View<...>, ...>.
template <class F> struct ParametersOf;
template <class R, class... P> struct ParametersOf<R (*)(P...)> {
  using type = ParameterList<std::remove_cvref_t<P>...>;
};
template <class R, class C, class... P> struct ParametersOf<R (C::*)(P...) const> {
  using type = ParameterList<std::remove_cvref_t<P>...>;
};
template <class R, class C, class... P> struct ParametersOf<R (C::*)(P...)> {
  using type = ParameterList<std::remove_cvref_t<P>...>;
};
// False for a lambda with auto parameters, which does not have a single call operator.
template <class F>
inline constexpr bool has_parameters = std::is_pointer_v<F> || requires { &F::operator(); };
template <class F> constexpr auto call_operator() {
  if constexpr (std::is_pointer_v<F>)
    return F{};
  else if constexpr (has_parameters<F>)
    return &F::operator();
  else
    return static_cast<void (*)()>(nullptr);
}
template <class F>
using parameters_of = typename ParametersOf<decltype(call_operator<std::decay_t<F>>())>::type;

// --- Recording ---------------------------------------------------------------------------------------------

struct Recipe {
  const char* name;
  const ParameterInfo* parameters;
  int parameter_count;
  void (*call)(const void* function, const Handle* parameters);
  const void* function; // the lambda; not owned
};

template <class... P> inline constexpr ParameterInfo parameter_infos[] = {Parameter<P>::info..., {}};

template <class F, class... P> Recipe make_recipe(const char* name, const F& function, ParameterList<P...>) {
  if constexpr ((Parameter<P>::ok && ...)) {
    auto call = [](const void* f, const Handle* h) {
      [f, h]<int... I>(std::integer_sequence<int, I...>) {
        (*static_cast<const F*>(f))(Parameter<P>::make(h[I])...);
      }(std::make_integer_sequence<int, sizeof...(P)>{});
    };
    return {name, parameter_infos<P...>, sizeof...(P), call, &function};
  } else {
    return {};
  }
}
template <class... P> constexpr bool are_parameters(ParameterList<P...>) { return (Parameter<P>::ok && ...); }
template <class... P> constexpr bool some_number(ParameterList<P...>) { return (Number<P> || ...); }
template <class... P> constexpr bool some_pointer(ParameterList<P...>) {
  return ((std::is_pointer_v<P> && ElementType<std::remove_pointer_t<P>>) || ...);
}
template <class F> Recipe make_recipe(const char* name, const F& function) {
  static_assert(has_parameters<F>,
                "a kernel's parameters need types (View, Scalar or raw::Ptr): auto parameters have none");
  constexpr bool number = some_number(parameters_of<F>{});
  constexpr bool pointer = !number && some_pointer(parameters_of<F>{});
  static_assert(!number,
                "a kernel takes numbers as Scalar<float>, Scalar<int> and so on, not as float or int");
  static_assert(!pointer, "a kernel takes pointers as raw::Ptr<T>, not as T*");
  static_assert(number || pointer || are_parameters(parameters_of<F>{}),
                "a kernel's parameters must be View<T, Rank>, Scalar<T> or raw::Ptr<T>");
  if constexpr (has_parameters<F>)
    return make_recipe(name, function, parameters_of<F>{});
  else
    return {};
}

} // namespace detail
} // namespace kiln
KILN_API_END
