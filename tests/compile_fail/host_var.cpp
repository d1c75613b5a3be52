// Uses a Var as a native condition, and converts it with a cast of C++.
// expect: a tile has no truth value while recording: use where(), if_else() or if_then()
// expect: a cast of C++ does not convert a tile: write cast<float>(x)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Scalar<float> s) {
  Var<bool> found = false;
  if (found) return;
  Var best = s;
  auto a = (int)best;
}
