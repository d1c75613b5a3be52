// Tests measuring configs on a CUDA device with the fake driver: by events and graphs, and when the device
// fails. Kernels of the fake driver write nothing, so the outputs of all configs agree.
#include "cuda_test.h"

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/dsl/ir/printer.h>

#include <cstdlib>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

KILN_DIM(BN);

const auto doubles = kernel("measured_doubles", [](View<const float, 1> x, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() * 2);
});

struct FakeIn { // settings of fake drivers in processes that start while it lives
  explicit FakeIn(const char* settings) { setenv("FAKE_CUDA", settings, 1); }
  ~FakeIn() { unsetenv("FAKE_CUDA"); }
};

Workload workload() {
  Workload w;
  w.ir = [](const Config& config) { return ir::print(*doubles.record(config)); };
  w.arguments = {tensor_argument(DType::F32, {5000}, true), tensor_argument(DType::F32, {5000}, false)};
  w.device = Device::cuda(0);
  w.outputs = {{.parameter = 1, .ignored = true}}; // the fake driver executes no kernel
  return w;
}

BoundSpace space_of_tiles() {
  Space space;
  space.pow2(BN, 128, 1024).seed({{"BN", 128}});
  return {space, {.sizes = {{"N", 5000}}, .kind = "f32"}, Device::cuda(0)};
}

MeasureOptions options() {
  MeasureOptions o;
  o.jobs = 2;
  o.most_seconds = 0.05;
  o.least_seconds = 0.01;
  o.check_reference = false;
  return o;
}

std::vector<Point> all_points(BoundSpace& space) { return *space.points(); }

} // namespace

TEST_CASE("configs are measured on a CUDA device by events, and short ones by graphs") {
  for (const char* settings : {"kernel_ms=1", "kernel_ms=0"}) {
    INFO(settings);
    FakeIn fake(settings);
    BoundSpace space = space_of_tiles();
    LiveMeasurer measurer(workload(), space, Config::parse("BN=128"), options());
    const auto results = measurer.measure(all_points(space));
    REQUIRE(results.size() == 4);
    for (const Measurement& m : results) {
      INFO(m.error);
      CHECK(m.ok());
      CHECK(m.facts.count("registers") == 1);
      CHECK(m.launches >= 3);
      // On a busy machine the speed drifts, and a config's seconds are scaled to the first speed of the
      // fallback. Undoing the scaling rounds, which the 1e-9 allows for.
      const auto drift = m.facts.find("drift");
      const double measured = m.seconds * (drift == m.facts.end() ? 1 : drift->second);
      if (settings == std::string("kernel_ms=1")) CHECK(measured >= 1e-3 * (1 - 1e-9));
    }
    const auto confirmed = measurer.confirm(all_points(space));
    REQUIRE(confirmed.size() == 4);
    CHECK(confirmed[3].ok());
  }
}

TEST_CASE("if a CUDA device is lost while a tuner measures, all remaining configs report it") {
  BoundSpace space = space_of_tiles();
  const std::vector<Point> points = all_points(space);
  MeasureOptions with_crashes = options();
  with_crashes.faults = {1, {"crash"}};
  for (bool before_compiling : {false, true}) {
    INFO(before_compiling);
    LiveMeasurer measurer(workload(), space, Config::parse("BN=128"), with_crashes);
    measurer.start();
    if (!before_compiling) CHECK(measurer.measure(std::span(points).first(1))[0].status == Status::crash);
    FakeIn gone("fail=cuInit:1:100");
    const auto results = measurer.measure(points);
    REQUIRE(results.size() == 4);
    for (const Measurement& m : results) {
      // This one was running when the device was lost. It compiles and runs in different processes.
      if (&m == &results[0] && before_compiling && m.status == Status::crash) continue;
      CHECK(m.status == Status::device_lost);
      CHECK_THAT(m.error, Catch::StartsWith("cuda:0 no longer runs the reference: "));
    }
    CHECK(measurer.device_lost());
  }
}

TEST_CASE("a fallback that fails on the device is an error that says how") {
  FakeIn fake("kernel_result=700");
  BoundSpace space = space_of_tiles();
  LiveMeasurer measurer(workload(), space, Config::parse("BN=128"), options());
  CHECK_THROWS_WITH(measurer.start(),
                    Catch::StartsWith("the fallback config {BN=128} cannot be measured on cuda:0: ") &&
                        Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
}
