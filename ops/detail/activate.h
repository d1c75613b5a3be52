// Applies an activation function to a tile. The function is chosen while the kernel is recorded.
#pragma once

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

} // namespace kiln::ops::detail
