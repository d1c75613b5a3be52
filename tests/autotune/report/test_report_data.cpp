// Tests what a report collects from a tuning run: the space, the analytic model and the machine.
#include <catch2/catch.hpp>

#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/report/report.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/kiln.h>

#include "test_seed.h"

#include <algorithm>
#include <cmath>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

const auto product = kernel("product", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  auto [m, n] = program_tile(c, BM, BN);
  auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                       [&](auto k, auto sum) { return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()); });
  c.tile(m, n).store(sum);
});

const tune::TunableKernel tunable{
    .name = "product",
    .summary = "c = a b",
    .dtypes = {DType::F32},
    .record = [](DType, const tune::Problem&, const Config& config) { return product.record(config); },
    .space =
        [](DType, const tune::Problem&, Device) {
          tune::Space space;
          space.pow2("BM", 16, 128).pow2("BN", 16, 128).pow2("BK", 16, 128);
          space.require("no tile is long", [](const tune::Choice& c) { return c["BM"] < 4 * c["BN"]; });
          space.seed({{"BM", 32}, {"BN", 32}, {"BK", 32}});
          return space;
        },
    .sizes = "M=96,N=128,K=64",
    .parameters = "a=M,K b=K,N c=M,N",
};

} // namespace

TEST_CASE("a tuning's report contains its space, its rules, its model and its machine", "[report]") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  tune::Tuning tuning;
  const auto task = std::make_shared<tune::Task>(tune::make_task(tunable, "f32", "M=100", Device::cpu()));
  tuning.task = task;
  tuning.space = std::make_shared<tune::BoundSpace>(task->space, task->problem, task->device);
  tuning.machine = std::make_shared<const tune::Machine>(tune::assumed_machine(task->device));
  tuning.prior = std::make_shared<tune::Prior>(*task, *tuning.space, *tuning.machine);
  tuning.fallback = tuning.space->seeds().at(0);
  tuning.bound = tuning.prior->bound();
  tune::Random random(seed);
  for (int i = 0; i < 12; ++i) {
    tune::Trial trial;
    trial.point = tuning.space->sample(random).value();
    trial.result.seconds = 1e-5 * (1 + random.uniform());
    if (!tuning.search.best || trial.result.seconds < tuning.search.best_result.seconds)
      tuning.search.best = trial.point, tuning.search.best_result = trial.result;
    tuning.search.trials.push_back(std::move(trial));
  }

  const tune::ReportData data = tune::report_data(tuning);
  CHECK(data.kernel == "product");
  CHECK(data.problem.starts_with("M=100,N=128,K=64 "));
  CHECK(data.knobs.size() == 3);
  CHECK(data.space_size == 4 * 4 * 4 - 3 * 4); // BM/BN is 4 or more for 64/16, 128/16 and 128/32
  CHECK(data.space_size_exact);
  REQUIRE(data.removed.size() == 1);
  CHECK(data.removed[0].rule == "no tile is long");
  CHECK(data.removed[0].points / static_cast<double>(data.points_tried) == Approx(3.0 / 16).margin(0.05));

  REQUIRE(data.expected.size() == 12);
  for (double seconds : data.expected)
    CHECK((std::isfinite(seconds) && seconds > 0));
  REQUIRE(data.columns.size() == tune::Terms::column_count);
  for (const tune::ReportColumn& column : data.columns)
    CHECK(column.values.size() == 12);
  REQUIRE(!data.estimates.empty());
  CHECK(data.estimates[0].name == "best");
  CHECK(data.flops >= 2.0 * 100 * 128 * 64);
  CHECK(std::any_of(data.machine.begin(), data.machine.end(),
                    [](const auto& line) { return line.first == "name" && !line.second.empty(); }));
  CHECK(tune::report_html(tuning).find("no tile is long") != std::string::npos);
}

TEST_CASE("a tuning without task, space and model still has a report", "[report]") {
  tune::Tuning tuning;
  tuning.search.stopped_by = "interrupted";
  CHECK(tune::report_html(tuning).find("interrupted") != std::string::npos);
}
