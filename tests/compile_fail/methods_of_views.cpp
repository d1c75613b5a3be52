// Calls methods of views with wrong arguments, and methods that they do not have.
// expect: view.slice takes an axis, and two integers: view.slice(1, begin, end)
// expect: an axis of a view is a number of the host: view.slice(1, begin, end)
// expect: an axis of a view is a number of the host: view.extent(1)
// expect: view.size() counts all elements: for those along one axis write view.extent(1)
// expect: a view has one extent for each axis: write view.extent(0)
// expect: one index of a view is an argument of tile: write view.tile(i, n)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<const float, 2> x, Scalar<int> s) {
  x.slice(1, 5);
  x.slice(s, 0, 5);
  x.extent(s);
  x.size(0);
  x.shape();
  x.select(0, 1);
}
