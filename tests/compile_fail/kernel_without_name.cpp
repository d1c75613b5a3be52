// Makes kernels without a name, and with the name last.
// expect: a kernel needs a name: write kernel("name"
// expect: the name of a kernel comes first and is a string literal
#include <kiln/kiln.h>

using namespace kiln;

const auto first = kernel([](View<float, 1>) {});
const auto second = kernel([](View<float, 1>) {}, "second");
