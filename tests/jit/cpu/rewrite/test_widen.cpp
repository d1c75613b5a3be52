// Tests which sizes of tiles do not affect the results of a kernel, and which of them the CPU raises.
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/jit/cpu/facts/program_tiles.h>
#include <kiln/jit/cpu/rewrite/widen.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

using In = View<const float, 2>;
using Out = View<float, 2>;
using Names = std::set<std::string>;

template <class F> auto of(F&& function) { return kernel("k", std::forward<F>(function)); }

template <class K> Names free_of(const K& kernel, const Config& config = {}) {
  Names names;
  for (const auto& dimension : cpu::program_tiles(*kernel.record(config)).dimensions)
    if (dimension.free) names.insert(dimension.name);
  return names;
}

// For views whose rows are contiguous.
template <class K> Config chosen(const K& kernel, const Config& config, int threads = 2) {
  const auto recorded = kernel.record(config);
  const auto views = std::count_if(recorded->body.args.begin(), recorded->body.args.end(),
                                   [](const auto& arg) { return arg->type.is_view(); });
  return cpu::widened_config(
      *recorded, {config, std::vector(static_cast<std::size_t>(views), LayoutClass::Unit)}, threads);
}

} // namespace

TEST_CASE("tiles of elementwise kernels are free, with shifts, masks, indices, gathers and transpositions") {
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(exp(x.tile(i, j).load()) + x.tile(i + 1, j + x.rows()).load());
        })) == Names{"BM", "BN"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          auto above = x.tile(i - 1, j);
          y.tile(i, j).store(above.load() - x.tile(i, j - x.rows()).load(above.mask(), 1.0f));
        })) == Names{"BM", "BN"});
  CHECK(free_of(of([](In x, View<const float, 1> r, View<const float, 1> c, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(trans(x.tile(j, i).load()) * r.tile(j).load() + expand<1>(c.tile(i).load()));
        })) == Names{"BM", "BN"});
  CHECK(free_of(of([](View<const float, 1> x, View<float, 1> y, Scalar<std::int64_t> n) {
          auto [i] = program_tile(y, BN);
          Tile place = i + arange(BN);
          Tile noise = rand(7, cast<std::int32_t>(place));
          y.tile(i).store(where(place < n, x.tile(i).load(place % 2 == 0, 1.0f), noise), place != 3);
        })) == Names{"BN"});
}

TEST_CASE("tiles whose size affects the results are not free") {
  // The size itself, the offset of the tile as a number, indices within the tile, the first tile, sums of
  // tiles, the number of a program, and the size while recording.
  CHECK(free_of(of([](Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(broadcast(cast<float>(dim_size(BN)), BM, BN));
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          Scalar<std::int64_t> begin = j;
          y.tile(i, j).store(x.tile(i, j).load() * cast<float>(begin));
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(x.tile(i, j).load() + cast<float>(arange(BN)));
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(x.tile(i, offset(BN, 0)).load());
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(x.tile(i, j).load() - sum(x.tile(i, j).load(), BN, keep));
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j).store(x.tile(i, j).load() * cast<float>(program_id(0)));
        })) == Names{});
  CHECK(free_of(of([](In x, Out y) {
                  auto [i, j] = program_tile(y, BM, BN);
                  y.tile(i, j).store(x.tile(i, j).load() * static_cast<float>(value(BN)));
                }),
                {BM = 4, BN = 4}) == Names{});
  CHECK(free_of(of([](In x, Out y, Scalar<std::int64_t> row) { // several programs write this row
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(row, j).store(x.tile(row, j).load());
        })) == Names{"BN"});
  // Stores that cover more or less of a view: to another view, at another offset, along another axis.
  CHECK(free_of(of([](View<const float, 1> x, View<float, 1> y) {
          auto [i] = program_tile(x, BN);
          y.tile(i).store(x.tile(i).load());
        })) == Names{});
  CHECK(free_of(of([](In x, Out y, Scalar<std::int64_t> by) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(i, j + by).store(x.tile(i, j).load());
        })) == Names{"BM"});
  CHECK(free_of(of([](In x, Out y) {
          auto [i, j] = program_tile(y, BM, BN);
          y.tile(j, i).store(trans(x.tile(i, j).load()));
        })) == Names{});
  // Two axes of one size: programs only have the tiles of the diagonal.
  CHECK(free_of(of([](In x, Out y) {
          auto [i] = program_tile(y, BM);
          y.tile(i, i).store(x.tile(i, i).load());
        })) == Names{});
  // Indices of 32 bits that may wrap within a tile.
  CHECK(free_of(of([](View<std::int64_t, 1> y, Scalar<std::int32_t> c) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(i + (arange(BN) + c));
        })) == Names{});
  CHECK(free_of(of([](View<std::int64_t, 1> y) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(i + cast<std::int64_t>(arange(BN, 2147483607)));
        })) == Names{});
  CHECK(free_of(of([](View<const float, 1> x, View<float, 1> y) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(x.at(i * 2 + arange(BN)).load());
        })) == Names{});
  // Positions that decrease.
  CHECK(free_of(of([](View<const float, 1> x, View<float, 1> y) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(x.tile(x.size() - i).load());
        })) == Names{});
  CHECK(free_of(of([](View<const float, 1> x, View<float, 1> y) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(x.at(i + (x.size() - arange(BN))).load());
        })) == Names{});
}

TEST_CASE("narrow tiles are widened, and wide ones stay") {
  const auto copy = of([](In x, Out y) {
    auto [i, j] = program_tile(y, BM, BN);
    y.tile(i, j).store(x.tile(i, j).load());
  });
  CHECK(chosen(copy, {BM = 32, BN = 32}) == Config{BM = 32, BN = 512});
  CHECK(chosen(copy, {BM = 256, BN = 1}) == Config{BM = 256, BN = 64});
  CHECK(chosen(copy, {BM = 1, BN = 53}) == Config{BM = 1, BN = 4096});
  CHECK(chosen(copy, {BM = 7, BN = 1000}) == Config{BM = 7, BN = 1000});
  CHECK(chosen(copy, {BM = 64, BN = 512}) == Config{BM = 64, BN = 512});
  const auto transposed = of([](In x, Out y) {
    auto [i, j] = program_tile(y, BM, BN);
    y.tile(i, j).store(trans(x.tile(j, i).load()));
  });
  CHECK(chosen(transposed, {BM = 16, BN = 32}) == Config{BM = 64, BN = 64});
  CHECK(chosen(transposed, {BM = 1, BN = 4096}) == Config{BM = 4, BN = 4096});
  CHECK(chosen(transposed, {BM = 128, BN = 64}) == Config{BM = 128, BN = 64});
  // A tile that is computed once for two stores needs scratch memory, so that it stays narrow: its elements
  // outside of the views would be computed for nothing.
  const auto twice = of([](In x, Out y, Out z) {
    auto [i, j] = program_tile(y, BM, BN);
    Tile e = exp(x.tile(i, j).load());
    y.tile(i, j).store(e);
    z.tile(i, j).store(e * 2.0f);
  });
  CHECK(chosen(twice, {BM = 32, BN = 32}) == Config{BM = 32, BN = 32});
  // Tiles that another axis makes large stay as well.
  const auto deep = of([](In x, Out y) {
    auto [j] = program_tile(y, BN);
    auto k = offset(BM, 0);
    y.tile(j, k).store(trans(x.tile(k, j).load()));
  });
  CHECK(chosen(deep, {BM = 1 << 20, BN = 32}) == Config{BM = 1 << 20, BN = 32});
  CHECK(chosen(deep, {BM = 1 << 22, BN = 32}) == Config{BM = 1 << 22, BN = 32});
  CHECK(cpu::widened_config(*copy.record({}), {{BM = 32, BN = 32}, {}, /*debug=*/true}, 2) ==
        Config{BM = 32, BN = 32});
}

TEST_CASE("tiles of kernels with loops are free along axes other than those of the loops") {
  const auto down = of([](In x, View<float, 1> y) {
    auto [j] = program_tile(y, BN);
    y.tile(j).store(for_range(BM, x.rows(), zeros<float>(BN),
                              [&](auto k, auto s) { return s + sum(x.tile(k, j).load(), BM); }));
  });
  CHECK(free_of(down) == Names{"BN"});
  CHECK(chosen(down, {BM = 32, BN = 32}) == Config{BM = 32, BN = 512});
  CHECK(chosen(down, {BM = 32, BN = 32}, 8) == Config{BM = 32, BN = 128});
  CHECK(chosen(down, {BM = 32, BN = 32}, 100) == Config{BM = 32, BN = 64});
  CHECK(chosen(down, {BM = 32, BN = 1024}) == Config{BM = 32, BN = 1024});
  const auto along = of([](In x, Out y) { // an online softmax
    auto [i] = program_tile(y, BM);
    auto [m, l] =
        for_range(BN, x.cols(), state(full(-INFINITY, BM), zeros<float>(BM)), [&](auto k, auto m, auto l) {
          Tile t = x.tile(i, k).load_or(-INFINITY);
          Tile next = max(m, max(t, BN));
          return state(next, l * exp(m - next) + sum(exp(t - expand<1>(next)), BN));
        });
    for_range(BN, x.cols(),
              [&](auto k) { y.tile(i, k).store(exp(x.tile(i, k).load() - expand<1>(m)) / expand<1>(l)); });
  });
  CHECK(free_of(along) == Names{"BM"});
  CHECK(chosen(along, {BM = 32, BN = 32}) == Config{BM = 32, BN = 32});
  const auto shifts = of([](View<const float, 1> x, View<const float, 1> w, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(for_range(0, w.extent(0), 1, zeros<float>(BN),
                              [&](auto k, auto s) { return s + x.tile(i + k).load() * w.at(k).load(); }));
  });
  CHECK(chosen(shifts, {BN = 64}) == Config{BN = 64});
  // The size affects carried values through a reduction or indices, and the number of iterations through
  // bounds.
  CHECK(free_of(of([](In x, View<float, 1> y) {
          auto [j] = program_tile(y, BN);
          y.tile(j).store(for_range(BM, x.rows(), zeros<float>(BN), [&](auto k, auto s) {
            return s + sum(x.tile(k, j).load(), BM) + sum(s, BN);
          }));
        })) == Names{});
  CHECK(free_of(of([](In x, View<float, 1> y) {
          auto [j] = program_tile(y, BN);
          auto [s, c] =
              for_range(BM, x.rows(), state(zeros<float>(BN), zeros<float>(BN)), [&](auto k, auto s, auto c) {
                return state(c, s + cast<float>(arange(BN)) + sum(x.tile(k, j).load(), BM));
              });
          y.tile(j).store(s + c);
        })) == Names{});
  CHECK(free_of(of([](In x, View<float, 1> y) {
          auto [j] = program_tile(y, BN);
          Scalar<std::int64_t> end = j + x.rows();
          y.tile(j).store(for_range(BM, end, zeros<float>(BN),
                                    [&](auto k, auto s) { return s + sum(x.tile(k, j).load(), BM); }));
        })) == Names{});
}

TEST_CASE("a launch of one program that reads what it overwrites keeps one program") {
  const auto shift = kernel("shift", [](In x, Out y) {
    auto [i, j] = program_tile(y, BM, BN);
    y.tile(i, j).store(x.tile(i + -1, j).load() + 1.0f);
  });
  const auto down = kernel("down", [](In x, Out y) {
    auto [i] = program_tile(y, BM);
    Tile t = x.tile(i + -1, offset(BN, 0)).load();
    y.tile(i, offset(BN, 0)).store(t - max(t, BN, keep));
  });
  Stream stream;
  for (const auto* kernel : {&shift, &down}) {
    auto y = Tensor<float, 2>::empty({256, 8}), z = Tensor<float, 2>::empty({256, 8});
    for (std::int64_t i = 0; i < 256 * 8; ++i)
      y.data()[i] = z.data()[i] = static_cast<float>(i * 7 % 17);
    kernel->launch(stream, {BM = 256, BN = 8}, y, y);
    stream.synchronize();
    kernel->interpret({BM = 256, BN = 8}, z, z);
    CHECK(std::equal(y.begin(), y.end(), z.begin()));
  }
}

TEST_CASE("kernels with reductions compute the same with tiles of every size") {
  const auto rows = kernel("rows", [](In x, Out y) {
    auto [i] = program_tile(x, BM);
    Tile t = x.tile(i, offset(BN, 0)).load_or(-3.0f);
    y.tile(i, offset(BN, 0))
        .store(t * 2.0f + max(t, BN, keep) + sum(t, BN, keep) + cast<float>(expand<1>(i + arange(BM))));
  });
  const auto loops = kernel("loops", [](In x, Out y) {
    auto [i, j] = program_tile(x, BM, BN);
    Tile s = for_range(BM, x.rows(), zeros<float>(BN), [&](auto k, auto s) {
      return s + sum(x.tile(k, j).load_or(1.0f), BM) + cast<float>(j + arange(BN));
    });
    y.tile(i, j).store(x.tile(i, j).load() + expand<0>(s));
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{1, 8}, {16, 16}, {5, 7}, {12, 300}, {29, 1}, {32, 64}, {128, 128}}) {
    const std::int64_t height = number(1, 70), width = number(1, 300), taller = number(1, 140);
    CAPTURE(bm, bn, height, width, taller);
    auto x = Tensor<float, 2>::empty({height, width});
    for (auto& v : x)
      v = static_cast<float>(number(-9, 9));
    for (const auto* kernel : {&rows, &loops}) {
      auto y = Tensor<float, 2>::empty({taller, width}), z = Tensor<float, 2>::empty({taller, width});
      y.fill(12345), z.fill(12345);
      kernel->launch(stream, {BM = bm, BN = bn}, x, y);
      stream.synchronize();
      kernel->interpret({BM = bm, BN = bn}, x, z);
      CHECK(std::equal(y.begin(), y.end(), z.begin()));
    }
  }
}

TEST_CASE("elementwise kernels compute the same with tiles of every size") {
  const auto mixed = kernel("mixed", [](In x, View<const float, 1> r, Out y, Scalar<std::int64_t> n) {
    auto [i, j] = program_tile(y, BM, BN);
    Tile place = j + arange(BN);
    Tile left = x.tile(i, j + -1).load_or(-5.0f);
    y.tile(i, j).store(trans(x.tile(j, i).load()) * 100.0f + left + where(place < n, r.tile(j).load(), 0.5f));
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{1, 1}, {16, 16}, {5, 7}, {1, 300}, {300, 1}, {32, 64}, {128, 128}}) {
    const std::int64_t side = number(1, 300), n = number(-5, 310);
    CAPTURE(bm, bn, side, n);
    auto x = Tensor<float, 2>::empty({side, side}), y = Tensor<float, 2>::empty({side, side});
    auto r = Tensor<float, 1>::empty({side});
    for (auto& v : x)
      v = static_cast<float>(number(-9, 9));
    for (auto& v : r)
      v = static_cast<float>(number(-9, 9));
    y.fill(12345);
    mixed.launch(stream, {BM = bm, BN = bn}, x, r, y, n);
    stream.synchronize();
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j) {
        const float left = j > 0 ? x.data()[i * side + j - 1] : -5.0f;
        const float expected = x.data()[j * side + i] * 100 + left + (j < n ? r.data()[j] : 0.5f);
        if (y.data()[i * side + j] != expected) FAIL("row " << i << ", column " << j);
      }
  }
}
