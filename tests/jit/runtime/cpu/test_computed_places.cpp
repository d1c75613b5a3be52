// Tests products of programs that compute the position of their tile from one axis of the grid.
#include "jit/cpu/product_reference.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

using In = View<const float, 2>;
using Out = View<float, 2>;
using Index = Scalar<std::int64_t>;

auto as_it_is = [](auto tile) { return tile; };
auto at_most_one = [](auto tile) {
  return min(tile, 1.0f);
}; // for an operand as test::random_matrix made it, but computed

// c = a b with a grid of one axis. `place` maps a program to the row and column of its tile.
template <class Place, class OfA = decltype(as_it_is), class OfB = decltype(as_it_is)>
auto product_by(const char* name, Place&& place, OfA of_a = {}, OfB of_b = {}) {
  return kernel(name, [=](In a, In b, Out c) {
    Index rows = cdiv(c.rows(), dim_size(BM)), columns = cdiv(c.cols(), dim_size(BN));
    auto [i, j] = place(Index(program_id(0)), rows, columns);
    auto m = i * BM;
    auto n = j * BN;
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto s) {
      return dot(of_a(a.tile(m, k).load()), of_b(b.tile(k, n).load()), s);
    });
    c.tile(m, n).store(sum);
  });
}

// The order of Triton's tutorial: columns of 8 tiles, one column after the other.
auto swizzled(Index id, Index rows, Index columns) {
  Index per_group = 8 * columns, first = id / per_group * 8;
  Index high = min(rows - first, Index(8));
  return std::pair{Index(first + id % per_group % high), Index(id % per_group / high)};
}
auto by_rows(Index id, Index, Index columns) { return std::pair{Index(id / columns), Index(id % columns)}; }
auto by_columns(Index id, Index rows, Index) { return std::pair{Index(id % rows), Index(id / rows)}; }
// From both ends alternately, so that no two programs are neighbours.
auto scattered(Index id, Index rows, Index columns) {
  Index last = rows * columns - 1, half = id / 2, odd = id % 2;
  Index at = half * (1 - odd) + (last - half) * odd;
  return std::pair{Index(at / columns), Index(at % columns)};
}

template <class K> cpu::Grouping grouping_for(const K& k) {
  const auto kernel = passes::lower_generic(*k.record({}), {{BM = 32, BN = 32, BK = 16}, {}});
  return cpu::grouping_of(*kernel, cpu::host_target());
}

} // namespace

TEST_CASE("programs whose positions are computed from one axis share products along it") {
  for (const auto& grouping :
       {grouping_for(product_by("swizzled", swizzled)), grouping_for(product_by("rows", by_rows)),
        grouping_for(product_by("computed", swizzled, at_most_one, at_most_one))}) {
    CHECK(grouping.computed_axis == 0);
    CHECK(grouping.m_axis == -1);
    CHECK(grouping.n_axis == -1);
    CHECK(grouping.most_programs > 1);
  }
  // If the position is computed from two axes, they do not share products, even if one axis alone determines
  // the column.
  const auto grouping = grouping_for(kernel("two", [](In a, In b, Out c) {
    auto m = (program_id(0) + program_id(1)) % cdiv(c.rows(), dim_size(BM)) * BM;
    auto n = program_id(1) * BN;
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                         [&](auto k, auto s) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), s); });
    c.tile(m, n).store(sum);
  }));
  CHECK(grouping.computed_axis == -1);
}

TEST_CASE("groups of programs cover their axis and leave no thread without work") {
  const cpu::Grouping grouping{
      .computed_axis = 1, .tile_m = 64, .tile_n = 64, .most_m = 16, .most_n = 8, .most_programs = 64};
  for (std::int64_t along : {1, 2, 7, 64, 65, 1000})
    for (int threads : {1, 2, 8, 64}) {
      const std::int64_t grid[8] = {3, along, 1, 1, 1, 1, 1, 1};
      const auto group = cpu::choose_group(grouping, grid, threads);
      CAPTURE(along, threads, group[1]);
      CHECK(group[0] == 1);
      CHECK(group[1] >= 1);
      CHECK(group[1] <= std::min<std::int64_t>(along, 64));
      const std::int64_t groups = 3 * ((along + group[1] - 1) / group[1]);
      CHECK(groups >= std::min<std::int64_t>(3 * along, threads) / 2);
    }
}

TEST_CASE(
    "programs in any order of one axis multiply as double precision does, whatever rectangles they fill") {
  const decltype(product_by("", swizzled)) orders[] = {product_by("swizzled", swizzled)};
  const auto rows = product_by("by rows", by_rows);
  const auto columns = product_by("by columns", by_columns);
  const auto anywhere = product_by("scattered", scattered);
  const auto of_a = product_by("computed a", swizzled, at_most_one);
  const auto of_b = product_by("computed b", by_columns, as_it_is, at_most_one);
  const auto of_both = product_by("both computed", swizzled, at_most_one, at_most_one);
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  auto check = [&](const auto& kernel, int tm, int tn, int tk) {
    const std::int64_t m = number(1, 300), n = number(1, 300), k = number(0, 90);
    const std::int64_t programs = ((m + tm - 1) / tm) * ((n + tn - 1) / tn);
    CAPTURE(kernel.name(), tm, tn, tk, m, n, k);
    auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random),
         c = test::random_matrix(m, n, random);
    c.fill(NAN);
    kernel.launch(stream, {BM = tm, BN = tn, BK = tk}, Grid{programs}, a, b, c);
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = i % 2; j < n; j += 2)
        REQUIRE(c.data()[i * n + j] == Approx(test::exact_product(a, b, i, j)).epsilon(1e-5).margin(1e-4));
  };
  for (auto [tm, tn, tk] : {std::array{16, 16, 16}, {64, 32, 32}, {8, 64, 8}, {32, 128, 16}, {1, 16, 32}}) {
    check(orders[0], tm, tn, tk);
    check(rows, tm, tn, tk);
    check(columns, tm, tn, tk);
    check(anywhere, tm, tn, tk);
    check(of_a, tm, tn, tk);
    check(of_b, tm, tn, tk);
    check(of_both, tm, tn, tk);
  }
}

TEST_CASE("programs whose tiles begin before their views, or after them, compute what lies inside") {
  // Tiles that are shifted up by 5 rows and left by 3 columns, with one more tile in each direction.
  const auto shifted = kernel("shifted", [](In a, In b, Out c) {
    Index columns = cdiv(c.cols(), dim_size(BN)) + 1, id = program_id(0);
    auto m = id / columns * BM + -5;
    auto n = id % columns * BN + -3;
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                         [&](auto k, auto s) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), s); });
    c.tile(m, n).store(sum + 1.0f);
  });
  const auto grouping = grouping_for(shifted);
  CHECK(grouping.computed_axis == 0);
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (auto [tm, tn, m, n, k] :
       {std::array{16, 16, 100, 70, 33}, {32, 32, 32, 32, 16}, {64, 16, 10, 200, 5}}) {
    CAPTURE(tm, tn, m, n, k);
    auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random),
         c = test::random_matrix(m, n, random);
    c.fill(NAN);
    const std::int64_t programs = ((m + tm - 1) / tm + 1) * ((n + tn - 1) / tn + 1);
    shifted.launch(stream, {BM = tm, BN = tn, BK = 16}, Grid{programs}, a, b, c);
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        REQUIRE(c.data()[i * n + j] ==
                Approx(test::exact_product(a, b, i, j) + 1).epsilon(1e-5).margin(1e-4));
  }
}

TEST_CASE("a batch in the same axis, a gated epilogue and a tile outside of the group give correct results") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const std::int64_t batch = 5, m = 70, n = 90, k = 40;
  const auto batched =
      kernel("batched", [](View<const float, 3> a, View<const float, 3> b, In bias, View<float, 3> c) {
        Index rows = cdiv(c.extent(1), dim_size(BM)), columns = cdiv(c.extent(2), dim_size(BN));
        Index id = program_id(0), z = id / (rows * columns), at = id % (rows * columns);
        auto p = at % rows * BM;
        auto q = at / rows * BN;
        auto product = [&] {
          return for_range(BK, a.extent(2), zeros<float>(BM, BN), [&](auto l, auto s) {
            return dot(a.tile(z, p, l).load(), b.tile(z, l, q).load(), s);
          });
        };
        Tile x = product();
        c.tile(z, p, q).store(x * 2.0f + expand<0>(bias.tile(z, q).load()));
      });
  auto a = Tensor<float, 3>::empty({batch, m, k}), b = Tensor<float, 3>::empty({batch, k, n}),
       c = Tensor<float, 3>::empty({batch, m, n});
  auto bias = test::random_matrix(batch, n, random);
  for (auto* t : {&a, &b})
    for (float& x : *t)
      x = static_cast<float>(std::uniform_int_distribution<int>(-8, 8)(random)) / 8;
  for (auto [tm, tn] : {std::pair{16, 16}, {32, 64}, {128, 128}}) {
    CAPTURE(tm, tn);
    c.fill(NAN);
    const std::int64_t programs = batch * ((m + tm - 1) / tm) * ((n + tn - 1) / tn);
    batched.launch(stream, {BM = tm, BN = tn, BK = 16}, Grid{programs}, a, b, bias, c);
    stream.synchronize();
    for (std::int64_t z = 0; z < batch; ++z)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += double{a.data()[(z * m + i) * k + l]} * b.data()[(z * k + l) * n + j];
          REQUIRE(c.data()[(z * m + i) * n + j] == Approx(2 * sum + bias.data()[z * n + j]).margin(1e-4));
        }
  }
}
