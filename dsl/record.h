// Records a C++ lambda as tile IR. This is for the library and its tests; authors of kernels use `kernel`.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/dsl/recipe.h>

#include <memory>

namespace kiln {

namespace detail {
// Runs the recipe's lambda for `config`. `where` is the location of UserErrors that have no other one.
// Thread-safe: each thread has its own recording.
std::unique_ptr<ir::Kernel> record_recipe(const Recipe& recipe, const Config& config, Location where);

} // namespace detail

// Records `function`, the lambda of a kernel, for `config`. UserError if the lambda makes a mistake.
template <class F>
std::unique_ptr<ir::Kernel> record(const char* name, const F& function, const Config& config = {},
                                   detail::Location where = detail::Location::current()) {
  return detail::record_recipe(detail::make_recipe(name, function), config, where);
}

} // namespace kiln
