// Sums of a group that wait in scratch for an epilogue.
#include "cpu_runner.h"
#include "product_reference.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// c = 2 a b + 1
auto doubled_product() {
  return kernel("doubled", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                         [&](auto k, auto s) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), s); });
    c.tile(m, n).store(sum * 2.0f + 1.0f);
  });
}

} // namespace

TEST_CASE("sums of groups that are one row of many columns, or many rows of few, stay apart") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Stream stream;
  const auto product = doubled_product();
  for (auto [tm, tn] : {std::pair{1, 64}, {1, 8}, {2, 256}, {4, 1}, {4, 128}, {8, 32}, {32, 64}, {64, 16}})
    for (bool wide : {false, true}) {
      const std::int64_t m = wide ? draw(1, 6) : draw(1, 400), n = wide ? draw(5000, 40000) : draw(1, 300);
      const std::int64_t k = draw(1, 20);
      CAPTURE(tm, tn, m, n, k);
      auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random);
      auto c = Tensor<float, 2>::empty({m, n});
      c.fill(NAN);
      product.launch(stream, {BM = tm, BN = tn, BK = 16}, a, b, c);
      stream.synchronize();
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = i % 3; j < n; j += 3)
          REQUIRE(c.data()[i * n + j] == Approx(2 * test::exact_product(a, b, i, j) + 1));
    }
}

TEST_CASE("sums of a group take no more memory for being as long as a row may be") {
  for (auto [tm, tn] : {std::pair{1, 256}, {4, 64}, {16, 64}, {64, 64}}) {
    const Config config = {BM = tm, BN = tn, BK = 64};
    const std::vector<LayoutClass> layouts(3, LayoutClass::Unit);
    const test::CpuKernel compiled(*doubled_product().record(config), config, layouts);
    CAPTURE(tm, tn, compiled.macro.most_m, compiled.macro.most_n);
    CHECK(compiled.macro.grouped());
    CHECK(compiled.scratch_bytes < 8 << 20);
  }
}
