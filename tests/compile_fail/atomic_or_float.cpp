// Updates floats by bitwise atomics.
// expect: floats have no atomic_and: use atomic_exchange, or pointers to integers
// expect: floats have no atomic_or: use atomic_exchange, or a view of integers
// expect: floats have no atomic_xor: use atomic_exchange, or a view of integers
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<float, 1> x, raw::Ptr<float> p) {
  raw::atomic_and(p, 1.0f);
  x.at(0).atomic_or(1.0f);
  x.at(0).atomic_xor(1.0f, true);
}
