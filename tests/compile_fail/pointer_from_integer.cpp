// Makes pointers of integers.
// expect: a pointer is not made of an integer: pass it to the kernel as a parameter of type raw::Ptr<T>
// expect: pointers are not cast: pass them to the kernel as parameters of type raw::Ptr<T>
// expect: a pointer is not made of an integer: pass it to the kernel as a parameter of type raw::Ptr<T>
// expect: a pointer is not made of an integer: pass it to the kernel as a parameter of type raw::Ptr<T>
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Scalar<std::uint64_t> address) {
  auto a = bitcast<float*>(address);
  auto c = cast<float*>(address);
  raw::Ptr<float> b(address);
  raw::Ptr<float> d = 0;
}
