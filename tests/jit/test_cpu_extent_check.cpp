// Comparisons of column numbers with a view's extent, which bound the vector loops they stand in.
#include "cpu_runner.h"
#include "kernel_text.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::test;

TEST_CASE("comparisons of column numbers with an extent hold where they should, wherever the columns begin") {
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
  constexpr auto low = std::numeric_limits<std::int64_t>::min(),
                 high = std::numeric_limits<std::int64_t>::max();
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> begins = {0, 1, -1, -3, -64, 64, high, high - 2, high - 100, low, low + 100};
  for (int i = 0; i < 10; ++i)
    begins.push_back(std::uniform_int_distribution<std::int64_t>(-250, 250)(random));
  for (std::int64_t extent : {0, 1, 16, 63, 64, 100, 199, 203, 500})
    for (std::int64_t from : begins) {
      CAPTURE(extent, from);
      std::vector<float> x(200), n(500), y(400, 2.5f);
      for (float& v : x)
        v = std::uniform_real_distribution<float>(-1, 1)(random);
      Arguments()
          .view(x.data(), {200})
          .view(n.data(), {extent})
          .view(y.data(), {2, 200})
          .scalar(from)
          .run_on(*kernel, {1});
    }
}
