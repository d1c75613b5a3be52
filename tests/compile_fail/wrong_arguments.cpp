// Calls functions with missing, additional or misplaced arguments.
// expect: clamp takes the tile first: clamp(x, low, high)
// expect: reduce has no initial value: write reduce(x, BN, combine)
// expect: a reduction takes the tile first: for the largest of 0 and all elements write max(max(x, BN), 0)
// expect: clamp takes both limits, clamp(x, low, high): for one write max(x, low)
// expect: where takes the values for true and for false: where(condition, a, b)
// expect: cat puts two tiles together: cat(x, y, BN)
// expect: tiles are sorted together as one state: sort(tie(keys, values), BN)
// expect: histogram takes the number of bins as a dimension: histogram(x, 256_c)
// expect: rand takes a seed and the offsets of the numbers: rand(seed, m + arange(BM))
// expect: randn takes a seed and the offsets of the numbers: randn(seed, m + arange(BM))
// expect: offset takes a dimension, and the index of the first element: offset(BM, 0)
// expect: if_else takes two branches: with one write if_then(condition, body)
// expect: an axis of the grid is a number of the host: program_id(0)
// expect: a dimension is not a number: write -value(BM) or -dim_size(BM)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  clamp(0, 1, t);
  reduce(t, BN, 0.0f, [](auto a, auto b) { return a + b; });
  max(0, t, BN);
  clamp(t, 0);
  where(t > 0, t);
  cat(t, t, t, BN);
  sort(t, t, BN);
  histogram(arange(BN));
  rand(42);
  randn(BM, BN);
  offset(BM * BN);
  if_else(x.rows() > 1, [&] { return t; });
  program_id(x.rows());
  -BM;
}
