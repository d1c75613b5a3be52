// Tests that a fault of a candidate costs one trial and nothing more.
#include "measured.h"

#include <kiln/autotune/random.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

constexpr std::int64_t side = 48;

BoundSpace small_space() {
  return {matmul_space(), {.sizes = {{"M", side}, {"N", side}, {"K", side}}, .kind = "f32"}, Device::cpu()};
}

const Config fallback = Config::parse("BM=32,BN=32,BK=32");

// Options with which all trials have this fault.
MeasureOptions with_fault(const std::string& kind, double probability = 1) {
  MeasureOptions o = quick_options();
  o.check_reference = false;
  o.faults = {probability, {kind}};
  return o;
}

Measurement measure_one(const std::string& fault, MeasureOptions options) {
  BoundSpace space = small_space();
  LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
  const auto results = measurer.measure(std::vector<Point>{*space.point(fallback)});
  INFO(fault);
  REQUIRE(results.size() == 1);
  return results[0];
}

// Returns the processes whose command line contains `words`, according to /proc.
std::vector<pid_t> processes_with(const std::string& words) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    std::string line((std::istreambuf_iterator<char>(in)), {});
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.find(words) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

template <class F> bool becomes_true(double seconds, F condition) {
  Stopwatch watch;
  while (watch.seconds() < seconds) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

} // namespace

TEST_CASE("each kind of fault is reported with its status and one line") {
  struct Expected {
    const char* fault;
    Status status;
    const char* error;
  };
  const Expected expected[] = {
      {"crash", Status::crash, "killed by signal 11"},
      {"wrong", Status::wrong_result, "the reference has"},
      {"nan", Status::not_a_number, "nan, but the reference has"},
      {"out of memory", Status::out_of_memory, "out of memory"},
      {"compile error", Status::compile_error, "an injected compile error"},
      {"compile crash", Status::compile_error, "the compiler was killed by signal 11"},
      {"guard", Status::wrong_result, "it wrote outside of parameter 2 (f32)"},
      {"input", Status::wrong_result, "it changed its input, parameter 0 (f32)"},
  };
  for (const Expected& e : expected) {
    const Measurement m = measure_one(e.fault, with_fault(e.fault));
    INFO(e.fault << ": " << name(m.status) << ": " << m.error);
    CHECK(m.status == e.status);
    if (!sanitized) CHECK_THAT(m.error, Catch::Contains(e.error));
    CHECK(m.error.find('\n') == std::string::npos);
  }
}

TEST_CASE("a config that is right in its check, but not in all of many launches, is wrong") {
  BoundSpace space = small_space();
  MeasureOptions options = with_fault("race");
  options.least_seconds = options.most_seconds = 0.3;
  options.drop = 1000;
  LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
  const auto results = measurer.measure(std::vector<Point>{*space.point(Config::parse("BM=16,BN=64,BK=8"))});
  REQUIRE(results.size() == 1);
  INFO(results[0].error);
  CHECK(results[0].status == Status::wrong_result);
  CHECK_THAT(results[0].error, Catch::Contains("in some of many launches with the same inputs"));
}

TEST_CASE("candidates that do not end are stopped at their deadline") {
  MeasureOptions options = with_fault("hang");
  options.run_limit = 0.5;
  Stopwatch watch;
  CHECK(measure_one("hang", options).status == Status::timeout);
  options = with_fault("compile hang");
  options.compile_limit = 0.5;
  CHECK(measure_one("compile hang", options).status == Status::compile_timeout);
  CHECK(watch.seconds() < 30);
  CHECK(processes_with("tune-worker " + std::to_string(getpid()) + " ").empty());
}

TEST_CASE("a candidate with noisy timings is measured") {
  BoundSpace space = small_space();
  LiveMeasurer noisy(matmul_workload(side, side, side), space, fallback, with_fault("noise"));
  const auto results = noisy.measure(std::vector<Point>{*space.point(fallback)});
  REQUIRE(results.size() == 1);
  CHECK(results[0].ok());
  CHECK(results[0].seconds > 0);
}

TEST_CASE("after the loss of a device all remaining trials fail at once") {
  BoundSpace space = small_space();
  LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, with_fault("device"));
  const std::vector<Point> points(4, *space.point(fallback));
  const auto results = measurer.measure(points);
  REQUIRE(results.size() == 4);
  for (const Measurement& m : results) {
    CHECK(m.status == Status::device_lost);
    CHECK_THAT(m.error, Catch::StartsWith("cpu no longer runs the reference:  "));
  }
  CHECK(measurer.device_lost());
  Stopwatch watch;
  CHECK(measurer.measure(points)[3].status == Status::device_lost);
  CHECK(measurer.confirm(points)[3].status == Status::device_lost);
  CHECK(watch.seconds() < 1);
}

TEST_CASE("with faults in a fifth of all trials fast configs are confirmed, and all processes end") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  const int descriptors = open_descriptors();
  {
    BoundSpace space = small_space();
    MeasureOptions options = quick_options();
    options.seed = seed;
    options.run_limit = 1;
    options.compile_limit = 4;
    options.faults = {0.2, {"crash", "hang", "wrong", "nan", "out of memory", "compile error", "noise"}};
    LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
    Random random(seed);
    std::vector<Point> points;
    for (int i = 0; i < 24; ++i)
      points.push_back(*space.sample(random));
    points.push_back(*space.point(Config::parse("BM=8,BN=8,BK=8"))); // the slowest
    const auto results = measurer.measure(points);
    REQUIRE(results.size() == points.size());
    std::vector<Point> finalists;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (results[i].ok()) finalists.push_back(points[i]);
    REQUIRE(finalists.size() >= 8);
    std::sort(finalists.begin(), finalists.end(), [&](const Point& a, const Point& b) {
      auto seconds = [&](const Point& p) {
        return results[static_cast<std::size_t>(std::find(points.begin(), points.end(), p) - points.begin())]
            .relative;
      };
      return seconds(a) < seconds(b);
    });
    finalists.resize(6); // with three, faults hit all of them in one run of two hundred
    const auto confirmed = measurer.confirm(finalists);
    REQUIRE(confirmed.size() == 6);
    // At least one is right and not slow.
    int ok = 0;
    for (const Measurement& m : confirmed)
      ok += m.ok() && m.relative < 1.5;
    CHECK(ok >= 1);
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(processes_with("tune-worker " + std::to_string(getpid()) + " ").empty());
}

TEST_CASE("an interruption ends the running trial and keeps the results before it") {
  const TunersFolder folder;
  {
    BoundSpace space = small_space();
    MeasureOptions options = with_fault("hang");
    options.run_limit = 600;
    LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
    measurer.start();
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      measurer.interrupt();
    });
    Stopwatch watch;
    const auto results = measurer.measure(std::vector<Point>(3, *space.point(fallback)));
    later.join();
    CHECK(watch.seconds() < 10);
    CHECK(results.empty());
    CHECK(measurer.interrupted());
    CHECK(measurer.measure(std::vector<Point>(3, *space.point(fallback))).empty());
  }
  CHECK(folder.empty());
}

TEST_CASE("when the tuner is killed, its processes end and its folder is removed") {
  const TunersFolder folder;
  const pid_t tuner = fork();
  REQUIRE(tuner >= 0);
  if (tuner == 0) {
    BoundSpace space = small_space();
    MeasureOptions options = with_fault("hang");
    options.run_limit = 600;
    LiveMeasurer measurer(matmul_workload(side, side, side), space, fallback, options);
    measurer.measure(std::vector<Point>(1, *space.point(fallback)));
    _exit(0);
  }
  const std::string workers = "tune-worker " + std::to_string(tuner) + " ";
  CHECK(becomes_true(30, [&] { return processes_with(workers).size() >= 2; }));
  std::this_thread::sleep_for(std::chrono::seconds(1)); // by now it hangs in its launch
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  CHECK(becomes_true(10, [&] { return processes_with(workers).empty(); }));
  CHECK(becomes_true(2, [&] { return folder.empty(); }));
}
