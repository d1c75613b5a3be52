// Gives the place of a tile as a number of elements without a dimension.
// expect: for the tile that begins there write view.tile(offset(BM, i)), for one element view.at(i)
// expect: for the tile that begins there write view.tile(offset(BM, i)), for one element view.at(i)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 1> y, Tile<float, BM> t) {
  y.tile(program_id(0) * 128).store(0.0f);
  y.tile(128 * program_id(0)).store(t);
}
