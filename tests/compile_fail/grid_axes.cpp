// Gives program_tile a number next to `each`, and more axes than a grid has.
// expect: program_tile takes dimensions: a KILN_DIM, or a constant such as 64_c
// expect: program_tile takes at most 4 dimensions: merge axes of the view, or use program_id
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void number(View<float, 2> y) { auto [m, n] = program_tile(y, each, 64); }
void five(View<float, 6> y) { auto [a, b, c, d, e] = program_tile(y, each, each, whole, BM, each, each); }
