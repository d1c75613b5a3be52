// Tests that row kernels write the same bytes with and without deferral of their last store.
#include "jit/cpu/cpu_runner.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <limits>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BN);

using In = View<const float, 2>;
using Out = View<float, 2>;

const auto softmax_rows = kernel("softmax_rows", [](In x, Out y, Out) {
  auto [row] = program_tile(x, 1_c);
  Tile t = x.tile(row, offset(BN, 0)).load_or(-INFINITY);
  Tile e = exp(t - max(t, BN, keep));
  y.tile(row, offset(BN, 0)).store(e / sum(e, BN, keep));
});

// Reads its row again while it stores, so that it checks whether y overlaps x, and defers nothing.
const auto centred_rows = kernel("centred_rows", [](In x, Out y, Out) {
  auto [row] = program_tile(x, 1_c);
  Tile t = x.tile(row, offset(BN, 0)).load();
  y.tile(row, offset(BN, 0)).store(t - sum(t, BN, keep) / cast<float>(x.cols()));
});

// Another store precedes the last one.
const auto summed_rows = kernel("summed_rows", [](In x, Out y, Out sums) {
  auto [row] = program_tile(x, 1_c);
  Tile t = tanh(x.tile(row, offset(BN, 0)).load());
  Tile total = sum(t * t, BN, keep);
  sums.tile(row, offset(1_c, 0)).store(total);
  y.tile(row, offset(BN, 0)).store(t * rsqrt(total + 1.f));
});

// The most expensive loop runs over other columns than the store.
const auto halved_rows = kernel("halved_rows", [](In x, Out y, Out) {
  auto [row] = program_tile(x, 1_c);
  Tile wide = x.tile(row, offset(BN * 2_c, 0)).load();
  Tile total = sum(sin(wide), BN * 2_c, keep);
  Tile kept = exp(x.tile(row, offset(BN, 0)).load());
  Tile most = max(kept, BN, keep);
  y.tile(row, offset(BN, 0)).store(kept / most + total);
});

struct alignas(64) Line {
  float v[16];
};

struct Arrays {
  std::vector<Line> memory; // aligned to whole vectors
  std::vector<std::uint64_t> words;
  bool operator==(const Arrays& other) const {
    return std::memcmp(memory.data(), other.memory.data(), memory.size() * sizeof(Line)) == 0;
  }
};

struct Layout {
  std::int64_t rows, columns, x_stride, y_stride, y_start;
  bool in_place;
};

// x, y and a column of sums, one after the other.
Arrays arrays(const Layout& l, std::uint64_t seed) {
  const std::int64_t x_size = (l.rows * l.x_stride + 15) / 16 * 16, y_size = l.y_start + l.rows * l.y_stride;
  Arrays a;
  a.memory.resize(static_cast<std::size_t>((x_size + y_size + 16 + l.rows) / 16 + 1));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (Line& line : a.memory)
    for (float& v : line.v)
      v = normal(random);
  return a;
}

void point(Arrays& a, const Layout& l) {
  float* x = a.memory[0].v;
  float* y = x + (l.rows * l.x_stride + 15) / 16 * 16 + l.y_start;
  float* sums = y + l.rows * l.y_stride + 16;
  auto word = [](auto v) { return static_cast<std::uint64_t>(v); };
  auto pointer = [](float* p) { return reinterpret_cast<std::uint64_t>(p); };
  a.words = {pointer(x),
             word(l.rows),
             word(l.columns),
             word(l.x_stride),
             1,
             pointer(l.in_place ? x : y),
             word(l.rows),
             word(l.columns),
             word(l.in_place ? l.x_stride : l.y_stride),
             1,
             pointer(sums),
             word(l.rows),
             1,
             1,
             1};
}

template <class Kernel> void compare(const Kernel& made, std::uint64_t seed, bool defers) {
  std::mt19937_64 random(seed);
  auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::int64_t width = draw(0, 1) ? draw(16, 600) : 64 * draw(1, 8);
  Layout layout;
  layout.rows = draw(0, 20);
  layout.columns = draw(0, 2) == 0 ? draw(1, 2 * width) : width;
  auto stride = [&] { return draw(0, 1) ? (layout.columns + 15) / 16 * 16 : layout.columns + draw(0, 20); };
  layout.x_stride = stride();
  layout.y_stride = stride();
  layout.y_start = draw(0, 1) ? 0 : draw(0, 16);
  layout.in_place = draw(0, 3) == 0;
  CAPTURE(made.name(), seed, width, layout.rows, layout.columns, layout.x_stride, layout.y_stride,
          layout.y_start, layout.in_place);

  const Config config = {BN = width};
  auto recorded = made.record(config);
  std::vector<LayoutClass> layouts(3, LayoutClass::Unit);
  const std::int64_t never = std::numeric_limits<std::int64_t>::max();
  test::CpuKernel plain(*recorded, config, layouts, {.deferred_columns = never});
  test::CpuKernel deferring(*recorded, config, layouts, {.deferred_columns = 1});
  CHECK((deferring.scratch_bytes > plain.scratch_bytes) == defers);

  Arrays expected = arrays(layout, seed);
  Arrays found = expected, parts = expected, cached = expected;
  for (Arrays* a : {&expected, &found, &parts, &cached})
    point(*a, layout);
  const std::vector<std::int64_t> grid = {layout.rows};
  plain.run(expected.words.data(), grid, 0xCD, never, never);
  deferring.run(found.words.data(), grid);
  deferring.run(parts.words.data(), grid, 0xFF, draw(1, 5));
  deferring.run(cached.words.data(), grid, 0x00, never, never);
  CHECK(found == expected);
  CHECK(parts == expected);
  CHECK(cached == expected);
}

template <class Kernel> void compare_many(const Kernel& made, bool defers = true) {
  std::uint64_t first = test::fresh_seed();
  std::uint64_t count = 12;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    compare(made, seed, defers);
}

} // namespace

TEST_CASE("a deferred row: the value is in scratch") { compare_many(softmax_rows); }
TEST_CASE("a row that is read again while it is stored is not deferred") {
  compare_many(centred_rows, false);
}
TEST_CASE("a deferred row: another store precedes it") { compare_many(summed_rows); }
TEST_CASE("a deferred row: loops of different widths") { compare_many(halved_rows); }
