// Passes tiles of indices to view.tile, which takes offsets.
// expect: view.tile takes offsets and scalars: for tiles of indices use view.at
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 1> x, Tile<int, BM> i) { auto t = x.tile(i).load(); }
