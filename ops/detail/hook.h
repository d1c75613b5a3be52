// Passes a user's lambda into the kernel of an op, whose body is compiled in the library.
//
// A lambda is identified by its type, so it has no captures: values that it needs are further tensors of the
// call, which it gets as views. It may be recorded several times, so it only computes and reads: the library
// checks what it recorded.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/language.h>
#include <kiln/dsl/recipe.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <type_traits>
#include <utility>

KILN_API_BEGIN
namespace kiln::ops::detail {

using kiln::detail::Handle;
using kiln::detail::ParameterInfo;

// A lambda and the types of its views, without its C++ type. There is one object for each lambda type.
struct Hook {
  DType compute; // the dtype of the values that it gets: F32 or F64
  // Calls the lambda with values of the kernel, as the op defines them, and its views. Returns the result.
  Handle (*record)(const Handle* values, const Handle* views);
  const ParameterInfo* views;
  int view_count;
};

// Calls the lambda while a kernel is recorded. Throws UserError, with the line of the lambda, if it recorded
// anything that does not compute each element for itself. `what` names it: "ops::matmul: the epilogue".
Handle record_hook(const Hook& hook, const Handle* values, const Handle* views, const char* what);

template <class F>
inline constexpr bool is_hook =
    std::is_class_v<F> && std::is_empty_v<F> && std::is_default_constructible_v<F>;

// A tensor argument as the read-only view that the lambda gets.
template <class V> struct HookView;
template <class T, int Rank> struct HookView<TensorView<T, Rank>> {
  using view = View<const std::remove_const_t<T>, Rank>;
};
template <class T, int Rank> struct HookView<Tensor<T, Rank>> : HookView<TensorView<T, Rank>> {};
template <class V> using hook_view_t = typename HookView<std::remove_cvref_t<V>>::view;
template <class V>
inline constexpr bool is_hook_tensor = requires { typename HookView<std::remove_cvref_t<V>>::view; };

// The element type of the tensor that an op writes. It decides the dtype of the values that lambdas get.
template <class C> struct OutputElement;
template <class T, int Rank> struct OutputElement<TensorView<T, Rank>> {
  using type = T;
};
template <class T, int Rank> struct OutputElement<Tensor<T, Rank>> {
  using type = T;
};

// The object of the lambda F, which Call calls: a class with record<F, Views...>(values, views).
template <class Call, class F, class... Views>
inline constexpr Hook hook_of{Call::compute,
                              [](const Handle* values, const Handle* views) {
                                return [&]<int... I>(std::integer_sequence<int, I...>) {
                                  return Call::template record<F>(values, Views(views[I])...);
                                }(std::make_integer_sequence<int, sizeof...(Views)>{});
                              },
                              kiln::detail::parameter_infos<Views...>, sizeof...(Views)};

} // namespace kiln::ops::detail
KILN_API_END
