// Applies an activation function to a tile, or its derivative. The function is chosen while the kernel is
// recorded.
#pragma once

#include <kiln/dsl/detail/gradient.h>
#include <kiln/dsl/language.h>
#include <kiln/ops/activation.h>

namespace kiln::ops::detail {

template <class T, auto... D> Tile<T, D...> activate(Activation activation, const Tile<T, D...>& x) {
  switch (activation) {
  case Activation::relu: return relu(x);
  case Activation::gelu: return gelu(x);
  case Activation::silu: return silu(x);
  case Activation::none: break;
  }
  return x;
}

// Returns d times the derivative at x, where y = activate(activation, x).
template <class T, auto... D>
Tile<T, D...> activate_backward(const Tile<T, D...>& x, const Tile<T, D...>& y, const Tile<T, D...>& d) {
  return Tile<T, D...>(
      kiln::detail::emit_gradient(y.record(), x.record(), d.record(), "the derivative of an activation"));
}

} // namespace kiln::ops::detail
