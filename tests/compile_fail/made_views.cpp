// Mistakes with slices, addresses and views of pointers.
// expect: view.slice takes an axis, and two integers: view.slice(1, begin, end)
// expect: an address is a 64-bit integer of the kernel: read it from an array of std::uint64_t
// expect: the pointer is to const: write raw::pointer<const T>(p)
// expect: raw::view takes one pointer: a raw::Ptr, or raw::pointer<float>(address)
// expect: load_as reads a wider dtype than that of the view: for the view's own dtype write load()
// expect: raw memory operations need a pointer or a tile of pointers
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void slices(View<const float, 2> x) { auto a = x.slice(1, 0.5f, 3); }
void addresses(View<const float, 2> x, Scalar<std::int32_t> narrow) {
  auto a = raw::pointer<float>(narrow);
  auto b = raw::pointer<float>(x.data());
}
void views(Tile<float*, BM> p) { auto a = raw::view(p, {3}); }
void wide(View<const float, 1> x) {
  auto a = load_as<float>(x.at(0));
  auto b = raw::load_as<double>(x.at(0).load());
}
