// Passes a condition to where that is known while recording.
// expect: this condition is known while recording: write a native condition ? a : b, or if
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) { auto y = where(true, x, x * 2) * 2; }
