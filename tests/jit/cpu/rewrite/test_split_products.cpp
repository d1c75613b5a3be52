// Tests that products leave loops which do something else too, and are then shared by groups of programs.
#include "jit/cpu/product_reference.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cpu/facts/grouped_product.h>
#include <kiln/jit/cpu/rewrite/passes.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::cpu;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// A kernel with one loop, which carries two tiles of 16 x 32 and a sum of rows. Tests change parts of its
// text.
struct Text {
  std::string a = "%ta", c = "%tc", second = "%g", extra = {}, other_rows = "%pm";
};
std::unique_ptr<ir::Kernel> lowered(const Text& t) {
  const std::string text =
      R"(kernel @k(%a: view<const f32, 2>, %b: view<const f32, 2>, %c: view<const f32, 2>, %y: view<f32, 2>, %z: view<f32, 1>) grid [(y, 0, 16), (y, 1, 32)] {
  %i = program_id {axis = 0} : i64
  %j = program_id {axis = 1} : i64
  %sixteen = constant {value = 16} : i64
  %thirtytwo = constant {value = 32} : i64
  %pm = mul %i, %sixteen : i64
  %pn = mul %j, %thirtytwo : i64
  %zero = constant {value = 0} : i64
  %k = view_extent %a {axis = 1} : i64
  %step = constant {value = 8} : i64
  %nought = constant {value = 0.0} : f32
  %start = splat %nought : tile<16 x 32 x f32>
  %rows = splat %nought : tile<16 x f32>
  %s, %g, %r = for %zero, %k, %step, %start, %start, %rows : tile<16 x 32 x f32>, tile<16 x 32 x f32>, tile<16 x f32> {
    (%at: i64, %sum: tile<16 x 32 x f32>, %gate: tile<16 x 32 x f32>, %row: tile<16 x f32>)
    %ta = view_load %a, %pm, %at {axes = [0, 1]} : tile<16 x 8 x f32>
    %tb = view_load %b, %at, %pn {axes = [0, 1]} : tile<8 x 32 x f32>
    %tc = view_load %c, %at, %pn {axes = [0, 1]} : tile<8 x 32 x f32>
    %to = view_load %a, )" +
      t.other_rows + R"(, %at {axes = [0, 1]} : tile<16 x 8 x f32>
    %twice = add %to, %to : tile<16 x 8 x f32>
    %d = dot )" +
      t.a + R"(, %tb, %sum {precision = "ieee"} : tile<16 x 32 x f32>
    %e = dot %ta, )" +
      t.c + R"(, %gate {precision = "ieee"} : tile<16 x 32 x f32>
    %p = reduce %ta {axis = 1} : tile<16 x f32> {
      (%x: f32, %w: f32)
      %xw = add %x, %w : f32
      yield %xw
    }
    %q = add %row, %p : tile<16 x f32>
)" + t.extra +
      R"(
    yield %d, %e, %q
  }
  %all = add %s, )" +
      t.second + R"( : tile<16 x 32 x f32>
  view_store %y, %all, %pm, %pn {axes = [0, 1]}
  view_store %z, %r, %pm {axes = [0]}
}
)";
  auto kernel = ir::parse(text, "test");
  ir::verify(*kernel);
  return passes::lower_generic(*kernel, {});
}

int loops_of(const ir::Kernel& kernel) {
  return static_cast<int>(std::count_if(kernel.body.ops.begin(), kernel.body.ops.end(),
                                        [](const auto& op) { return op->is(ir::Opcode::For); }));
}
int loops_after(const Text& t) {
  const auto kernel = lowered(t);
  split_products(*kernel, {});
  ir::verify(*kernel);
  return loops_of(*kernel);
}
// The number of products that programs share.
std::size_t shared(const Text& t) {
  const auto kernel = lowered(t);
  split_products(*kernel, {});
  auto grouped =
      grouped_product(*kernel, Plan(*kernel), passes::non_negative_scalars(*kernel), host_target());
  return grouped ? grouped->products.size() : 0;
}

} // namespace

TEST_CASE("products leave a loop that does something else too, and are shared by groups") {
  CHECK(loops_of(*lowered({})) == 1);
  CHECK(loops_after({}) == 3);
  CHECK(shared({}) == 2);
  // If one product is unused, two loops remain.
  CHECK(loops_after({.second = "%s"}) == 2);
  CHECK(shared({.second = "%s"}) == 1);
}

TEST_CASE("products stay in their loop where something else in it depends on them") {
  // The operand is computed, or loaded at another offset; the accumulator has another use; the loop writes.
  CHECK(loops_after({.a = "%twice"}) == 2);
  CHECK(loops_after({.a = "%to", .other_rows = "%pn"}) == 3);
  CHECK(loops_after({.extra = "    %used = add %sum, %sum : tile<16 x 32 x f32>\n"
                              "    view_store %y, %used, %pm, %pn {axes = [0, 1]}"}) == 1);
  CHECK(loops_after({.extra = "    view_store %z, %q, %pm {axes = [0]}"}) == 1);
}

TEST_CASE("products of other rows do not join a group") {
  CHECK(shared({.a = "%to", .other_rows = "%zero"}) == 1);
}

TEST_CASE("gated layers agree with double precision on ragged sizes, in one loop and in two") {
  const auto one_loop = kernel("gated", [](View<const float, 2> a, View<const float, 2> b,
                                           View<const float, 2> g, View<float, 2> y, View<float, 1> z) {
    auto [m, n] = program_tile(y, BM, BN);
    auto [s, t, r] = for_range(
        BK, a.cols(), state(zeros<float>(BM, BN), zeros<float>(BM, BN), zeros<float>(BM)),
        [&](auto k, auto s, auto t, auto r) {
          Tile x = a.tile(m, k).load();
          return state(dot(x, b.tile(k, n).load(), s), dot(x, g.tile(k, n).load(), t), r + sum(x, BK));
        });
    y.tile(m, n).store(silu(t) * s);
    z.tile(m).store(r);
  });
  const auto two_loops =
      kernel("gated twice", [](View<const float, 2> a, View<const float, 2> b, View<const float, 2> g,
                               View<float, 2> y, View<float, 1> z) {
        auto [m, n] = program_tile(y, BM, BN);
        auto product = [&](auto& w) {
          return for_range(BK, a.cols(), zeros<float>(BM, BN),
                           [&](auto k, auto s) { return dot(a.tile(m, k).load(), w.tile(k, n).load(), s); });
        };
        Tile t = product(g);
        y.tile(m, n).store(silu(t) * product(b));
        z.tile(m).store(for_range(BK, a.cols(), zeros<float>(BM),
                                  [&](auto k, auto r) { return r + sum(a.tile(m, k).load(), BK); }));
      });
  const auto computed = // the first product has one computed operand, and the third has two
      kernel("gated and computed", [](View<const float, 2> a, View<const float, 2> b, View<const float, 2> g,
                                      View<float, 2> y, View<float, 1> z) {
        auto [m, n] = program_tile(y, BM, BN);
        auto product = [&](auto& w, auto of_a, auto of_b) {
          return for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto s) {
            return dot(of_a(a.tile(m, k).load()), of_b(w.tile(k, n).load()), s);
          });
        };
        auto plain = [](auto tile) { return tile; };
        auto at_most_one = [](auto tile) { return min(tile, 1.0f); };
        Tile t = product(g, at_most_one, plain), s = product(b, plain, plain);
        Tile twice = product(b, at_most_one, at_most_one);
        y.tile(m, n).store(silu(t) * (0.5f * (s + twice)));
        z.tile(m).store(for_range(BK, a.cols(), zeros<float>(BM),
                                  [&](auto k, auto r) { return r + sum(a.tile(m, k).load(), BK); }));
      });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn, bk] : {std::array{64, 64, 32}, {16, 128, 64}, {8, 16, 8}, {1, 64, 16}, {128, 32, 16}})
    for (const auto* gated : {&one_loop, &two_loops, &computed}) {
      const std::int64_t m = number(1, 200), n = number(1, 300), k = number(0, 150);
      CAPTURE(bm, bn, bk, m, n, k, gated->name());
      auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random),
           g = test::random_matrix(k, n, random), y = test::random_matrix(m, n, random);
      auto z = Tensor<float, 1>::empty({m});
      y.fill(NAN), z.fill(NAN);
      gated->launch(stream, {BM = bm, BN = bn, BK = bk}, a, b, g, y, z);
      stream.synchronize();
      for (std::int64_t i = 0; i < m; ++i) {
        double row = 0;
        for (std::int64_t c = 0; c < k; ++c)
          row += a.data()[i * k + c];
        REQUIRE(z.data()[i] == Approx(row).margin(1e-4));
        for (std::int64_t j = i % 3; j < n; j += 3) {
          const double t = test::exact_product(a, g, i, j),
                       expected = t / (1 + std::exp(-t)) * test::exact_product(a, b, i, j);
          REQUIRE(y.data()[i * n + j] == Approx(expected).epsilon(1e-4).margin(1e-4));
        }
      }
    }
}
