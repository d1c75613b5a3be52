// Tests measuring kernels in separate processes, on the CPU and an emulated GPU.
#include "measured.h"

#include <csignal>
#include <cstdlib>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

std::vector<Point> points_of(BoundSpace& space, std::initializer_list<const char*> configs) {
  std::vector<Point> points;
  for (const char* text : configs)
    points.push_back(*space.point(Config::parse(text)));
  return points;
}

} // namespace

TEST_CASE("configs of a matmul are compiled, checked, timed and confirmed, and nothing is left behind") {
  const TunersFolder folder;
  const int descriptors = open_descriptors();
  {
    BoundSpace space(matmul_space(), {.sizes = {{"M", 100}, {"N", 130}, {"K", 70}}, .kind = "f32"},
                     Device::cpu());
    LiveMeasurer measurer(matmul_workload(100, 130, 70), space, Config::parse("BM=32,BN=32,BK=32"),
                          quick_options());
    measurer.start();
    CHECK(measurer.fallback().ok());
    CHECK(measurer.fallback().seconds > 0);
    CHECK(measurer.checked() == "the whole problem");
    const auto points = points_of(space, {"BM=32,BN=32,BK=32", "BM=8,BN=8,BK=8", "BM=64,BN=64,BK=64"});
    const auto results = measurer.measure(points);
    REQUIRE(results.size() == 3);
    for (const Measurement& m : results) {
      INFO(m.error);
      REQUIRE(m.ok());
      CHECK(m.seconds > 0);
      CHECK(m.low <= m.seconds);
      CHECK(m.seconds <= m.high);
      CHECK(m.launches >= 3);
      CHECK(m.relative > 0);
      CHECK(m.compile_seconds > 0);
      CHECK(m.run_seconds > 0);
      CHECK(m.facts.at("code_bytes") > 0);
      CHECK(m.facts.count("scratch_bytes") == 1);
      CHECK(m.facts.at("stack_bytes") > 0);
    }
    const auto confirmed = measurer.confirm(points);
    REQUIRE(confirmed.size() == 3);
    for (const Measurement& m : confirmed)
      CHECK(m.ok());
    CHECK(measurer.totals().crashed == 0);
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(folder.empty());
}

TEST_CASE("a fallback that takes most of the time is launched only once or stopped") {
  constexpr std::int64_t size = thread_sanitized ? 64 : 256; // with 256 the emulator would take minutes
  BoundSpace space(matmul_space(), {.sizes = {{"M", size}, {"N", size}, {"K", size}}, .kind = "f32"},
                   Device::parse("emulated:sm_80"));
  const Workload workload = matmul_workload(size, size, size, Device::parse("emulated:sm_80"));
  const Config fallback = Config::parse("BM=32,BN=32,BK=32");
  double once = 0;
  {
    LiveMeasurer unlimited(workload, space, fallback, quick_options());
    unlimited.start();
    REQUIRE(unlimited.fallback().launches >= 3);
    once = unlimited.fallback().seconds;
  }
  const auto within = [&](double seconds) {
    MeasureOptions options = quick_options();
    options.seconds = seconds;
    const Stopwatch watch;
    LiveMeasurer measurer(workload, space, fallback, options);
    const auto results = measurer.measure(points_of(space, {"BM=32,BN=32,BK=32", "BM=16,BN=16,BK=16"}));
    CHECK(watch.seconds() < 1.3 * seconds + 1); // a process needs some time to end
    return results;
  };
  CHECK(within(once / 4).empty());
  const auto results = within(3 * once);
  CHECK(results.size() <= 1); // none if the machine is busy
  for (const Measurement& m : results) {
    CHECK(m.launches == 1);
    CHECK(m.low == m.high);
    CHECK(m.seconds < 3 * once);
  }
}

TEST_CASE("the compilers' time includes what was compiled for nothing or stopped") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 64}, {"N", 64}, {"K", 64}}, .kind = "f32"},
                   Device::cpu());
  const Config fallback = Config::parse("BM=32,BN=32,BK=32");
  const auto points = points_of(space, {"BM=8,BN=8,BK=8", "BM=16,BN=16,BK=16", "BM=64,BN=64,BK=64"});
  {
    LiveMeasurer measurer(matmul_workload(64, 64, 64), space, fallback, quick_options());
    measurer.start();
    const double before = measurer.compiler_seconds();
    CHECK(before == measurer.fallback().compile_seconds);
    const auto results = measurer.measure(points, [](const Measurement&) { return false; });
    REQUIRE(results.size() == 1); // the CPU compiles all before it runs one
    CHECK(measurer.compiler_seconds() - before > results[0].compile_seconds);
  }
  MeasureOptions hanging = quick_options();
  hanging.faults = {.probability = 1, .kinds = {"compile hang"}};
  LiveMeasurer measurer(matmul_workload(64, 64, 64), space, fallback, hanging);
  measurer.start();
  const double before = measurer.compiler_seconds();
  measurer.allow(2);
  CHECK(measurer.measure(points).empty());
  CHECK(measurer.compiler_seconds() - before > 0.5); // for two compilers, after they have started
}

TEST_CASE("a kernel that updates in place is measured, and its output is checked") {
  Space space;
  space.pow2(BN, 1, 1024).seed({{"BN", 256}});
  BoundSpace bound(space, {.sizes = {{"N", 5000}}, .kind = "f32"}, Device::cpu());
  Workload w;
  w.ir = text_of(update());
  w.arguments = {tensor_argument(DType::F32, {5000}, false)};
  LiveMeasurer measurer(w, bound, Config::parse("BN=256"), quick_options());
  const auto results = measurer.measure(points_of(bound, {"BN=1", "BN=1024"}));
  REQUIRE(results.size() == 2);
  for (const Measurement& m : results) {
    INFO(m.error);
    CHECK(m.ok());
    CHECK(m.seconds > 0);
  }
  const auto confirmed = measurer.confirm(points_of(bound, {"BN=1", "BN=1024"}));
  REQUIRE(confirmed.size() == 2);
  for (const auto& m : confirmed)
    CHECK(m.seconds > 0);
  CHECK(measurer.checked() == "the whole problem");
}

TEST_CASE("a config whose result is wrong or that cannot be recorded affects only its own trial") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 64}, {"N", 64}, {"K", 64}}, .kind = "f32"},
                   Device::cpu());
  const auto sums_less =
      kernel("sums_less", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        c.tile(m, n).store(for_range(BK, a.cols() - 1, zeros<float>(BM, BN), [&](auto k, auto sum) {
          return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()) * 0.99f;
        }));
      });
  Workload w = matmul_workload(64, 64, 64);
  w.ir = [&](const Config& config) {
    if (config.get("BM") == 8) throw UserError("no tiles of 8 rows");
    return ir::print(config.get("BM") == 64 ? *sums_less.record(config) : *matmul().record(config));
  };
  LiveMeasurer measurer(w, space, Config::parse("BM=32,BN=32,BK=32"), quick_options());
  const auto results =
      measurer.measure(points_of(space, {"BM=8,BN=8,BK=8", "BM=64,BN=32,BK=32", "BM=16,BN=32,BK=32"}));
  REQUIRE(results.size() == 3);
  CHECK(results[0].status == Status::refused);
  CHECK(results[0].error == "no tiles of 8 rows");
  CHECK(results[1].status == Status::wrong_result);
  CHECK_THAT(results[1].error, Catch::Contains("the reference has") || Catch::Contains("relative error"));
  CHECK(results[2].ok());
}

TEST_CASE("a fallback whose arguments or config do not fit the kernel is an error") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 32}, {"N", 32}, {"K", 32}}, .kind = "f32"},
                   Device::cpu());
  Workload w = matmul_workload(32, 32, 32);
  SECTION("another dtype") {
    w.arguments[1].dtype = DType::F64;
    LiveMeasurer measurer(w, space, Config::parse("BM=32,BN=32,BK=32"), quick_options());
    CHECK_THROWS_WITH(measurer.start(),
                      Catch::Contains("argument 2") && Catch::Contains("view<const f32, 2"));
  }
  SECTION("a size that the kernel lacks") {
    LiveMeasurer measurer(w, space, Config::parse("BM=32,BN=32"), quick_options());
    CHECK_THROWS_WITH(measurer.start(), Catch::Contains("dimension BK has no size"));
  }
}

TEST_CASE("a missing or unusable command is reported") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 32}, {"N", 32}, {"K", 32}}, .kind = "f32"},
                   Device::cpu());
  LiveMeasurer measurer(matmul_workload(32, 32, 32), space, Config::parse("BM=32,BN=32,BK=32"),
                        quick_options());
  {
    const ScopedVariable command("KILN_COMMAND", "/nowhere/kiln");
    CHECK_THROWS_WITH(measurer.start(),
                      Catch::StartsWith("KILN_COMMAND is /nowhere/kiln, which is not an executable"));
  }
  {
    const ScopedVariable command("KILN_COMMAND", "/bin/false");
    CHECK_THROWS_WITH(measurer.start(), Catch::Contains("/bin/false tune-worker does not start"));
  }
  measurer.start(); // and then it works
  CHECK(measurer.fallback().ok());
}

TEST_CASE("an emulated GPU is measured like the CPU") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 32}, {"N", 32}, {"K", 32}}, .kind = "f32"},
                   Device::emulated("sm_80"));
  LiveMeasurer measurer(matmul_workload(32, 32, 32, Device::emulated("sm_80")), space,
                        Config::parse("BM=16,BN=16,BK=16"), quick_options());
  const auto results = measurer.measure(points_of(space, {"BM=32,BN=32,BK=32", "BM=16,BN=32,BK=16"}));
  REQUIRE(results.size() == 2);
  for (const Measurement& m : results) {
    INFO(m.error);
    CHECK(m.ok());
    CHECK(m.facts.count("shared_bytes") == 1);
  }
}

TEST_CASE("cold arguments are measured too") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 64}, {"N", 64}, {"K", 64}}, .kind = "f32"},
                   Device::cpu());
  MeasureOptions options = quick_options();
  options.cold_cache = true;
  LiveMeasurer measurer(matmul_workload(64, 64, 64), space, Config::parse("BM=32,BN=32,BK=32"), options);
  const auto results = measurer.measure(points_of(space, {"BM=64,BN=64,BK=64"}));
  REQUIRE(results.size() == 1);
  INFO(results[0].error);
  CHECK(results[0].ok());
}

TEST_CASE("what compile() has compiled is run later without being compiled again") {
  const TunersFolder folder;
  {
    BoundSpace space(matmul_space(), {.sizes = {{"M", 64}, {"N", 64}, {"K", 64}}, .kind = "f32"},
                     Device::cpu());
    Workload w = matmul_workload(64, 64, 64);
    w.ir = [ir = w.ir](const Config& config) {
      if (config.get("BM") == 8) throw UserError("no tiles of 8 rows");
      return ir(config);
    };
    MeasureOptions options = quick_options();
    options.faults = {0.5, {"compile error"}}; // drawn once for each
    LiveMeasurer measurer(w, space, Config::parse("BM=32,BN=32,BK=32"), options);
    CHECK(measurer.compilers() == 2);
    const auto points = points_of(space, {"BM=8,BN=8,BK=8", "BM=64,BN=32,BK=32", "BM=16,BN=32,BK=32",
                                          "BM=16,BN=16,BK=16", "BM=64,BN=64,BK=64", "BM=32,BN=16,BK=8"});
    const auto compiled = measurer.compile(points);
    REQUIRE(compiled.size() == points.size());
    const double compiling = measurer.totals().compile_seconds;
    CHECK(compiling > 0);
    CHECK(measurer.compile(points).size() == points.size()); // already known
    const auto results = measurer.measure(points);
    REQUIRE(results.size() == points.size());
    CHECK(measurer.totals().compile_seconds == compiling);
    int failed = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      CAPTURE(i, results[i].error);
      CHECK(results[i].status == compiled[i].status);
      CHECK(results[i].compile_seconds == compiled[i].compile_seconds);
      failed += !compiled[i].ok();
      if (!compiled[i].ok()) continue;
      CHECK(compiled[i].seconds == 0);
      CHECK(results[i].seconds > 0);
      for (const auto& [fact, value] : compiled[i].facts) {
        CHECK(is_of_code(fact));
        CHECK(results[i].facts.at(fact) == value);
      }
    }
    CHECK(compiled[0].status == Status::refused);
    CHECK(failed > 1);
    CHECK(failed < 6);
    const auto again = measurer.measure(points_of(space, {"BM=64,BN=64,BK=32"}));
    CHECK(measurer.totals().compile_seconds > compiling); // it was not compiled before
  }
  CHECK(folder.empty());
}

TEST_CASE("an interruption after compile() leaves no files behind") {
  const TunersFolder folder;
  {
    BoundSpace space(matmul_space(), {.sizes = {{"M", 64}, {"N", 64}, {"K", 64}}, .kind = "f32"},
                     Device::cpu());
    LiveMeasurer measurer(matmul_workload(64, 64, 64), space, Config::parse("BM=32,BN=32,BK=32"),
                          quick_options());
    const auto points = points_of(space, {"BM=64,BN=64,BK=64", "BM=16,BN=32,BK=16"});
    CHECK(measurer.compile(points).size() == 2);
    measurer.interrupt();
    CHECK(measurer.measure(points).empty());
    CHECK(measurer.compile(points_of(space, {"BM=64,BN=64,BK=32"})).empty());
  }
  CHECK(folder.empty());
}
