// Converts a tile with a cast of C++.
// expect: a cast of C++ does not convert a tile: write cast<float>(x)
// expect: a cast of C++ does not convert a tile: write cast<float>(x)
// expect: a cast of C++ does not convert a tile: write cast<float>(x)
// expect: a cast of C++ does not convert a tile: write cast<float>(x)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<std::int32_t, BM> x, Scalar<float> s) {
  auto a = (float)x;
  auto b = static_cast<int>(s);
  auto c = (f16)x;
  float d(s);
}
