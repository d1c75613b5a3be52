// Compares the random numbers of the language with the published Philox vectors, and tests their
// distribution.
#include "language_test.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BN);

TEST_CASE("philox gives the published vectors") {
  auto kernel = bound(
      [](View<std::uint32_t, 2> out, Scalar<std::uint64_t> seed, Scalar<std::uint64_t> offset) {
        auto [a, b, c, d] = philox(seed, full(offset, BN));
        Tile row = arange(BN);
        out.at(row, 0).store(a);
        out.at(row, 1).store(b);
        out.at(row, 2).store(c);
        out.at(row, 3).store(d);
      },
      {BN = 1});
  std::vector<std::uint32_t> out(4);
  Arguments().view(out.data(), {1, 4}).scalar(std::uint64_t{0}).scalar(std::uint64_t{0}).run_on(*kernel, {1});
  CHECK(out == std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("random numbers depend on seed and offset, not on the tile") {
  KILN_RANDOM_SEED();
  auto fill = [](View<float, 1> uniform, View<float, 1> normal, Scalar<std::int64_t> seed) {
    auto [i] = program_tile(uniform, BN);
    uniform.tile(i).store(rand(seed, i + arange(BN)));
    normal.tile(i).store(randn(seed, i + arange(BN)));
  };
  const std::int64_t n = 4000, seed = random_integer(0, INT64_MAX);
  std::vector<float> u(n), z(n), again(n), unused(n);
  Arguments().view(u.data(), {n}).view(z.data(), {n}).scalar(seed).run(*bound(fill, {BN = 64}));
  Arguments().view(again.data(), {n}).view(unused.data(), {n}).scalar(seed).run(*bound(fill, {BN = 256}));
  CHECK(u == again);
  double mean = 0, normal = 0, squares = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    REQUIRE((u[i] >= 0 && u[i] < 1));
    REQUIRE(std::isfinite(z[i]));
    mean += u[i] / n, normal += z[i] / n, squares += z[i] * z[i] / n;
  }
  // Each estimate may be off by five standard deviations.
  CHECK(std::abs(mean - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(normal) < 5 / std::sqrt(n));
  CHECK(std::abs(squares - 1) < 5 * std::sqrt(2.0 / n));
}
