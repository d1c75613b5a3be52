// Compiles kernels for the CPU and compares what they compute with the interpreter.
#include "cpu_runner.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <random>

using namespace kiln;

namespace {

// A row-major array of floats with one or two axes, as the words of a launch.
struct Array {
  std::vector<float> data;
  std::vector<std::int64_t> extents;
  Array(std::vector<std::int64_t> e, std::uint64_t seed) : extents(std::move(e)) {
    std::int64_t n = 1;
    for (auto x : extents)
      n *= x;
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < n; ++i)
      data.push_back(normal(random));
  }
  void words(std::vector<std::uint64_t>& into) {
    into.push_back(reinterpret_cast<std::uint64_t>(data.data()));
    for (auto e : extents)
      into.push_back(static_cast<std::uint64_t>(e));
    std::vector<std::int64_t> strides(extents.size(), 1);
    for (std::size_t i = extents.size(); i-- > 1;)
      strides[i - 1] = strides[i] * extents[i];
    for (auto s : strides)
      into.push_back(static_cast<std::uint64_t>(s));
  }
};

// Runs a kernel on the CPU and in the interpreter with equal inputs, and returns the largest difference
// relative to the largest value.
double difference(const char* text, const Config& config, std::vector<Array> arrays,
                  std::vector<LayoutClass> layouts) {
  auto kernel = ir::parse(text, "test");
  test::CpuKernel compiled(*kernel, config, layouts);
  std::vector<Array> reference = arrays;
  std::vector<std::uint64_t> words, reference_words;
  for (auto& a : arrays)
    a.words(words);
  for (auto& a : reference)
    a.words(reference_words);
  auto grid = ir::grid_of(*compiled.lowered, words.data());
  compiled.run(words.data(), grid);
  ir::interpret(*compiled.lowered, reference_words.data(), grid);
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (std::size_t k = 0; k < arrays[i].data.size(); ++k) {
      double x = arrays[i].data[k], y = reference[i].data[k];
      if (std::isnan(x) != std::isnan(y)) return INFINITY;
      if (std::isnan(x) || (std::isinf(x) && x == y)) continue;
      most = std::max(most, std::abs(x - y));
      scale = std::max(scale, std::abs(y));
    }
  return scale == 0 ? most : most / scale;
}

constexpr const char* add_kernel = R"(
kernel @add(%a: view<const f32, 1>, %b: view<const f32, 1>, %c: view<f32, 1>) grid [(c, 0, B)] {
  %m = program_tile %c {dims = [B]} : i64
  %x = view_load %a, %m {axes = [0]} : tile<B x f32>
  %y = view_load %b, %m {axes = [0]} : tile<B x f32>
  %z = add %x, %y : tile<B x f32>
  view_store %c, %z, %m {axes = [0]}
}
)";

constexpr const char* softmax_kernel = R"(
kernel @softmax(%x: view<const f32, 2>, %y: view<f32, 2>) grid [(y, 0, BM), (y, 1, BN)] {
  %m, %n = program_tile %y {dims = [BM, BN]} : i64, i64
  %inf = constant {value = -inf} : f32
  %v = view_load %x, %m, %n, %inf {axes = [0, 1], has_other = 1} : tile<BM x BN x f32>
  %max = reduce %v {axis = 1} : tile<BM x f32> {
    (%p: f32, %q: f32)
    %r = max %p, %q : f32
    yield %r
  }
  %max1 = expand_dims %max {axis = 1} : tile<BM x 1 x f32>
  %maxb = broadcast %max1 : tile<BM x BN x f32>
  %d = sub %v, %maxb : tile<BM x BN x f32>
  %e = exp %d : tile<BM x BN x f32>
  %s = reduce %e {axis = 1} : tile<BM x f32> {
    (%p2: f32, %q2: f32)
    %r2 = add %p2, %q2 : f32
    yield %r2
  }
  %s1 = expand_dims %s {axis = 1} : tile<BM x 1 x f32>
  %sb = broadcast %s1 : tile<BM x BN x f32>
  %o = div %e, %sb : tile<BM x BN x f32>
  view_store %y, %o, %m, %n {axes = [0, 1]}
}
)";

// Functions that are reduced along rows and down columns, also with a combine function without identity, and
// stored.
constexpr const char* functions_kernel = R"(
kernel @functions(%x: view<const f32, 2>, %y: view<f32, 2>, %rows: view<f32, 2>, %columns: view<f32, 1>) {
  %z = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %two = constant {value = 2} : i64
  %inf = constant {value = -inf} : f32
  %v = view_load %x, %z, %z, %inf {axes = [0, 1], has_other = 1} : tile<BM x BN x f32>
  %e = exp %v : tile<BM x BN x f32>
  %t = tanh %v : tile<BM x BN x f32>
  %s = reduce %e {axis = 1} : tile<BM x f32> {
    (%a: f32, %b: f32)
    %c = add %a, %b : f32
    yield %c
  }
  %most = reduce %t {axis = 1} : tile<BM x f32> {
    (%a1: f32, %b1: f32)
    %c1 = max %a1, %b1 : f32
    yield %c1
  }
  %number = arange {start = 0} : tile<BN x i32>
  %flat = expand_dims %number {axis = 0} : tile<1 x BN x i32>
  %numbers = broadcast %flat : tile<BM x BN x i32>
  %value, %where = reduce %e, %numbers {axis = 1} : tile<BM x f32>, tile<BM x i32> {
    (%a2: f32, %i2: i32, %b2: f32, %j2: i32)
    %less = lt %a2, %b2 : bool
    %c2 = select %less, %b2, %a2 : f32
    %k2 = select %less, %j2, %i2 : i32
    yield %c2, %k2
  }
  %place = cast %where : tile<BM x f32>
  %down = reduce %t {axis = 0} : tile<BN x f32> {
    (%a3: f32, %b3: f32)
    %c3 = add %a3, %b3 : f32
    yield %c3
  }
  view_store %rows, %s, %z, %z {axes = [1]}
  view_store %rows, %most, %one, %z {axes = [1]}
  view_store %rows, %place, %two, %z {axes = [1]}
  view_store %columns, %down, %z {axes = [0]}
  %o = mul %e, %t : tile<BM x BN x f32>
  view_store %y, %o, %z, %z {axes = [0, 1]}
}
)";

constexpr const char* matmul_kernel = R"(
kernel @matmul(%a: view<const f32, 2>, %b: view<const f32, 2>, %c: view<f32, 2>) grid [(c, 0, BM), (c, 1, BN)] {
  %m, %n = program_tile %c {dims = [BM, BN]} : i64, i64
  %zero = constant {value = 0.0} : f32
  %init = splat %zero : tile<BM x BN x f32>
  %lo = constant {value = 0} : i64
  %hi = view_extent %a {axis = 1} : i64
  %step = dim_size {dim = BK} : i64
  %r = for %lo, %hi, %step, %init : tile<BM x BN x f32> {
    (%k: i64, %acc: tile<BM x BN x f32>)
    %x = view_load %a, %m, %k {axes = [0, 1]} : tile<BM x BK x f32>
    %y = view_load %b, %k, %n {axes = [0, 1]} : tile<BK x BN x f32>
    %d = dot %x, %y : tile<BM x BN x f32>
    %s = add %acc, %d : tile<BM x BN x f32>
    yield %s
  }
  %zeros = splat %zero : tile<BM x BN x f32>
  %o = max %r, %zeros : tile<BM x BN x f32>
  view_store %c, %o, %m, %n {axes = [0, 1]}
}
)";

Config sizes(std::initializer_list<std::pair<const char*, std::int64_t>> pairs) {
  Config config;
  for (auto [name, value] : pairs)
    config.set(name, value);
  return config;
}

} // namespace

TEST_CASE("vector add agrees with the interpreter at ragged sizes and any layout") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  for (std::int64_t n : {1, 15, 16, 17, 1000, 4099})
    for (std::int64_t block : {1, 5, 16, 100, 1024})
      for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit})
        CHECK(difference(add_kernel, sizes({{"B", block}}),
                         {Array({n}, seed), Array({n}, seed + 1), Array({n}, seed + 2)},
                         {layout, layout, layout}) == 0);
}

TEST_CASE("softmax agrees with the interpreter") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  for (std::int64_t rows : {1, 7})
    for (std::int64_t columns : {1, 3, 16, 100, 257}) {
      std::int64_t block = 1;
      while (block < columns)
        block *= 2;
      for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit}) {
        CAPTURE(rows, columns, block, static_cast<int>(layout));
        CHECK(difference(softmax_kernel, sizes({{"BM", 4}, {"BN", block}}),
                         {Array({rows, columns}, seed), Array({rows, columns}, seed + 1)},
                         {layout, layout}) < 1e-6);
      }
    }
}

TEST_CASE("functions of tiles of any width agree with the interpreter") {
  const auto first_seed = test::fresh_seed();
  CAPTURE(first_seed);
  std::mt19937_64 random(first_seed);
  for (std::int64_t block : {8, 24, 31, 32, 63, 64, 72, 128, 200, 257, 512}) {
    const std::uint64_t seed = random();
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 5);
    const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(block));
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit})
      for (std::int64_t n : {block, columns}) {
        CAPTURE(seed, rows, n, block, static_cast<int>(layout));
        // A sum of n positive terms, one after the other, has an error of up to n / 2 ulp; functions have few.
        const double tolerance = std::ldexp(static_cast<double>(n + 8), -24);
        CHECK(difference(functions_kernel, sizes({{"BM", 5}, {"BN", block}}),
                         {Array({rows, n}, seed), Array({rows, n}, seed + 1), Array({3, rows}, seed + 2),
                          Array({n}, seed + 3)},
                         {layout, layout, layout, layout}) < tolerance);
      }
  }
}

TEST_CASE("matmul agrees with the interpreter") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  for (auto [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {33, 65, 17}, {100, 130, 70}})
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit})
      CHECK(difference(matmul_kernel, sizes({{"BM", 32}, {"BN", 64}, {"BK", 16}}),
                       {Array({m, k}, seed), Array({k, n}, seed + 1), Array({m, n}, seed + 2)},
                       {layout, layout, layout}) < 1e-5);
}
