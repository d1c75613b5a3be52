// Makes views of pointers with wrong extents and strides.
// expect: the extents of raw::view are in braces: raw::view(p, {rows, cols})
// expect: the strides of raw::view are in braces: raw::view(p, {rows, cols}, {stride, 1})
// expect: raw::view takes as many strides as extents
// expect: raw::view takes a pointer: raw::view(x.data(), {rows, cols})
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<float, 2> x, raw::Ptr<float> p) {
  raw::view(p, 4, 4);
  raw::view(p, {4, 4}, 1);
  raw::view(p, {4, 4}, {1});
  raw::view(x, {4, 4});
}
