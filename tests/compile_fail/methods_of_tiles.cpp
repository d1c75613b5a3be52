// Calls operations on tiles as methods.
// expect: a tile is converted by a function: write cast<float>(x)
// expect: a tile is loaded already: load() belongs to view.tile(m, n)
// expect: a tile's extents are its dimensions: write dim_size(BM), or value(BM)
// expect: operations on tiles are functions: write sum(x, BN) for x.sum(BN), reshape(x, BM * BN) and trans(x)
// expect: operations on tiles are functions: write sum(x, BN) for x.sum(BN), reshape(x, BM * BN) and trans(x)
// expect: operations on tiles are functions: write sum(x, BN) for x.sum(BN), reshape(x, BM * BN) and trans(x)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  t.to<bf16>();
  t.load();
  t.shape();
  t.sum(BN);
  t.transpose();
  t.expand<1>();
}
