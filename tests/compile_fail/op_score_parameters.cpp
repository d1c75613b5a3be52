// Forgets the parameter for the tensor that a score gets.
#include <kiln/kiln.h>
using namespace kiln;

void f(Stream& stream, Tensor<float, 4>& q, Tensor<float, 4>& o, Tensor<float, 1>& slopes) {
  ops::attention(
      stream, q, q, q, o, {},
      ops::score([](auto s, auto, auto, auto) { return s; },
                 slopes)); // expect: the lambda of ops::score takes (s, head, query, key) and one parameter
}
