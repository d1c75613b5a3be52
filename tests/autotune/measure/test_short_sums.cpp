// Tests sums of few terms, whose elements often stay as they are when the inputs move by rounding errors.
#include "checked.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// Sums of rows. `factor` is 1 for the right kernel.
auto row_sums(float factor) {
  return kernel("row_sums", [factor](View<const float, 2> x, View<float, 1> y) {
    auto [m] = program_tile(y, 16_c);
    y.tile(m).store(factor * for_range(BN, x.cols(), zeros<float>(16_c),
                                       [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); }));
  });
}

// Sums of three neighbours, from the left or from the right.
auto neighbour_sums(bool from_right, float factor) {
  return kernel("neighbour_sums", [=](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    auto rows = i + arange(BN);
    auto at = [&](int d) { return Tile(x.at(clamp(rows + d, 0, x.size() - 1)).load(rows < y.size())); };
    y.tile(i).store(factor * (from_right ? Tile(at(-1) + (at(0) + at(1))) : Tile((at(-1) + at(0)) + at(1))));
  });
}

constexpr float slightly_wrong = 1.00001f;

} // namespace

TEST_CASE("row sums of few terms are right with tiles of other sizes, and a wrong factor is not") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  for (const std::int64_t columns : {4, 6, 8, 16}) {
    INFO(columns << " columns");
    Compared compared({in<float>({10'000, columns}), out<float>({10'000})}, bn(columns == 4 ? 2 : 4),
                      bn(columns == 4 ? 4 : 8), seed + static_cast<std::uint64_t>(columns));
    CHECK(compared.error(row_sums(1), row_sums(1)) == "");
    CHECK(compared.error(row_sums(1), row_sums(slightly_wrong)) != "");
    CHECK(compared.interpreted(row_sums(1)) == "");
  }
}

TEST_CASE("a small table of sums is compared like a large one") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Compared compared({in<float>({40, 40}), out<float>({40})}, bn(4), bn(16), seed);
    CHECK(compared.error(row_sums(1), row_sums(1)) == "");
    CHECK(compared.error(row_sums(1), row_sums(slightly_wrong)) != "");
  }
}

TEST_CASE("sums of three neighbours are right in either order, and a wrong factor is not") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  constexpr std::int64_t n = 100'000;
  Compared compared({in<float>({n}), out<float>({n})}, bn(64), bn(512), seed);
  CHECK(compared.error(neighbour_sums(false, 1), neighbour_sums(true, 1)) == "");
  CHECK(compared.error(neighbour_sums(false, 1), neighbour_sums(true, slightly_wrong)) != "");
}

TEST_CASE("sums of rows of very different sizes are right in either order") {
  constexpr std::int64_t rows = 40'000, columns = 4;
  tune::Random random(fresh_seed());
  std::vector<float> values(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double size = std::pow(10, static_cast<double>(random.below(7)) - 3);
    for (std::int64_t c = 0; c < columns; ++c)
      values[static_cast<std::size_t>(r * columns + c)] =
          static_cast<float>(size * (static_cast<double>(random.below(1 << 24)) / (1 << 23) - 1));
  }
  Compared compared(
      {given<float>({rows, columns}, [&](std::size_t i) { return values[i]; }), out<float>({rows})}, bn(2),
      bn(4));
  CHECK(compared.error(row_sums(1), row_sums(1)) == "");
  CHECK(compared.error(row_sums(1), row_sums(slightly_wrong)) != "");
}

TEST_CASE("sums that are rounded to fine integers are right after a single run, and a wrong factor is not") {
  const auto fixed_point = [](float factor) {
    return kernel("fixed_point_sums", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
      auto [m] = program_tile(y, 1_c);
      auto t = for_range(BN, x.cols(), zeros<float>(1_c),
                         [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
      y.tile(m).store(cast<std::int32_t>(t * (factor * 1e6f)));
    });
  };
  Compared compared({in<float>({500, 1000}), out<std::int32_t>({500})}, bn(8), bn(1024));
  for (const int runs : {1, 2, 4}) {
    CHECK(compared.error(fixed_point(1), fixed_point(1), runs) == "");
    CHECK(compared.error(fixed_point(1), fixed_point(1.0001f), runs) != "");
  }
}
