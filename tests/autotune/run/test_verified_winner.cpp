// Tests that the winner of a search was verified, or is the first seed, however short the time is.
#include "autotune/own_cache.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <thread>

using namespace kiln;
using Catch::Matchers::Contains;

namespace {

KILN_DIM(BN);

tune::Space two_configs() { return tune::Space().oneof(BN, {4, 512}).seed({{"BN", 4}}); }

// A config other than the seed is faster, and wrong for NaN alone, which no trial has among its inputs.
const auto drops_nan = kernel("drops NaN", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  Tile t = x.tile(i).load();
  y.tile(i).store((value(BN) == 4 ? Tile(t) : Tile(where(isnan(t), 0.0f, t))) * 2.0f);
});
// The seed takes 40 steps to double a number.
const auto doubles = kernel("doubles", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  Tile t = x.tile(i).load();
  const auto slowly = [&] { return for_range(0, 40, 1, t, [&](auto, auto sum) { return sum * 0.5f + t; }); };
  y.tile(i).store(value(BN) == 4 ? Tile(slowly()) : Tile(t * 2.0f));
});

struct Arrays {
  Tensor<float, 1> x = Tensor<float, 1>::zeros({40000}), y = Tensor<float, 1>::zeros({40000});
  Arrays() {
    for (std::int64_t i = 0; i < x.size(); ++i)
      x.data()[i] = 1.0f + static_cast<float>(i % 100) / 7;
  }
};

} // namespace

TEST_CASE("a config that is wrong on inputs of the verification does not win, however short the time is") {
  const OwnCache cache;
  Stream stream;
  Arrays a;
  const tune::Tuning tuning =
      tuned(drops_nan, two_configs()).tune(stream, {.trials = 2, .seconds = 4, .record = false}, a.x, a.y);
  CHECK(tuning.config().to_string() == "BN=4");
}

TEST_CASE(
    "without time to verify a faster config, the first seed is the winner and is known to later processes") {
  const OwnCache cache;
  Stream stream;
  Arrays a;
  const auto made = tuned(doubles, two_configs());
  const auto begin = std::chrono::steady_clock::now();
  tune::TuneOptions options{.trials = 2, .seconds = 6};
  options.progress = [&](const tune::SearchResult& so_far) { // uses up the time once a faster config is found
    const bool faster = so_far.best_result.relative < 0.9 && so_far.trials.size() > 1;
    if (faster) std::this_thread::sleep_until(begin + std::chrono::milliseconds(6500));
    return true;
  };
  const tune::Tuning tuning = made.tune(stream, options, a.x, a.y);
  REQUIRE(tuning.search.trials.size() == 2);
  REQUIRE(tuning.search.trials.back().result.ok());
  CHECK(tuning.config().to_string() == "BN=4");
  CHECK(tuning.search.fell_back);
  REQUIRE(tuning.warnings.size() == 1);
  CHECK_THAT(tuning.warnings[0], Contains("ended before the fastest config was verified") &&
                                     Contains("the default {BN=4} is used"));
  const tune::Picked picked = tuned(doubles, two_configs()).pick(stream, a.x, a.y);
  CHECK(picked.known);
  CHECK_FALSE(picked.stale);
  CHECK(picked.config.to_string() == "BN=4");
}
