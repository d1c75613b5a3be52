// Tests the pass tile-accesses on kernels that index elements by arange, in the style of Triton.
#include "jit/cpu/product_reference.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/passes/index_tiles.h>
#include <kiln/jit/passes/pass.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// A product of operands that are gathered under masks. With `own`, each mask compares with the extents of its
// own view; otherwise the masks of both operands compare K with the columns of a.
template <bool own>
const auto product = [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  auto m = program_id(0) * BM;
  auto n = program_id(1) * BN;
  Tile rows = expand<1>(m + arange(BM));
  Tile columns = expand<0>(n + arange(BN));
  auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
    Tile across = expand<0>(k + arange(BK));
    Tile down = expand<1>(k + arange(BK));
    Tile x = a.at(rows, across).load((rows < a.rows()) & (across < a.cols()));
    Tile y = b.at(down, columns).load((down < (own ? b.rows() : a.cols())) & (columns < b.cols()));
    return dot(x, y, sum);
  });
  c.at(rows, columns).store(sum, rows < c.rows() & columns < c.cols());
};

int count(const ir::Kernel& kernel, ir::Opcode code) {
  int found = 0;
  ir::walk(kernel.body, [&](const ir::Op& op) { found += op.is(code); });
  return found;
}

} // namespace

TEST_CASE("a product of gathered operands becomes one of tiles, whose programs form groups") {
  auto recorded = kernel("product", product<true>).record();
  auto lowered = passes::lower_generic(*recorded, {{BM = 16, BN = 32, BK = 8}, {}, false});
  CHECK(count(*lowered, ir::Opcode::ViewGather) == 0);
  CHECK(count(*lowered, ir::Opcode::ViewScatter) == 0);
  CHECK(count(*lowered, ir::Opcode::Lt) == 0);
  CHECK(cpu::grouping_of(*lowered, cpu::host_target()).has_groups());
}

TEST_CASE("products of gathered operands agree with double precision on ragged sizes") {
  const auto own = kernel("own", product<true>), other = kernel("other", product<false>);
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn, bk] : {std::array{64, 64, 32}, {16, 128, 64}, {8, 16, 8}, {1, 64, 1}})
    for (const auto* kernel : {&own, &other}) {
      const std::int64_t m = number(1, 200), n = number(1, 300), k = number(0, 150);
      CAPTURE(bm, bn, bk, m, n, k, kernel == &own);
      auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random),
           c = test::random_matrix(m, n, random);
      c.fill(NAN);
      kernel->launch(stream, {BM = bm, BN = bn, BK = bk}, Grid{(m + bm - 1) / bm, (n + bn - 1) / bn}, a, b,
                     c);
      stream.synchronize();
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = i % 3; j < n; j += 3)
          REQUIRE(c.data()[i * n + j] == Approx(test::exact_product(a, b, i, j)).margin(1e-5));
    }
}

TEST_CASE("loads and stores through consecutive pointers respect their masks") {
  const auto scale = kernel("scale", [](raw::Ptr<const float> x, raw::Ptr<float> y, Scalar<std::int64_t> rows,
                                        Scalar<std::int64_t> columns, Scalar<std::int64_t> stride) {
    Tile row = expand<1>(program_id(0) * BM + arange(BM));
    Tile column = expand<0>(program_id(1) * BN + arange(BN));
    auto inside = (row < rows) & (column < columns);
    raw::store(y + (row * stride + column), 2.0f * raw::load(x + (row * stride + column), inside, -1.0f),
               inside);
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (auto [bm, bn] : {std::array{4, 64}, {1, 100}, {64, 1}, {3, 24}, {16, 16}}) {
    const auto rows = static_cast<std::int64_t>(random() % 40),
               columns = static_cast<std::int64_t>(random() % 200),
               stride = columns + static_cast<std::int64_t>(random() % 5);
    CAPTURE(bm, bn, rows, columns, stride);
    // The kernel must not change the padding between rows and after the last one.
    std::vector<float> x(static_cast<std::size_t>(rows * stride + 1)), y(x.size(), -7.0f);
    for (float& v : x)
      v = static_cast<float>(random() % 1000);
    const float* from = x.data();
    float* to = y.data();
    if (rows && columns)
      scale.launch(stream, {BM = bm, BN = bn}, Grid{(rows + bm - 1) / bm, (columns + bn - 1) / bn}, from, to,
                   rows, columns, stride);
    stream.synchronize();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / std::max<std::int64_t>(1, stride),
                 column = static_cast<std::int64_t>(i) % std::max<std::int64_t>(1, stride);
      REQUIRE(y[i] == (row < rows && column < columns ? 2 * x[i] : -7.0f));
    }
  }
}

TEST_CASE("the step of tiles of indices and pointers along an axis is known") {
  auto kernel = ir::parse(R"(
kernel @steps(%p: ptr<f32>, %v: view<f32, 1>, %n: i64, %small: i32) {
  %z = constant {value = 0} : i64
  %range = arange {start = 0} : tile<8 x i64>
  %column = expand_dims %range {axis = 0} : tile<1 x 8 x i64>
  %columns = broadcast %column : tile<4 x 8 x i64>
  %turned = permute %columns {order = [1, 0]} : tile<8 x 4 x i64>
  %twice = add %columns, %columns : tile<4 x 8 x i64>
  %ns = splat %n : tile<4 x 8 x i64>
  %square = mul %ns, %ns : tile<4 x 8 x i64>
  %moved = add %square, %columns : tile<4 x 8 x i64>
  %scaled = mul %columns, %ns : tile<4 x 8 x i64>
  %narrow = arange {start = 0} : tile<8 x i32>
  %smalls = splat %small : tile<8 x i32>
  %wraps = add %narrow, %smalls : tile<8 x i32>
  %wide = cast %wraps : tile<8 x i64>
  %plain = cast %narrow : tile<8 x i64>
  %byte = cast %narrow : tile<8 x i8>
  %ps = splat %p : tile<4 x 8 x ptr<f32>>
  %at = ptr_add %ps, %moved : tile<4 x 8 x ptr<f32>>
  %read = view_load %v, %z {axes = [0]} : tile<8 x f32>
})",
                          "test");
  std::vector<const ir::Value*> results;
  for (const auto& op : kernel->body.ops)
    results.push_back(op->result());
  // The results in the order of the text.
  enum {
    z,
    range,
    column,
    columns,
    turned,
    twice,
    ns,
    square,
    moved,
    scaled,
    narrow,
    smalls,
    wraps,
    wide,
    plain,
    byte,
    ps,
    at,
    read
  };
  auto step = [&](int of, int axis) {
    return passes::step_along(results[static_cast<std::size_t>(of)], axis);
  };
  CHECK(step(z, 0) == 0);
  CHECK(step(range, 0) == 1);
  CHECK(step(column, 0) == 0);
  CHECK(step(column, 1) == 1);
  CHECK(step(columns, 0) == 0);
  CHECK(step(turned, 0) == 1);
  CHECK(step(turned, 1) == 0);
  CHECK(step(twice, 1) == 2);
  CHECK(step(square, 1) == 0);
  CHECK(step(moved, 1) == 1);
  CHECK(step(scaled, 0) == 0);
  CHECK_FALSE(step(scaled, 1));
  CHECK_FALSE(step(wide, 0)); // it may wrap to 32 bits
  CHECK(step(plain, 0) == 1);
  CHECK_FALSE(step(byte, 0));
  CHECK(step(at, 1) == 1);
  CHECK(step(at, 0) == 0);
  CHECK_FALSE(step(read, 0));
  CHECK(passes::index_tile(results[moved]) == std::nullopt);
  CHECK(passes::index_tile(results[columns]) == passes::IndexTile{nullptr, 0, 1});
  CHECK(passes::index_tile(results[turned]) == passes::IndexTile{nullptr, 0, 0});
}

TEST_CASE("indices and masks with exponentially many paths are analysed in little time") {
  std::string text = R"(
kernel @fibonacci(%v: view<f32, 1>, %some: bool) {
  %one = constant {value = 1} : i64
  %x0 = splat %one : tile<4 x i64>
  %x1 = splat %one : tile<4 x i64>
  %b0 = splat %some : tile<4 x bool>
  %b1 = splat %some : tile<4 x bool>
)";
  for (int i = 2; i < 60; ++i) {
    const std::string n = std::to_string(i), x = std::to_string(i - 1), y = std::to_string(i - 2);
    text += "  %x" + n + " = add %x" + x + ", %x" + y + " : tile<4 x i64>\n";
    text += "  %b" + n + " = and %b" + x + ", %b" + y + " : tile<4 x bool>\n";
  }
  text += "  %t = view_gather %v, %x59, %b59 {has_mask = 1} : tile<4 x f32>\n"
          "  view_scatter %v, %t, %x58\n}\n";
  auto kernel = ir::parse(text, "test");
  passes::find_pass("tile-accesses").run(*kernel, {});
  CHECK(count(*kernel, ir::Opcode::ViewGather) == 1); // the indices are no index tiles
}
