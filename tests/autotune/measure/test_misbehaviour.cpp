// Tests kernels that write outside of their arrays, skip elements, never end, or are invalid.
#include "measured.h"

#include <kiln/autotune/random.h>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

constexpr std::int64_t n = 1003; // floats: the last ones end within a block of 64 bytes

const auto copies = kernel("copies", [](View<const float, 1> x, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load());
});

Workload workload_with(std::function<std::string()> other) {
  Workload w;
  w.ir = [other](const Config& config) {
    return config.get("BN") == 64 ? other() : ir::print(*copies.record(config));
  };
  w.arguments = {tensor_argument(DType::F32, {n}, true), tensor_argument(DType::F32, {n}, false)};
  return w;
}

BoundSpace space_of_tiles() {
  Space space;
  space.pow2(BN, 32, 128).seed({{"BN", 32}});
  return {space, {.sizes = {{"N", n}}, .kind = "f32"}, Device::cpu()};
}

// Measures the config {BN = 64}, whose kernel is `other`, and then one that must be measured as usual.
Measurement measure_other(std::function<std::string()> other, double run_limit = 0) {
  BoundSpace space = space_of_tiles();
  MeasureOptions options = quick_options();
  options.run_limit = run_limit;
  LiveMeasurer measurer(workload_with(std::move(other)), space, Config::parse("BN=32"), options);
  const auto results = measurer.measure(
      std::vector<Point>{*space.point(Config::parse("BN=64")), *space.point(Config::parse("BN=128"))});
  REQUIRE(results.size() == 2);
  CHECK(results[1].ok());
  return results[0];
}

// Returns the tile IR of a copy that also writes `count` values from element `first` of `parameter` on.
std::string stores_at(const std::string& parameter, std::int64_t first, int count) {
  return fmt::format(R"(kernel @copies(%x: view<const f32, 1>, %out: view<f32, 1>) grid [(out, 0, BN)] {{
  %0 = program_tile %out {{dims = [BN]}} : i64
  %1 = view_load %x, %0 {{axes = [0]}} : tile<BN x f32>
  view_store %out, %1, %0 {{axes = [0]}}
  %2 = constant {{value = {}}} : i64
  %3 = view_ptrs %{}, %2 {{axes = [0]}} : tile<{} x ptr<f32>>
  %4 = constant {{value = 1.0}} : f32
  %5 = splat %4 : tile<{} x f32>
  store %3, %5
}}
)",
                     first, parameter, count, count);
}

} // namespace

TEST_CASE("a write next to an output is detected, on either side, and one far away is a crash") {
  const Measurement behind = measure_other([] { return stores_at("out", n, 1); });
  INFO(name(behind.status) << ": " << behind.error);
  CHECK(behind.status == Status::wrong_result);
  CHECK(behind.error == "it wrote outside of parameter 1 (f32)");
  CHECK(measure_other([] { return stores_at("out", -1, 1); }).status == Status::wrong_result);
  const Measurement far = measure_other([] { return stores_at("out", n + (std::int64_t{1} << 32), 1); });
  CHECK(far.status == Status::crash);
  if (!sanitized) CHECK_THAT(far.error, Catch::Contains("signal 11"));
}

TEST_CASE("a kernel that skips elements is wrong, even if the memory held the right values before") {
  const auto half = kernel("half", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    auto kept = cast<int>(arange(BN)) < 32;
    auto old = out.tile(i).load();
    out.tile(i).store(where(kept, x.tile(i).load(), old));
  });
  const Measurement m = measure_other([&] { return ir::print(*half.record({BN = 64})); });
  INFO(m.error);
  CHECK(m.status == Status::wrong_result);
  CHECK_THAT(m.error,
             Catch::StartsWith("element 32 is not written, in parameter 1 (f32), which this config reads"));
}

TEST_CASE("a kernel that runs for hours is stopped") {
  const auto slow = kernel("slow", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    auto sum =
        for_range(0, std::int64_t{1} << 50, 1, zeros<float>(BN), [](auto, auto s) { return sin(s) + 1.0f; });
    out.tile(i).store(sum);
  });
  Stopwatch watch;
  CHECK(measure_other([&] { return ir::print(*slow.record({BN = 64})); }, 1).status == Status::timeout);
  CHECK(watch.seconds() < 20);
}

TEST_CASE("text that is not a kernel, or a kernel with other parameters, is rejected") {
  CHECK(measure_other([] { return std::string("kernel @no("); }).status == Status::refused);
  const Measurement other = measure_other([] { return ir::print(*update().record({BN = 64})); });
  CHECK(other.status == Status::refused);
  CHECK_THAT(other.error, Catch::Contains("the measured launch has 2 arguments"));
}

TEST_CASE("arguments that share memory also share it in measurements, with the same alignment and strides") {
  std::vector<float> memory(3 * 1000 + 1);
  const auto shifts = kernel("shifts", [](View<const float, 2> x, View<float, 2> out) {
    auto [m, n] = program_tile(out, BM, BN);
    out.tile(m, n).store(x.tile(m, n).load() * 2 + 1);
  });
  auto at = [&](std::int64_t offset, bool readonly) {
    Argument a = tensor_argument(DType::F32, {40, 20}, readonly);
    a.strides = {50, 2};
    a.address = reinterpret_cast<std::uintptr_t>(memory.data() + offset);
    return a;
  };
  Space space;
  space.pow2(BM, 8, 16).pow2(BN, 8, 16).seed({{"BM", 8}, {"BN", 8}});
  BoundSpace bound(space, {.sizes = {{"M", 40}, {"N", 20}}, .kind = "f32"}, Device::cpu());
  for (std::int64_t apart : {0, 1}) { // the same elements, and the elements between them
    INFO(apart << " apart");
    Workload w;
    w.ir = text_of(shifts);
    w.arguments = {at(1, true), at(1 + apart, false)};
    LiveMeasurer measurer(w, bound, Config::parse("BM=8,BN=8"), quick_options());
    const auto results = measurer.measure(std::vector<Point>{*bound.point(Config::parse("BM=16,BN=16"))});
    REQUIRE(results.size() == 1);
    INFO(results[0].error);
    CHECK(results[0].ok());
    CHECK(measurer.checked() == "the whole problem");
  }
}

TEST_CASE("many processes compile in parallel") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 40}, {"N", 40}, {"K", 40}}, .kind = "f32"},
                   Device::cpu());
  MeasureOptions options = quick_options();
  options.jobs = 8;
  LiveMeasurer measurer(matmul_workload(40, 40, 40), space, Config::parse("BM=32,BN=32,BK=32"), options);
  const std::uint64_t seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  std::vector<Point> points;
  for (int i = 0; i < 16; ++i)
    points.push_back(*space.sample(random));
  for (const Measurement& m : measurer.measure(points)) {
    INFO(m.error);
    CHECK(m.ok());
  }
  CHECK(measurer.totals().processes == 10); // one more runs and one interprets
}
