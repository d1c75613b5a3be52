// Gives sizes as C++ integers, which are constants of the language with constant<N>.
// expect: offset takes a dimension: a KILN_DIM, or a constant such as 64_c (constant<N>
// expect: offset takes a dimension: a KILN_DIM, or a constant such as 64_c (constant<N>
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<float, 1> x) {
  constexpr int D = 64;
  auto a = offset(D, 0);
  auto b = offset(32, x.size());
}
