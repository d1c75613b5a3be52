// Declares a parameter of a kernel with a type of the host.
// expect: a kernel's parameters must be View<T, Rank>, Scalar<T> or raw::Ptr<T>
#include <kiln/dsl/language.h>

using namespace kiln;

auto recipe = detail::make_recipe("kernel", [](View<float, 1> x, const char* name) { (void)x, (void)name; });
