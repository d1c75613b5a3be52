// Compares predicted bytes and flops with counts by hand.
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/passes/cost.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

using namespace kiln;
using passes::Cost;
using passes::KnownArguments;

namespace {

struct Extents {
  std::vector<std::int64_t> of_view;
};

// The cost of a kernel whose views are contiguous and have these extents, and whose scalars are unknown.
Cost cost_of_text(const char* text, const char* config, const std::vector<Extents>& views) {
  auto recorded = ir::parse(text);
  passes::PassOptions options{Config::parse(config), {}};
  auto kernel = passes::lower_generic(*recorded, options);
  KnownArguments arguments;
  auto layout = ir::ArgumentLayout::of(*kernel);
  arguments.words.resize(static_cast<std::size_t>(layout.words));
  std::size_t view = 0;
  for (const auto& arg : kernel->body.args) {
    if (!arg->type.is_view() || view >= views.size()) continue;
    const auto& extents = views[view++].of_view;
    std::int64_t stride = 1;
    for (int axis = arg->type.view_rank; axis-- > 0;) {
      auto extent = extents[static_cast<std::size_t>(axis)];
      arguments.words[static_cast<std::size_t>(layout.extent_word(arg->index, axis))] =
          static_cast<std::uint64_t>(extent);
      arguments.words[static_cast<std::size_t>(layout.stride_word(arg->index, arg->type.view_rank, axis))] =
          static_cast<std::uint64_t>(stride);
      stride *= extent;
    }
  }
  return passes::cost_of(*kernel, arguments);
}

constexpr const char* scale = R"(
kernel @scale(%x: view<const f32, 1>, %factor: f32, %y: view<f16, 1>) {
  %0 = program_tile %x {dims = [BM]} : i64
  %1 = view_load %x, %0 {axes = [0]} : tile<BM x f32>
  %2 = splat %factor : tile<BM x f32>
  %3 = mul %1, %2 : tile<BM x f32>
  %4 = exp %3 : tile<BM x f32>
  %5 = cast %4 : tile<BM x f16>
  view_store %y, %5, %0 {axes = [0]}
})";

constexpr const char* matmul = R"(
kernel @matmul(%a: view<const f32, 2>, %b: view<const f32, 2>, %c: view<f32, 2>) {
  %k1 = view_extent %a {axis = 1} : i64
  %m, %n = program_tile %c {dims = [BM, BN]} : i64, i64
  %zero = constant {value = 0.0} : f32
  %init = splat %zero : tile<BM x BN x f32>
  %lo = constant {value = 0} : i64
  %step = dim_size {dim = BK} : i64
  %acc = for %lo, %k1, %step, %init : tile<BM x BN x f32> {
    (%k: i64, %sum: tile<BM x BN x f32>)
    %ta = view_load %a, %m, %k {axes = [0, 1]} : tile<BM x BK x f32>
    %tb = view_load %b, %k, %n {axes = [0, 1]} : tile<BK x BN x f32>
    %next = dot %ta, %tb, %sum : tile<BM x BN x f32>
    yield %next
  }
  view_store %c, %acc, %m, %n {axes = [0, 1]}
})";

std::int64_t cdiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

} // namespace

TEST_CASE("an elementwise kernel moves each element once, also in a last tile that is cut off", "[cost]") {
  auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    auto n = static_cast<std::int64_t>(random() % 3'000'000);
    auto tile = static_cast<std::int64_t>(1 + random() % 5000);
    INFO("n " << n << ", tile " << tile);
    Cost cost = cost_of_text(scale, ("BM=" + std::to_string(tile)).c_str(), {{{n}}, {{n}}});
    CHECK(cost.programs == static_cast<double>(cdiv(n, tile)));
    CHECK(cost.parameters[0].read == Approx(4.0 * static_cast<double>(n)));
    CHECK(cost.parameters[0].written == 0);
    CHECK(cost.parameters[2].written == Approx(2.0 * static_cast<double>(n)));
    CHECK(cost.unique_bytes() == Approx(6.0 * static_cast<double>(n)));
    // Tiles are computed as a whole.
    CHECK(cost.flops ==
          Approx((1 + passes::flops_of(ir::Opcode::Exp)) * static_cast<double>(cdiv(n, tile) * tile)));
    CHECK(cost.in_bounds_flops == Approx((1 + passes::flops_of(ir::Opcode::Exp)) * static_cast<double>(n)));
    CHECK(cost.assumptions.empty());
  }
}

TEST_CASE("a matmul reads a and b once for each tile of c that needs them", "[cost]") {
  auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 10; ++round) {
    auto m = static_cast<std::int64_t>(1 + random() % 3000),
         n = static_cast<std::int64_t>(1 + random() % 3000),
         k = static_cast<std::int64_t>(1 + random() % 9000);
    INFO("m " << m << ", n " << n << ", k " << k);
    Cost cost = cost_of_text(matmul, "BM=48,BN=64,BK=32", {{{m, k}}, {{k, n}}, {{m, n}}});
    auto rows = static_cast<double>(cdiv(m, 48)), columns = static_cast<double>(cdiv(n, 64));
    CHECK(cost.programs == rows * columns);
    CHECK(cost.parameters[0].read == Approx(4.0 * static_cast<double>(m * k) * columns));
    CHECK(cost.parameters[1].read == Approx(4.0 * static_cast<double>(k * n) * rows));
    CHECK(cost.parameters[2].written == Approx(4.0 * static_cast<double>(m * n)));
    CHECK(cost.unique_bytes() == Approx(4.0 * static_cast<double>(m * k + k * n + m * n)));
    CHECK(cost.flops == Approx(2.0 * rows * 48 * columns * 64 * static_cast<double>(cdiv(k, 32) * 32)));
    CHECK(cost.in_bounds_flops == Approx(2.0 * static_cast<double>(m * n) * static_cast<double>(k)));
  }
}

TEST_CASE("an empty grid costs nothing", "[cost]") {
  Cost cost = cost_of_text(matmul, "BM=16,BN=16,BK=16", {{{0, 5}}, {{5, 7}}, {{0, 7}}});
  CHECK(cost.programs == 0.0);
  CHECK(cost.read() == 0);
  CHECK(cost.written() == 0);
  CHECK(cost.flops == 0);
}

TEST_CASE("without sizes the figures are those of one program, and loops count one iteration", "[cost]") {
  Cost cost = cost_of_text(matmul, "BM=16,BN=8,BK=4", {});
  CHECK_FALSE(cost.programs.has_value());
  CHECK(cost.flops == 2.0 * 16 * 8 * 4);
  CHECK(cost.read() == 4.0 * (16 * 4 + 4 * 8));
  CHECK(cost.written() == 4.0 * 16 * 8);
  REQUIRE(cost.assumptions.size() == 1);
  CHECK(cost.assumptions[0] ==
        "text:9: the trip count of this loop is not known, so one iteration is counted");
}

TEST_CASE("a loop whose trip count depends on the program is evaluated, and sampled if it is long",
          "[cost]") {
  // Program p reads the tiles 0 to p of x.
  constexpr const char* triangle = R"(
kernel @triangle(%x: view<const f32, 1>, %y: view<f32, 1>) {
  %0 = program_tile %x {dims = [BM]} : i64
  %zero = constant {value = 0} : i64
  %step = dim_size {dim = BM} : i64
  %end = add %0, %step : i64
  for %zero, %end, %step {
    (%i: i64)
    %v = view_load %x, %i {axes = [0]} : tile<BM x f32>
    view_store %y, %v, %0 {axes = [0]}
    yield
  }
})";
  for (std::int64_t programs : {1, 7, 200, 5000}) {
    Cost cost = cost_of_text(triangle, "BM=4", {{{4 * programs}}, {{4 * programs}}});
    double expected = 16.0 * static_cast<double>(programs * (programs + 1) / 2);
    INFO(programs << " programs");
    CHECK(cost.read() == Approx(expected).epsilon(programs > 64 ? 0.01 : 1e-9));
  }
}

TEST_CASE("a known branch is evaluated, and an unknown one counts as the more expensive branch", "[cost]") {
  constexpr const char* branch = R"(
kernel @branch(%x: view<f32, 1>, %deep: i64) {
  %0 = program_tile %x {dims = [8]} : i64
  %zero = constant {value = 0} : i64
  %first = eq %0, %zero : bool
  if %first {
    %v = view_load %x, %0 {axes = [0]} : tile<8 x f32>
    view_store %x, %v, %0 {axes = [0]}
    yield
  } {
    yield
  }
  %c = gt %deep, %zero : bool
  if %c {
    yield
  } {
    %w = view_load %x, %0 {axes = [0]} : tile<8 x f32>
    %e = neg %w : tile<8 x f32>
    view_store %x, %e, %0 {axes = [0]}
    yield
  }
})";
  Cost cost = cost_of_text(branch, "", {{{80}}});
  CHECK(cost.read() == 32.0 * 11);
  CHECK(cost.written() == 32.0 * 11);
  CHECK(cost.flops == 80);
  REQUIRE(cost.assumptions.size() == 1);
  CHECK(cost.assumptions[0] ==
        "text:14: which branch is taken is not known, so the more expensive one is counted");
}

TEST_CASE("reductions, atomics and pointers count", "[cost]") {
  constexpr const char* text = R"(
kernel @mixed(%p: ptr<const i32>, %sum: ptr<f32>) {
  %r = arange {start = 0} : tile<64 x i64>
  %base = splat %p : tile<64 x ptr<const i32>>
  %at = ptr_add %base, %r : tile<64 x ptr<const i32>>
  %v = load %at : tile<64 x i32>
  %two = add %v, %v : tile<64 x i32>
  %f = cast %two : tile<64 x f32>
  %s = reduce %f {axis = 0} : f32 {
    (%a: f32, %b: f32)
    %c = add %a, %b : f32
    yield %c
  }
  %old = atomic_rmw %sum, %s {kind = "add", order = "relaxed", scope = "gpu"} : f32
})";
  Cost cost = cost_of_text(text, "", {});
  CHECK(cost.programs == 1.0);
  CHECK(cost.parameters[0].read == 256);
  CHECK(cost.parameters[1].read == 4);
  CHECK(cost.parameters[1].written == 4);
  CHECK(cost.integer_ops == 64);
  CHECK(cost.flops == 64 + 1);
  CHECK(cost.reductions == 1);
}

TEST_CASE("padding of tiles is followed through broadcasts, reductions and carried tiles", "[cost]") {
  // The inner loop of attention: scores of rows of x and y, their sums, and a product with y.
  constexpr const char* text = R"(
kernel @scores(%x: view<const f32, 2>, %y: view<const f32, 2>, %o: view<f32, 2>) {
  %m = program_tile %o {dims = [BM]} : i64
  %zero = constant {value = 0} : i64
  %none = constant {value = 0.0} : f32
  %init = splat %none : tile<BM x 64 x f32>
  %rows = view_extent %y {axis = 0} : i64
  %step = dim_size {dim = BN} : i64
  %tx = view_load %x, %m, %zero {axes = [0, 1]} : tile<BM x 64 x f32>
  %acc = for %zero, %rows, %step, %init : tile<BM x 64 x f32> {
    (%n: i64, %sum: tile<BM x 64 x f32>)
    %ty = view_load %y, %n, %zero {axes = [0, 1]} : tile<BN x 64 x f32>
    %t = permute %ty {order = [1, 0]} : tile<64 x BN x f32>
    %s = dot %tx, %t : tile<BM x BN x f32>
    %l = reduce %s {axis = 1} : tile<BM x f32> {
      (%a: f32, %b: f32)
      %c = add %a, %b : f32
      yield %c
    }
    %l2 = expand_dims %l {axis = 1} : tile<BM x 1 x f32>
    %l3 = broadcast %l2 : tile<BM x BN x f32>
    %p = div %s, %l3 : tile<BM x BN x f32>
    %next = dot %p, %ty, %sum : tile<BM x 64 x f32>
    yield %next
  }
  %twice = add %acc, %acc : tile<BM x 64 x f32>
  view_store %o, %twice, %m, %zero {axes = [0, 1]}
})";
  for (const auto& [m, n] : {std::pair<double, double>{37, 101}, {64, 64}, {1, 7}, {200, 1030}}) {
    const auto rows = static_cast<std::int64_t>(m), others = static_cast<std::int64_t>(n);
    const Cost cost = cost_of_text(text, "BM=16,BN=32", {{{rows, 50}}, {{others, 50}}, {{rows, 64}}});
    // A product over 50 columns, sums, quotients, a product with 50 columns, and additions.
    CHECK(cost.in_bounds_flops == Approx(2 * m * n * 50 + m * n + 4 * m * n + 2 * m * n * 50 + m * 50));
    CHECK(cost.in_bounds_flops < cost.flops);
  }
}

TEST_CASE("the cost of deep loops of many iterations is found in little time", "[cost]") {
  constexpr const char* deep = R"(
kernel @deep(%x: view<f32, 1>) {
  %0 = program_tile %x {dims = [1]} : i64
  %zero = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %many = constant {value = 1000000} : i64
  for %zero, %many, %one {
    (%a: i64)
    for %zero, %many, %one {
      (%b: i64)
      for %zero, %many, %one {
        (%c: i64)
        for %zero, %many, %one {
          (%d: i64)
          for %zero, %many, %one {
            (%e: i64)
            %v = view_load %x, %0 {axes = [0]} : tile<1 x f32>
            %w = neg %v : tile<1 x f32>
            view_store %x, %w, %0 {axes = [0]}
            yield
          }
          yield
        }
        yield
      }
      yield
    }
    yield
  }
})";
  auto begin = std::chrono::steady_clock::now();
  Cost cost = cost_of_text(deep, "", {{{1'000'000'000'000}}});
  CHECK(cost.flops == Approx(1e42));
  // The limit is far above what the analysis takes, and far below what the loops would take.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("random kernels get a finite cost over their whole grid", "[cost]") {
  std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + 100; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {});
    const test::RandomArguments data(random, seed);
    passes::PassOptions options{random.config, {}};
    auto kernel = passes::lower_generic(*random.kernel, options);
    auto layout = ir::ArgumentLayout::of(*kernel);
    KnownArguments arguments;
    arguments.words.assign(data.words(), data.words() + layout.words);
    Cost cost = passes::cost_of(*kernel, arguments);
    REQUIRE(
        std::isfinite(cost.read() + cost.written() + cost.unique_bytes() + cost.flops + cost.integer_ops));
    REQUIRE(cost.unique_bytes() <= cost.read() + cost.written());
    REQUIRE(cost.in_bounds_flops >= 0);
    REQUIRE(cost.in_bounds_flops <= cost.flops * (1 + 1e-9));
    double programs = 1;
    for (std::int64_t g : ir::grid_of(*kernel, data.words()))
      programs *= static_cast<double>(g);
    REQUIRE(cost.programs == programs);
  }
}
