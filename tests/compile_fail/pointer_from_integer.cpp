// Makes pointers of integers.
// expect: an address becomes a pointer with raw::pointer<float>(address)
// expect: pointers are not cast: write raw::pointer<float>(x)
// expect: an address becomes a pointer with raw::pointer<float>(address)
// expect: a pointer is not made of a number of the host: pass it to the kernel as a parameter of type
// raw::Ptr<T>
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Scalar<std::uint64_t> address) {
  auto a = bitcast<float*>(address);
  auto c = cast<float*>(address);
  raw::Ptr<float> b(address);
  raw::Ptr<float> d = 0;
}
