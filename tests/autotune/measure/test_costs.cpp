// Measures the cost of trials; run it with `tune_tests "[trial_costs]"`.
#include "measured.h"

#include <kiln/autotune/random.h>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

// This is hidden because it only prints times and checks nothing.
TEST_CASE("measure the cost of trials of a matmul", "[.][trial_costs]") {
  Space space;
  space.pow2(BM, 16, 128).pow2(BN, 16, 128).pow2(BK, 16, 128).seed({{"BM", 64}, {"BN", 64}, {"BK", 64}});
  for (std::int64_t side : {256, 512, 1024}) {
    BoundSpace bound(space, {.sizes = {{"M", side}, {"N", side}, {"K", side}}, .kind = "f32"}, Device::cpu());
    Stopwatch all;
    LiveMeasurer measurer(matmul_workload(side, side, side), bound, Config::parse("BM=64,BN=64,BK=64"),
                          {.jobs = 2, .cold_cache = side == 512});
    measurer.start();
    fmt::print("{}^3: start {:.2f} s, checked {}, fallback {:.1f} us [{:.1f}, {:.1f}]\n", side, all.seconds(),
               measurer.checked(), 1e6 * measurer.fallback().seconds, 1e6 * measurer.fallback().low,
               1e6 * measurer.fallback().high);
    Random random(1);
    std::vector<Point> points;
    for (int i = 0; i < 16; ++i)
      points.push_back(*bound.sample(random));
    Stopwatch watch;
    const auto results = measurer.measure(points);
    for (std::size_t i = 0; i < points.size(); ++i)
      fmt::print("  {:24} {} {:.1f} us [{:.1f}, {:.1f}] {} launches, relative {:.3f}, compile {:.2f} s, run "
                 "{:.2f} s "
                 "disturbed {} dropped {}\n",
                 bound.text(points[i]), name(results[i].status), 1e6 * results[i].seconds,
                 1e6 * results[i].low, 1e6 * results[i].high, results[i].launches, results[i].relative,
                 results[i].compile_seconds, results[i].run_seconds,
                 results[i].facts.count("disturbed") ? results[i].facts.at("disturbed") : 0.0,
                 results[i].facts.count("dropped"));
    fmt::print("  {:.2f} s for {} trials\n", watch.seconds(), points.size());
    points.resize(4);
    Stopwatch confirming;
    for (const Measurement& m : measurer.confirm(points))
      fmt::print("  confirmed {:.1f} us [{:.1f}, {:.1f}] {} launches\n", 1e6 * m.seconds, 1e6 * m.low,
                 1e6 * m.high, m.launches);
    fmt::print("  {:.2f} s to confirm\n", confirming.seconds());
  }
}
