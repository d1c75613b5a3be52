// Passes offsets and scalars as dimensions, omits a dtype, and passes a type that is not a dtype.
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
// expect: arange takes a dimension: a KILN_DIM, or a constant such as 64_c
// expect: zeros needs a dtype: zeros<float>(BM, BN)
// expect: this type is not a dtype: use bool, std::int8_t to std::uint64_t
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Offset<BM> m, View<float, 1> x) {
  auto a = zeros<float>(m);
  auto b = full(1.0f, m);
  auto c = broadcast(zeros<float>(BM), x.extent(0));
  auto d = arange(x.extent(0));
  auto e = zeros(BM);
  auto f = ones<long long>(BM);
  auto sums = a + b + c + d + e + f;
}
