// Applies functions of floats to integers and uses the results.
// expect: pow needs a tile of floats: write cast<float>(x) first
// expect: atan2 needs a tile of floats: write cast<float>(x) first
// expect: fma needs floats: for integers write a * b + c
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BM);

void make() {
  auto k = kernel("k", [](View<const int, 1> x, View<bf16, 1> y) {
    auto [m] = program_tile(y, BM);
    auto t = x.tile(m).load();
    y.tile(m).store(pow(t, 2));
    y.tile(m).store(atan2(t, t));
    y.tile(m).store(fma(t, t, t));
  });
}
