// Defines Poison, which takes the place of results that do not exist because of a mistake.
#pragma once

#include <kiln/dsl/api.h>

KILN_API_BEGIN
namespace kiln {

// The result of an operation that failed to compile. Every operation accepts it silently and returns Poison
// again, so that one mistake gives one error.
struct Poison {
  template <class... X> Poison load(X&&...) const { return {}; }
  template <class... X> Poison load_or(X&&...) const { return {}; }
  template <class... X> void store(X&&...) const {}
  template <class... X> Poison gather(X&&...) const { return {}; }
  template <class... X> void scatter(X&&...) const {}
  template <class... X> Poison tile(X&&...) const { return {}; }
  template <class... X> Poison at(X&&...) const { return {}; }
  template <class... X> Poison slice(X&&...) const { return {}; }
  template <class... X> Poison extent(X&&...) const { return {}; }
  template <class... X> Poison size(X&&...) const { return {}; }
  template <class... X> Poison ptrs(X&&...) const { return {}; }
  template <class... X> Poison mask(X&&...) const { return {}; }
  template <class... X> Poison atomic_add(X&&...) const { return {}; }
  template <class... X> Poison atomic_min(X&&...) const { return {}; }
  template <class... X> Poison atomic_max(X&&...) const { return {}; }
  template <class... X> Poison atomic_and(X&&...) const { return {}; }
  template <class... X> Poison atomic_or(X&&...) const { return {}; }
  template <class... X> Poison atomic_xor(X&&...) const { return {}; }
  template <class... X> Poison atomic_exchange(X&&...) const { return {}; }
  template <class... X> Poison atomic_compare_exchange(X&&...) const { return {}; }
  template <class X> Poison operator[](const X&) const { return {}; }
  template <class X> const Poison& operator=(const X&) const { return *this; }
  explicit operator bool() const { return false; }
};

} // namespace kiln
KILN_API_END
