// Casts an address to a pointer of the host.
// expect: an address becomes a pointer with raw::pointer<float>(address)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Scalar<std::uint64_t> address) { auto p = (float*)address; }
