// Changes the number of elements by a reshape.
// expect: reshape must keep the number of elements
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Tile<float, 16, 4> x) { auto y = reshape(x, 8_c, 4_c); }
