// Passes more dimensions to program_tile than the view has axes.
// expect: program_tile takes at most one dimension for each axis of the view
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<float, 1> x) { auto [m, n] = program_tile(x, BM, BN); }
