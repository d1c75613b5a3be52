// Indexes a view with a float.
// expect: view.tile takes offsets (from program_tile or for_range) and integers
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 2> x, Offset<BM> m, Scalar<float> i) { auto t = x.tile(m, i).load(); }
