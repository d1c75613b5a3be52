// Uses a pointer parameter as a pointer of C++.
// expect: a pointer of the kernel is not a pointer of the host
// expect: a view is not a pointer: write view.data()
// expect: write raw::load(p) or raw::store(p, value)
// expect: a pointer is not indexed with []: write raw::load(p + i)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(raw::Ptr<float> p, View<float, 1> x) {
  float* a = p;
  float* b = x;
  *p = 1.0f;
  auto c = p[0];
}
