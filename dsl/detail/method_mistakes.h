// Reports methods of arrays in other languages, such as x.sum(), which Kiln has as functions.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/poison.h>
#include <kiln/dsl/detail/traits.h>

KILN_API_BEGIN
namespace kiln::detail {

// The base class of all tiles. (Its members are templates of a class that is no template, so that a tile of
// another type costs the C++ compiler nothing.)
struct TileMethods : tile_functions::Associated {
  template <class... X> Poison sum(const X&...) const { return is_function<struct SumMethod, X...>(); }
  template <class... X> Poison max(const X&...) const { return is_function<struct MaxMethod, X...>(); }
  template <class... X> Poison min(const X&...) const { return is_function<struct MinMethod, X...>(); }
  template <class... X> Poison mean(const X&...) const { return is_function<struct MeanMethod, X...>(); }
  template <class... X> Poison exp(const X&...) const { return is_function<struct ExpMethod, X...>(); }
  template <class... X> Poison reshape(const X&...) const {
    return is_function<struct ReshapeMethod, X...>();
  }
  template <class... X> Poison transpose(const X&...) const {
    return is_function<struct TransposeMethod, X...>();
  }
  template <int... At, class... X> Poison expand(const X&...) const {
    return is_function<struct ExpandMethod, X...>();
  }
  template <class... T, class... X> Poison to(const X&...) const {
    static_assert(never<T..., X...>, "a tile is converted by a function: write cast<float>(x)");
    return {};
  }
  template <class... X> Poison load(const X&...) const {
    static_assert(never<X...>, "a tile is loaded already: load() belongs to view.tile(m, n)");
    return {};
  }
  template <class... X> Poison shape(const X&...) const {
    static_assert(never<X...>, "a tile's extents are its dimensions: write dim_size(BM), or value(BM)");
    return {};
  }
  template <class... X> Poison size(const X&...) const {
    static_assert(never<X...>, "a tile's extents are its dimensions: write dim_size(BM), or value(BM)");
    return {};
  }

private:
  template <class Method, class... X> static Poison is_function() {
    static_assert(never<Method, X...>, "operations on tiles are functions: write sum(x, BN) for x.sum(BN), "
                                       "reshape(x, BM * BN) and trans(x)");
    return {};
  }
};

// The base class of all views.
struct ViewMethods {
  template <class... X> Poison shape(const X&...) const {
    static_assert(never<X...>, "a view has one extent for each axis: write view.extent(0)");
    return {};
  }
  template <class... X> Poison transpose(const X&...) const {
    static_assert(never<X...>, "a kernel transposes tiles, trans(view.tile(m, n).load()); for the whole view "
                               "pass x.transpose() to the launch");
    return {};
  }
  template <class... X> Poison reshape(const X&...) const {
    static_assert(never<X...>, "a kernel reshapes tiles, reshape(x, BM * BN); for the whole view pass "
                               "x.reshape({n}) to the launch");
    return {};
  }
  template <class... X> Poison select(const X&...) const {
    static_assert(never<X...>, "one index of a view is an argument of tile: write view.tile(i, n)");
    return {};
  }
};

// Reports the use of a view as a native condition, in an exception specification as NoTruthValue does.
template <class V> struct ViewCondition {
  static_assert(never<V>, "a view is not a tile: load a tile of it first, view.tile(m, k).load()");
  static constexpr bool value = true;
};

} // namespace kiln::detail
KILN_API_END
