// Tests that a search measures with the contents of the caller's arguments: loops and addresses that depend
// on them, the limit of what is copied, and messages about made-up contents.
#include "autotune/own_cache.h"
#include "autotune/row_sums.h"

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task_workload.h>
#include <kiln/jit/base/log.h>
#include <kiln/kiln.h>

#include <numeric>

using namespace kiln;
using namespace kiln::test;
using Catch::Matchers::Contains;

namespace {

tune::Space lane_space() { return tune::Space().pow2(BN, 16, 128).seed({{"BN", 32}}); }

tune::TuneOptions few_trials() {
  tune::TuneOptions options{.effort = tune::quick, .trials = 3};
  options.cold = false;
  options.record = false;
  return options;
}

template <class T> std::vector<T> contents_of(const Tensor<T, 1>& t) {
  return {t.data(), t.data() + t.size()};
}

// Follows parents to the root of each element, in place. Made-up parents form circles.
const auto roots = kernel("roots of a forest", [](View<std::int32_t, 1> parent) {
  auto [i] = program_tile(parent, BN);
  Tile p = parent.tile(i).load();
  auto root = while_loop(
      p, [&](auto p) { return any(parent.at(cast<std::int64_t>(p)).load() != p); },
      [&](auto p) { return parent.at(cast<std::int64_t>(p)).load(); });
  parent.tile(i).store(root);
});

// Multiplies until all elements are small. A made-up factor may be larger than 1.
const auto decay = kernel("decay", [](View<const float, 1> x, View<const float, 1> factor, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  auto f = factor.at(0).load();
  y.tile(i).store(while_loop(
      x.tile(i).load(), [&](auto t) { return max(abs(t)) > 1e-3f; }, [&](auto t) { return t * f; }));
});

// One row of a sparse matrix for each lane; rows have different lengths.
const auto sparse =
    kernel("csr product", [](View<const std::int32_t, 1> first, View<const std::int32_t, 1> column,
                             View<const float, 1> value, View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      auto rows = i + arange(BN);
      auto inside = rows < y.size();
      auto begin = cast<std::int64_t>(first.at(rows).load(inside));
      auto end = cast<std::int64_t>(first.at(rows + 1).load(inside));
      auto longest = max(end - begin);
      auto total = for_range(0, longest, 1, zeros<float>(BN), [&](auto k, auto total) {
        auto at = begin + k;
        auto there = inside & (at < end);
        auto c = cast<std::int64_t>(column.at(at).load(there));
        return total + value.at(at).load(there) * x.at(c).load(there);
      });
      y.tile(i).store(total);
    });

const auto scatter = kernel("scatter by a permutation",
                            [](View<const float, 1> x, View<std::int32_t, 1> to, View<float, 1> y) {
                              auto [i] = program_tile(x, BN);
                              y.at(cast<std::int64_t>(to.tile(i).load())).store(x.tile(i).load());
                            });

// A kernel whose loop ends only for small contents, as `kiln tune` knows it.
const tune::TunableKernel endless{
    .name = "endless for made-up contents",
    .summary = "adds 1 until the sum is 0",
    .dtypes = {DType::F32},
    .record = [](DType, const tune::Problem&, const Config& config) { return decay.record(config); },
    .space = [](DType, const tune::Problem&, Device) { return lane_space(); },
    .sizes = "N=64",
    .parameters = "x=N factor=1 y=N",
};

} // namespace

TEST_CASE("tune() measures with the contents of its arguments and does not change them") {
  const OwnCache cache;
  Stream stream;
  SECTION("a loop over addresses") {
    auto parent = Tensor<std::int32_t, 1>::zeros({300});
    for (int i = 1; i < 300; ++i)
      parent.data()[i] = i * 7919 % i;
    const auto before = contents_of(parent);
    CHECK(tuned(roots, lane_space()).tune(stream, few_trials(), parent).search.trials.size() > 1);
    CHECK(contents_of(parent) == before);
  }
  SECTION("a loop until floats are small") {
    auto x = Tensor<float, 1>::zeros({300}), f = Tensor<float, 1>::zeros({1}),
         y = Tensor<float, 1>::zeros({300});
    x.fill(1), f.fill(0.5f), y.fill(7);
    const auto tuning = tuned(decay, lane_space()).tune(stream, few_trials(), x, f, y);
    CHECK(tuning.found());
    CHECK(y.data()[0] == 7);
  }
}

TEST_CASE("sparse products and scatters are tuned with real indices") {
  const OwnCache cache;
  Stream stream;
  constexpr int n = 300;
  SECTION("a product with rows of 0 to 7 elements") {
    std::vector<std::int32_t> starts{0};
    for (int i = 0; i < n; ++i)
      starts.push_back(starts.back() + i % 8);
    auto first = Tensor<std::int32_t, 1>::zeros({n + 1}),
         column = Tensor<std::int32_t, 1>::zeros({starts.back()});
    auto value = Tensor<float, 1>::zeros({starts.back()}), x = Tensor<float, 1>::zeros({n});
    auto y = Tensor<float, 1>::zeros({n});
    std::copy(starts.begin(), starts.end(), first.data());
    for (int i = 0; i < starts.back(); ++i)
      column.data()[i] = i * 31 % n, value.data()[i] = static_cast<float>(i % 5) - 2;
    std::iota(x.data(), x.data() + n, 1.0f);
    const auto tuning = tuned(sparse, lane_space()).tune(stream, few_trials(), first, column, value, x, y);
    for (const tune::Trial& trial : tuning.search.trials)
      CHECK(trial.result.ok());
  }
  SECTION("a scatter by a permutation that the kernel could write") {
    auto x = Tensor<float, 1>::zeros({n}), y = Tensor<float, 1>::zeros({n});
    auto to = Tensor<std::int32_t, 1>::zeros({n});
    std::iota(x.data(), x.data() + n, 1.0f);
    for (int i = 0; i < n; ++i)
      to.data()[i] = i * 7 % n; // a permutation, as 7 and 300 have no common factor
    const auto tuning = tuned(scatter, lane_space()).tune(stream, few_trials(), x, to, y);
    for (const tune::Trial& trial : tuning.search.trials)
      CHECK(trial.result.ok());
  }
}

TEST_CASE("mode online searches with the integers that a launch finds in its stream") {
  const OwnCache cache;
  Stream stream;
  tune::TunedOptions options{.mode = tune::Mode::online};
  options.search = few_trials();
  options.search.record = true;
  options.search.seconds = 15; // made-up parents would use them up
  auto parent = Tensor<std::int32_t, 1>::zeros({300}), values = Tensor<std::int32_t, 1>::zeros({300});
  parent.fill(-1);
  for (int i = 1; i < 300; ++i)
    values.data()[i] = i * 7919 % i;
  copy(stream, parent.data(), values.data(), 300 * 4); // the launch below sees the result of this
  tuned(roots, lane_space(), options).launch(stream, parent);
  stream.synchronize();
  CHECK(parent.data()[299] == 0);
  tune::finish_background();
  options.mode = tune::Mode::cached;
  CHECK(tuned(roots, lane_space(), options).pick(stream, parent).known);
}

TEST_CASE("contents beyond the limit are made up, which is announced") {
  const OwnCache cache;
  Stream stream;
  Rows rows(16, 100);
  auto options = few_trials();
  options.contents_bytes = 1000;
  std::vector<std::string> said;
  options.announce = [&](const std::string& text) { said.push_back(text); };
  tuned(row_sums("row sums, of made-up contents"), row_space(), with_mode(tune::Mode::cached))
      .tune(stream, options, rows.x, rows.out);
  REQUIRE_FALSE(said.empty());
  CHECK_THAT(said[0], Contains("made-up contents are used for argument 1 (f32, 6.25 KiB)") &&
                          Contains("TuneOptions::contents_bytes"));
}

TEST_CASE("an error names the argument whose made-up contents probably are the cause") {
  const OwnCache cache;
  const tune::Task task = tune::make_task(endless, "", "", Device::cpu());
  tune::BoundSpace space = task.bound_space();
  tune::MeasureOptions options;
  options.jobs = 1;
  options.first_limit = 1;
  options.seconds = 2;
  tune::Workload workload = tune::workload_of(task);
  workload.arguments[1].fill = {.kind = tune::Fill::Kind::range, .least = 2, .most = 2, .bytes = {}};
  tune::LiveMeasurer measurer(workload, space, space.config(space.seeds()[0]), options);
  std::string error;
  try {
    measurer.start();
    error = measurer.suspicion();
  } catch (const UserError& e) {
    error = e.what();
  }
  CHECK_THAT(error, Contains("the probable cause is argument") && Contains("how often a loop runs") &&
                        Contains("kiln tune --input NAME=FILE"));
}

TEST_CASE("a key distinguishes problems of equal sizes") {
  const OwnCache cache;
  Stream stream;
  Rows rows(20, 300);
  const auto sums = tuned(row_sums("row sums with keys"), row_space(), with_mode(tune::Mode::cached));
  const auto other = sums.with_key("other rows");
  auto options = few_trials();
  options.record = true;
  other.tune(stream, options, rows.x, rows.out);
  const auto fresh = tuned(row_sums("row sums with keys"), row_space(), with_mode(tune::Mode::cached));
  CHECK(fresh.with_key("other rows").pick(stream, rows.x, rows.out).known);
  CHECK_FALSE(fresh.pick(stream, rows.x, rows.out).known); // it is only a close problem
  const auto bests = tune::RecordStore::standard().bests("row sums with keys");
  REQUIRE(bests.size() == 1);
  CHECK(bests[0]->key->problem.key == "other rows");
  CHECK_THAT(tune::text_of(bests[0]->key->problem), Contains("\"other rows\""));
}
