// From a C++ lambda to tile IR. For the library and tests: kernels' authors use `kernel`.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/dsl/recipe.h>

#include <memory>

namespace kiln {

namespace detail {
// Runs the recipe. UserErrors of the kernel carry its location. Thread-safe: each thread records on its own.
std::unique_ptr<ir::Kernel> record_recipe(const Recipe& recipe, const Config& config, Location where);

} // namespace detail

// Records a kernel for a config.
template <class F>
std::unique_ptr<ir::Kernel> record(const char* name, const F& function, const Config& config = {},
                                   detail::Location where = detail::Location::current()) {
  return detail::record_recipe(detail::make_recipe(name, function), config, where);
}

} // namespace kiln
