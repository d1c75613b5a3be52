// Tests reductions over several axes of a tile at once.
#include "random_numbers.h"

#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cpu/rewrite/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BB);
KILN_DIM(BM);
KILN_DIM(BN);

int count(const ir::Kernel& kernel, ir::Opcode code) {
  int n = 0;
  ir::walk(kernel.body, [&](const ir::Op& op) { n += op.is(code); });
  return n;
}

std::unique_ptr<ir::Kernel> split(const std::string& from, const std::string& to, int axis,
                                  const std::string& reduced, const std::string& dtype = "f32") {
  auto kernel = ir::parse("kernel @k(%x: tile<" + from + " x " + dtype + ">, %y: ptr<" + dtype + ">) {\n" +
                          "  %f = reshape %x : tile<" + to + " x " + dtype + ">\n" +
                          "  %s = reduce %f {axis = " + std::to_string(axis) + "} : " + reduced +
                          " {\n    (%a: " + dtype + ", %b: " + dtype + ")\n    %c = add %a, %b : " + dtype +
                          "\n    yield %c\n  }\n  store %y, %s\n}\n");
  cpu::split_flat_reductions(*kernel, {});
  return kernel;
}

} // namespace

TEST_CASE("flat reductions are split where vectors of the flat tile would cross rows") {
  auto all = split("10 x 100", "1000", 0, "f32");
  CHECK(count(*all, ir::Opcode::Reduce) == 2);
  CHECK(count(*all, ir::Opcode::Reshape) == 0);
  CHECK(count(*split("3 x 5 x 7", "105", 0, "f32"), ir::Opcode::Reduce) == 3);
  // Rows of a power of two stay, and so do sums of narrow floats, which would be rounded more than once.
  CHECK(count(*split("10 x 64", "640", 0, "f32"), ir::Opcode::Reduce) == 1);
  CHECK(count(*split("10 x 100", "1000", 0, "bf16", "bf16"), ir::Opcode::Reduce) == 1);
}

TEST_CASE("reductions over all of a tile agree with double precision") {
  test::Random random;
  KILN_SEED(random);
  const auto reductions = kernel("whole_tiles", [](View<const float, 3> x, View<float, 2> out) {
    Scalar<std::int64_t> p = program_id(0);
    Tile t = x.tile(Offset<BB>(p * dim_size(BB)), Offset<BM>(0), Offset<BN>(0)).load();
    out.at(p, 0).store(sum(t));
    out.at(p, 1).store(sum(t * t));
    out.at(p, 2).store(max(t));
    out.at(p, 3).store(min(t));
    out.at(p, 4).store(cast<float>(sum(cast<std::int32_t>(t > 0.f))));
    out.at(p, 5).store(cast<float>(argmax(flatten(t), axis<0>)));
  });
  const std::int64_t tiles[][3] = {{1, 10, 100}, {3, 7, 5}, {2, 3, 24}, {1, 2, 1000},
                                   {4, 1, 33},   {5, 6, 1}, {2, 4, 16}};
  for (const auto& [bb, bm, bn] : tiles) {
    const std::int64_t b = 2 * bb + 1, m = std::max<std::int64_t>(1, bm - 1),
                       n = std::max<std::int64_t>(1, bn - 1);
    INFO("tiles of " << bb << " x " << bm << " x " << bn);
    std::vector<float> x(static_cast<std::size_t>(b * m * n));
    for (float& v : x)
      v = static_cast<float>(random.uniform(-2, 2));
    const std::int64_t programs = (b + bb - 1) / bb;
    std::vector<float> out(static_cast<std::size_t>(programs * 6), std::numeric_limits<float>::quiet_NaN());
    Stream stream;
    reductions.launch(stream, {BB = bb, BM = bm, BN = bn}, Grid{programs}, TensorView(x, {b, m, n}),
                      TensorView(out, {programs, 6}));
    stream.synchronize();
    for (std::int64_t p = 0; p < programs; ++p) {
      double sum = 0, squares = 0, absolute = 0, positive = 0;
      // Elements outside of x are zero.
      float most = -std::numeric_limits<float>::infinity(), least = -most;
      std::int64_t at_most = 0;
      for (std::int64_t i = 0; i < bb * bm * bn; ++i) {
        const std::int64_t k = p * bb + i / (bm * bn), r = i / bn % bm, c = i % bn;
        const float v = k < b && r < m && c < n ? x[static_cast<std::size_t>((k * m + r) * n + c)] : 0;
        sum += v, squares += double{v} * v, absolute += std::abs(v), positive += v > 0;
        if (v > most) most = v, at_most = i;
        least = std::min(least, v);
      }
      const float* o = &out[static_cast<std::size_t>(p * 6)];
      CHECK(std::abs(o[0] - sum) <= 1e-6 * absolute);
      CHECK(std::abs(o[1] - squares) <= 1e-6 * squares);
      CHECK(o[2] == most);
      CHECK(o[3] == least);
      CHECK(o[4] == positive);
      CHECK(o[5] == static_cast<float>(at_most));
    }
  }
}
