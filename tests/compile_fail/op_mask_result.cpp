// Returns a number instead of a condition from a mask.
#include <kiln/kiln.h>
using namespace kiln;

void f(Stream& stream, Tensor<float, 4>& q, Tensor<float, 4>& o) {
  ops::attention(stream, q, q, q, o, {}, ops::mask([](auto, auto query, auto key) {
                   return query - key;
                 })); // expect: the lambda of ops::mask must return a tile of bool
}
