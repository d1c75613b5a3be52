// Tests that a search finds a right and fast winner although faults are injected into trials.
#include "measured.h"

#include <kiln/autotune/search/search.h>
#include <kiln/autotune/search/strategy.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

constexpr std::int64_t n = 20'000;

// Records a kernel that computes sines `times` times. With `wrong` it computes none, which is faster.
std::shared_ptr<ir::Kernel> record_sines(const Config& config) {
  const auto times = config.get("times").value(), wrong = config.get("wrong").value();
  const auto sines = kernel("sines", [times, wrong](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    Tile<float, BN> t = x.tile(i).load();
    // The value never exceeds 5, which the compiler cannot know.
    Tile most = for_range(0, times, 1, kiln::full(-9.0f, BN), [&](auto s, auto most) {
      return max(most, sin(t + cast<float>(s)) + most * 0.125f);
    });
    out.tile(i).store(wrong ? t : where(most > 5.0f, most, sin(t)));
  });
  Config tiles;
  tiles.set("BN", config.get("BN").value());
  return sines.record(tiles);
}

} // namespace

TEST_CASE("with faults of all kinds in a fifth of all trials a search finds a right and fast winner") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Space space;
  space.oneof("times", {1, 12, 96}).oneof("wrong", {0, 1}).oneof(BN, {128, 256, 512, 1024});
  space.seed({{"times", 96}, {"wrong", 0}, {"BN", 256}});
  BoundSpace bound(space, {.sizes = {{"N", n}}, .kind = "f32"}, Device::cpu());
  Workload w;
  w.ir = [](const Config& config) { return ir::print(*record_sines(config)); };
  w.arguments = {tensor_argument(DType::F32, {n}, true), tensor_argument(DType::F32, {n}, false)};
  MeasureOptions options = quick_options();
  options.seed = seed;
  options.run_limit = 2;
  options.compile_limit = 5;
  options.faults = {0.2,
                    {"crash", "hang", "wrong", "nan", "out of memory", "compile error", "compile crash",
                     "compile hang", "noise", "guard", "input"}};
  LiveMeasurer measurer(w, bound, Config::parse("times=96,wrong=0,BN=256"), options);
  auto strategy = make_strategy("grid", {bound, seed, {}, {}, {}, {}, {}});
  const SearchResult result =
      search(*strategy, measurer, {.trials = 24, .seconds = 0, .chance = 0, .confirm = 4});
  CHECK(result.trials.size() == 24);
  for (const Trial& trial : result.trials)
    if (bound.config(trial.point).get("wrong") == 1) CHECK_FALSE(trial.result.ok());
  REQUIRE(result.best);
  const Config best = bound.config(*result.best);
  INFO(best.to_string());
  CHECK(best.get("wrong") == 0);
  CHECK(best.get("times") == 1); // the others take ten times as long
}
