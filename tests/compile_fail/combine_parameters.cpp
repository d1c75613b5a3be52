// Passes combine functions with the wrong parameters.
// expect: a combine function takes two parameters, (auto a, auto b)
// expect: a combine function takes two parameters, (auto a, auto b)
// expect: a combine function takes two parameters, (auto a, auto b)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x, Tile<int, BM, BN> i) {
  auto flat = [](auto a, auto b, auto c, auto d) { return state(a + c, b + d); };
  auto [a, b] = reduce(tie(x, i), BN, flat);
  auto c = reduce(x, BN, [](auto a) { return a; }) + a + b;
  auto d = associative_scan(x, BN, [](float a, float b) { return a + b; }) + c;
}
