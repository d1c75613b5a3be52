// Tests that a search rejects configs that compute something else, however the kernel reaches its arrays.
#include "autotune/own_cache.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>

using namespace kiln;

namespace {

KILN_DIM(BN);

// BN = 64 is the seed. The kernels below compute something else for larger tiles.
tune::Space seeded_space() { return tune::Space().pow2(BN, 64, 1024).seed({{"BN", 64}}); }
tune::TuneOptions short_search() { return {.effort = tune::quick, .trials = 5}; }

// Tunes the kernel, which is right with the seed alone, and returns the size of its tiles.
template <class K, class... A> std::int64_t tuned_size(const K& kernel, A&... arguments) {
  Stream stream;
  const auto made = tuned(kernel, seeded_space());
  const tune::Tuning tuning = made.tune(stream, short_search(), arguments...);
  REQUIRE(tuning.search.trials.size() > 1);
  return *made.pick(stream, arguments...).config.get("BN");
}

} // namespace

TEST_CASE("a search rejects configs that add too much to an array by atomics through indices") {
  const OwnCache cache;
  const auto histogram = kernel("wrong histogram", [](View<const std::int32_t, 1> x, View<float, 1> h) {
    auto [i] = program_tile(x, BN);
    h.at(cast<std::int64_t>(x.tile(i).load() & 7)).atomic_add(full<float>(value(BN) == 64 ? 1 : 2, BN));
  });
  auto x = Tensor<std::int32_t, 1>::zeros({4096});
  auto h = Tensor<float, 1>::zeros({8});
  CHECK(tuned_size(histogram, x, h) == 64);
}

TEST_CASE("a search rejects configs that are wrong in an array that is read and written by pointers") {
  const OwnCache cache;
  const auto by_data = kernel("wrong scaling by data()", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    auto at = i + arange(BN);
    raw::store(y.data() + at, raw::load(y.data() + at) * (value(BN) > 64 ? 3.0f : 2.0f));
  });
  auto y = Tensor<float, 1>::zeros({4096});
  CHECK(tuned_size(by_data, y) == 64);
  const auto by_ptrs = kernel("wrong scaling by ptrs()", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    raw::store(y.tile(i).ptrs(), raw::load(y.tile(i).ptrs()) * (value(BN) > 64 ? 3.0f : 2.0f));
  });
  CHECK(tuned_size(by_ptrs, y) == 64);
}

TEST_CASE("a search accepts all configs of a histogram of integers and of an update in place") {
  const OwnCache cache;
  const auto histogram =
      kernel("right histogram", [](View<const std::int32_t, 1> x, View<std::int32_t, 1> h) {
        auto [i] = program_tile(x, BN);
        h.at(cast<std::int64_t>(x.tile(i).load() & 7)).atomic_add(full<std::int32_t>(1, BN));
      });
  const auto in_place = kernel("right scaling", [](View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    auto at = i + arange(BN);
    raw::store(y.data() + at, raw::load(y.data() + at) * 2.0f);
  });
  auto x = Tensor<std::int32_t, 1>::zeros({4096}), h = Tensor<std::int32_t, 1>::zeros({8});
  auto y = Tensor<float, 1>::zeros({4096});
  Stream stream;
  for (const tune::Tuning& tuning : {tuned(histogram, seeded_space()).tune(stream, short_search(), x, h),
                                     tuned(in_place, seeded_space()).tune(stream, short_search(), y)}) {
    CHECK(tuning.found());
    for (const tune::Trial& trial : tuning.search.trials) {
      INFO(trial.result.error);
      CHECK(trial.result.ok());
    }
  }
}
