// Tests comparisons of column indices with bounds, at which vector loops end.
#include "jit/cpu/cpu_runner.h"
#include "jit/kernel_text.h"
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr auto low = std::numeric_limits<std::int64_t>::min(),
               high = std::numeric_limits<std::int64_t>::max();

std::vector<float> random_floats(std::int64_t count, std::mt19937_64& random) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x)
    v = std::uniform_real_distribution<float>(-1, 1)(random);
  return x;
}

} // namespace

TEST_CASE("comparisons of column indices with an extent are right, wherever the columns begin") {
  auto kernel = parsed(R"(
kernel @inside(%x: view<const f32, 1>, %n: view<const f32, 1>, %y: view<f32, 2>, %from: i64) {
  %z = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %far = constant {value = -7.0} : f32
  %away = splat %far : tile<200 x f32>
  %extent = view_extent %n {axis = 0} : i64
  %end = splat %extent : tile<200 x i64>
  %first = splat %from : tile<200 x i64>
  %number = arange {start = 3} : tile<200 x i32>
  %wide = cast %number : tile<200 x i64>
  %column = add %first, %wide : tile<200 x i64>
  %v = view_load %x, %z {axes = [0]} : tile<200 x f32>
  %left = lt %column, %end : tile<200 x bool>
  %right = gt %end, %wide : tile<200 x bool>
  %a = select %left, %v, %away : tile<200 x f32>
  %b = select %right, %v, %away : tile<200 x f32>
  %s = add %a, %b : tile<200 x f32>
  view_store %y, %a, %z, %z {axes = [1]}
  view_store %y, %s, %one, %z {axes = [1]}
}
)",
                       {});
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> begins = {0, 1, -1, -3, -64, 64, high, high - 2, high - 100, low, low + 100};
  for (int i = 0; i < 10; ++i)
    begins.push_back(std::uniform_int_distribution<std::int64_t>(-250, 250)(random));
  for (std::int64_t extent : {0, 1, 16, 63, 64, 100, 199, 203, 500})
    for (std::int64_t from : begins) {
      if (test::left_out(random)) continue;
      CAPTURE(extent, from);
      std::vector<float> x = random_floats(200, random), n(500), y(400, 2.5f);
      Arguments()
          .view(x.data(), {200})
          .view(n.data(), {extent})
          .view(y.data(), {2, 200})
          .scalar(from)
          .run_on(*kernel, {1});
    }
}

TEST_CASE("comparisons of column indices with a scalar and with row indices are right, also if they wrap") {
  auto kernel = parsed(R"(
kernel @masked(%x: view<const f32, 2>, %y: view<f32, 3>, %top: view<f32, 2>, %n: i64, %m: i64, %last: i64) {
  %z = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %two = constant {value = 2} : i64
  %three = constant {value = 3} : i64
  %far = constant {value = -7.0} : f32
  %away = splat %far : tile<9 x 77 x f32>
  %ns = splat %n : tile<77 x i64>
  %numbers = arange {start = 2} : tile<77 x i64>
  %column = add %numbers, %ns : tile<77 x i64>
  %flat = expand_dims %column {axis = 0} : tile<1 x 77 x i64>
  %columns = broadcast %flat : tile<9 x 77 x i64>
  %ms = splat %m : tile<9 x i64>
  %short = arange {start = 1} : tile<9 x i32>
  %lines = cast %short : tile<9 x i64>
  %row = add %ms, %lines : tile<9 x i64>
  %upright = expand_dims %row {axis = 1} : tile<9 x 1 x i64>
  %rows = broadcast %upright : tile<9 x 77 x i64>
  %lasts = splat %last : tile<9 x 77 x i64>
  %v = view_load %x, %z, %z {axes = [0, 1]} : tile<9 x 77 x f32>
  %m0 = le %columns, %rows : tile<9 x 77 x bool>
  %m1 = gt %rows, %columns : tile<9 x 77 x bool>
  %m2 = ge %lasts, %columns : tile<9 x 77 x bool>
  %m3 = lt %rows, %columns : tile<9 x 77 x bool>
  %s0 = select %m0, %v, %away : tile<9 x 77 x f32>
  %s1 = select %m1, %v, %away : tile<9 x 77 x f32>
  %s2 = select %m2, %v, %away : tile<9 x 77 x f32>
  %s3 = select %m3, %v, %away : tile<9 x 77 x f32>
  view_store %y, %s0, %z, %z, %z {axes = [1, 2]}
  view_store %y, %s1, %one, %z, %z {axes = [1, 2]}
  view_store %y, %s2, %two, %z, %z {axes = [1, 2]}
  view_store %y, %s3, %three, %z, %z {axes = [1, 2]}
  %most = reduce %s0 {axis = 1} : tile<9 x f32> {
    (%a: f32, %b: f32)
    %r = max %a, %b : f32
    yield %r
  }
  %least = reduce %s2 {axis = 0} : tile<77 x f32> {
    (%p: f32, %q: f32)
    %t = min %p, %q : f32
    yield %t
  }
  view_store %top, %most, %z, %z {axes = [1]}
  view_store %top, %least, %one, %z {axes = [1]}
}
)",
                       {});
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::int64_t> extremes = {0,          high, high - 3, high - 40, high - 79,
                                              high - 200, low,  low + 5,  low + 90};
  auto any = [&] {
    if (random() % 4 == 0) return extremes[random() % extremes.size()];
    return std::uniform_int_distribution<std::int64_t>(-100, 100)(random);
  };
  for (int round = 0; round < test::rounds(200); ++round) {
    const std::int64_t n = any(), m = any(), last = any();
    const auto columns = static_cast<std::int64_t>(60 + random() % 30);
    CAPTURE(n, m, last, columns);
    std::vector<float> x = random_floats(9 * columns, random), y(std::size_t{4} * 9 * 77, 2.5f),
                       top(std::size_t{2} * 77, 2.5f);
    Arguments()
        .view(x.data(), {9, columns})
        .view(y.data(), {4, 9, 77})
        .view(top.data(), {2, 77})
        .scalar(n)
        .scalar(m)
        .scalar(last)
        .run_on(*kernel, {1});
  }
}
