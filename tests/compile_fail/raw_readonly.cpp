// Stores through a pointer to const.
// expect: the pointer is to const: declare the parameter as raw::Ptr<T> to write to it
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(raw::Ptr<const float> p, Tile<int, BM> i) { raw::store(p + i, 1.0f); }
