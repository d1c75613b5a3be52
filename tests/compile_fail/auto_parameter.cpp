// Declares a parameter of a kernel without a type.
// expect: a kernel's parameters need types (View, Scalar or raw::Ptr): auto parameters have none
#include <kiln/dsl/language.h>

using namespace kiln;

auto recipe = detail::make_recipe("kernel", [](auto x) { (void)x; });
