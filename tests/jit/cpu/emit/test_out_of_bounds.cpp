// Tests tiles far larger than their views, whose elements past the ends of all views are computed once.
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

using In = View<const float, 2>;
using Row = View<const float, 1>;
using Out = View<float, 2>;

constexpr float lowest = -std::numeric_limits<float>::infinity();

// Launches a kernel and interprets it with small integers, and compares the results bit for bit except for
// the signs of zeros.
class Comparison {
public:
  explicit Comparison(std::uint64_t seed) : random_(seed) {}

  template <class K, class... Scalars>
  void run(const K& kernel, std::int64_t bm, std::int64_t bn, Scalars... scalars) {
    for (int round = 0; round < 6; ++round) {
      const std::int64_t rows = number_(0, bm + 2), columns = number_(0, bn + bn / 4);
      const std::int64_t others = number_(0, bn + bn / 4);
      CAPTURE(bm, bn, rows, columns, others);
      auto x = filled<2>({rows, columns});
      auto w = filled<1>({others});
      auto y = Tensor<float, 2>::empty({bm, bn}), z = Tensor<float, 2>::empty({bm, bn});
      y.fill(12345), z.fill(12345);
      Stream stream;
      kernel.launch(stream, {BM = bm, BN = bn}, Grid{1}, x, w, y, scalars...);
      stream.synchronize();
      kernel.interpret({BM = bm, BN = bn}, Grid{1}, x, w, z, scalars...);
      auto differs = [&](std::int64_t i) {
        const float got = y.data()[i], expected = z.data()[i];
        return got != expected && !(std::isnan(got) && std::isnan(expected));
      };
      std::int64_t i = 0;
      while (i < bm * bn && !differs(i))
        ++i;
      if (i < bm * bn) FAIL("element " << i << ": " << y.data()[i] << ", not " << z.data()[i]);
      SUCCEED();
    }
  }

private:
  template <int Rank> Tensor<float, Rank> filled(typename Tensor<float, Rank>::Extents extents) {
    auto t = Tensor<float, Rank>::empty(extents);
    for (float& v : t)
      v = static_cast<float>(number_(-8, 8));
    return t;
  }

  std::mt19937_64 random_;
  test::RandomIntegers number_{random_};
};

template <class F> auto of(F&& function) { return kernel("outside", std::forward<F>(function)); }

} // namespace

TEST_CASE("rows far shorter than their tile are reduced as if the tile were padded") {
  const auto sums = of([](In x, Row w, Out y) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile t = x.tile(i, j).load_or(lowest);
    Tile most = max(t, BN, keep);
    Tile least = min(x.tile(i, j).load_or(3.0f), BN, keep);
    Tile zeros = sum(x.tile(i, j).load(), BN, keep);
    Tile fives = sum(x.tile(i, j).load_or(5.0f) * w.tile(j).load_or(2.0f), BN, keep);
    Tile each = where(t == most, 1.0f, x.tile(i, j).load() - w.tile(j).load_or(4.0f)); // stored, and summed
    y.tile(i, j).store(each + (most * 64.0f + least + zeros + fives) + sum(each, BN, keep));
  });
  const auto nothing = of([](In x, Row w, Out y) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile nan = sum(x.tile(i, j).load_or(std::nanf("")), BN, keep);
    Tile all = sum(x.tile(i, j).load_or(std::numeric_limits<float>::infinity()), BN, keep);
    y.tile(i, j).store(nan + w.tile(j).load());
    y.tile(i, j).store(all + w.tile(j).load(), expand<0>(j + arange(BN)) % 2 == 0);
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Comparison comparison(seed);
  for (auto [bm, bn] : {std::pair{1, 8}, {1, 64}, {3, 128}, {5, 256}, {2, 1000}, {4, 100}, {1, 2048}}) {
    comparison.run(sums, bm, bn);
    comparison.run(nothing, bm, bn);
  }
}

TEST_CASE("columns past a matrix are reduced as if the matrix were padded") {
  const auto down = of([](In x, Row w, Out y) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile added = sum(x.tile(i, j).load_or(2.0f), BM, keep);
    Tile most = max(x.tile(i, j).load_or(lowest) + w.tile(j).load_or(1.0f), BM, keep);
    y.tile(i, j).store(added + most);
  });
  const auto kept = of([](In x, Row w, Out y) { // a tile that is stored in a buffer and reduced in one nest
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile t = exp2(x.tile(i, j).load());
    y.tile(i, j).store(t - max(t, BM, keep) + w.tile(j).load());
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Comparison comparison(seed);
  for (auto [bm, bn] : {std::pair{2, 64}, {3, 256}, {7, 128}, {16, 32}, {40, 100}, {32, 512}}) {
    comparison.run(down, bm, bn);
    comparison.run(kept, bm, bn);
  }
}

TEST_CASE("columns past a bound are left out for any bound and any first column") {
  const auto masked = of([](In x, Row w, Out y, Scalar<std::int64_t> n, Scalar<std::int64_t> from) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile column = expand<0>(from + arange(BN));
    Tile row = expand<1>(i + arange(BM));
    Tile t = x.tile(i, offset(BN, from)).load();
    Tile a = where((column <= row + n) & (column < 50), t + w.tile(j).load(), -2.0f);
    Tile b = x.at(row, column).load(column < n, 6.0f);
    y.tile(i, j).store(sum(a, BN, keep) + sum(b, BN, keep));
  });
  const auto loaded = of([](In x, Row w, Out y, Scalar<std::int64_t> n, Scalar<std::int64_t> from) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile column = expand<0>(from + arange(BN));
    Tile t = x.tile(i, j).load_or(2.0f);
    Tile a = where(
        column < n, t,
        x.tile(i, offset(BN, from)).load_or(9.0f)); // only used there, so that the end of its view is unknown
    Tile b = where(column >= n, expand<0>(arange(BN)), 1);
    y.tile(i, j).store(max(a, BN, keep) + cast<float>(sum(b, BN, keep)) + w.tile(j).load());
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Comparison comparison(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  constexpr std::int64_t high = std::numeric_limits<std::int64_t>::max();
  for (auto [bm, bn] : {std::pair{1, 64}, {3, 128}, {4, 256}, {2, 100}}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> places = {
        {high, 0}, {high, high - 70}, {high - 3, high - 20}, {0, high - 20}, {5, -high}};
    for (int round = 0; round < 4; ++round)
      places.emplace_back(number(-20, 300), number(-150, 150));
    for (auto [n, from] : places) {
      CAPTURE(n, from);
      comparison.run(masked, bm, bn, n, from);
      comparison.run(loaded, bm, bn, n, from);
    }
  }
}

TEST_CASE("values that differ between columns are kept past the ends of views") {
  const auto own = of([](In x, Row w, Out y) {
    auto i = offset(BM, 0);
    auto j = offset(BN, 0);
    Tile number = cast<float>(expand<0>(arange(BN)));
    Tile where_most = argmax(x.tile(i, j).load_or(lowest), BN);
    Tile numbered = max(x.tile(i, j).load() + number, BN, keep);
    Tile other = sum(x.tile(i, j).load(x.tile(i, j).mask(), broadcast(number, BM, BN)), BN, keep);
    y.tile(i, j).store(numbered + other + cast<float>(expand<1>(where_most)) + w.tile(j).load());
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Comparison comparison(seed);
  for (auto [bm, bn] : {std::pair{1, 64}, {3, 128}, {2, 200}})
    comparison.run(own, bm, bn);
}
