// Tests that plans are stored and found again, by the right processes only, and that damage does no harm.
#include "collectives/findings.h"
#include "temporary_folder.h"

#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/records/plan_record.h>
#include <kiln/collectives/plan_store.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/tensor_parallel.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/log.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/matmul.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings, test::TemporaryFolder;
using tune::Mode;
namespace fs = std::filesystem;

namespace {

ProductShape product(int ranks, std::int64_t rows = 32) {
  ProductShape shape;
  shape.shards = Shards::even(rows, ranks);
  shape.n = 8, shape.k = 4;
  return shape;
}

// What a process has: a database with its own memory, over a folder that all of them share.
struct Process {
  explicit Process(const fs::path& folder) : store(folder), database(store) {}
  tune::RecordStore store;
  tune::Database database;
};

struct Planned {
  std::vector<Plan> of_ranks;
  int runs = 0; // of schedules, on all ranks
  const Plan& plan() const { return of_ranks[0]; }
};

// Plans a product whose serial schedule is slow.
Planned plan_in(tune::Database& database, Mode mode = Mode::tune, const RanksOptions& options = {.ranks = 2},
                std::int64_t rows = 32) {
  Planned planned{std::vector<Plan>(static_cast<std::size_t>(options.ranks))};
  std::atomic<int> runs = 0;
  run_ranks(options, [&](Communicator& comm) {
    const Trial trial{[](std::int64_t) {},
                      [&](const std::shared_ptr<const PreparedSchedule>& schedule) {
                        ++runs;
                        const int microseconds = schedule->name == "serial" ? 2000 : 100;
                        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
                      }};
    planned.of_ranks[static_cast<std::size_t>(comm.rank())] =
        plan_by_mode(comm, product(comm.size(), rows), trial, mode, database);
  });
  planned.runs = runs;
  return planned;
}

// The same in a process that begins now.
Planned plan_in(const TemporaryFolder& folder, Mode mode = Mode::tune,
                const RanksOptions& options = {.ranks = 2}, std::int64_t rows = 32) {
  Process process(folder.path());
  return plan_in(process.database, mode, options, rows);
}

void check_agreement(const Planned& planned) {
  for (const Plan& plan : planned.of_ranks) {
    CHECK(plan.chosen == planned.plan().chosen);
    CHECK(plan.schedule->name == planned.plan().schedule->name);
    CHECK(plan.origin == planned.plan().origin);
  }
}

// The file with the published plan, which is the only one in the folder.
fs::path plan_file(const fs::path& folder) {
  fs::path found;
  for (const auto& file : fs::recursive_directory_iterator(folder / "best"))
    if (file.is_regular_file()) {
      CHECK(found.empty());
      found = file.path();
    }
  REQUIRE(!found.empty());
  return found;
}
std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

tune::RecordKey key_of(const RanksOptions& options, const ProductShape& shape) {
  tune::RecordKey key;
  run_ranks(options, [&](Communicator& comm) {
    if (comm.rank() == 0) key = plan_key(comm, shape);
  });
  return key;
}

} // namespace

TEST_CASE("what is tuned on an emulated GPU holds for another one that is equal") {
  const tune::Problem problem{.sizes = {{"n", 5}}, .kind = "f32", .key = {}};
  const Device first = Device::emulated("sm_80"), second = Device::emulated("sm_80", {.ordinal = 7});
  REQUIRE(first != second);
  const auto key = [&](Device device) { return tune::make_key("kernel", {}, {}, problem, device).id(); };
  CHECK(key(first) == key(second));
  CHECK(key(first) != key(Device::emulated("sm_90a")));
}

TEST_CASE("a measured plan is stored, and later processes plan without measuring") {
  const TemporaryFolder folder;
  Process first(folder.path()), second(folder.path());
  const Planned measured = plan_in(first.database), stored = plan_in(second.database);
  check_agreement(measured);
  check_agreement(stored);
  CHECK(measured.runs > 0);
  CHECK(stored.runs == 0);
  CHECK(measured.plan().origin == Plan::Origin::measured);
  CHECK(measured.plan().overlaps());
  CHECK_THAT(measured.plan().explain(), Catch::Contains("(measured now)"));
  const Plan &a = measured.plan(), &b = stored.plan();
  CHECK(b.origin == Plan::Origin::stored);
  CHECK_THAT(b.explain(), Catch::Contains("(stored on 20") && Catch::Contains(" UTC)"));
  CHECK(b.measured_at == a.measured_at);
  CHECK(b.chosen == a.chosen);
  CHECK(b.computation == a.computation);
  CHECK(b.communication == a.communication);
  CHECK(b.hidden == a.hidden);
  REQUIRE(b.options.size() == a.options.size());
  int without_time = 0;
  for (std::size_t i = 0; i < a.options.size(); ++i) {
    CHECK(b.options[i].candidate == a.options[i].candidate);
    CHECK(b.options[i].forecast == a.options[i].forecast);
    CHECK(b.options[i].measured == a.options[i].measured);
    without_time += b.options[i].measured == -1;
  }
  CHECK(without_time > 0);
  CHECK(plan_in(first.database).runs == 0); // in the same process, too
}

TEST_CASE("a plan is for one product, number of ranks, and link") {
  const TemporaryFolder folder;
  Process process(folder.path());
  const RanksOptions two{.ranks = 2, .link = {.bytes_per_second = 1e9, .latency = 100}};
  CHECK(plan_in(process.database, Mode::tune, two).runs > 0);
  CHECK(plan_in(process.database, Mode::tune, two).runs == 0);
  CHECK(plan_in(process.database, Mode::tune, two, 34).runs > 0);
  CHECK(plan_in(process.database, Mode::tune, {.ranks = 3, .link = two.link}).runs > 0);
  CHECK(plan_in(process.database, Mode::tune, {.ranks = 2}).runs > 0);

  const auto id = [](const LinkModel& link, const ProductShape& shape, int ranks = 2) {
    return key_of({.ranks = ranks, .link = link}, shape).id();
  };
  const ProductShape shape = product(2);
  ProductShape uneven = shape, scatter = shape, halves = shape, norm = shape;
  uneven.shards = Shards({20, 12});
  scatter.kind = ProductKind::matmul_reduce_scatter;
  halves.a = DType::BF16;
  norm.norm = true;
  const LinkModel link = two.link;
  LinkModel slower = link, later = link, jitter = link, edge = link, other_edge = link;
  slower.bytes_per_second = 999'999'999, later.latency = 101, jitter.jitter = 1;
  edge.edges = {{0, 1, 1e9, 5}}, other_edge.edges = {{1, 0, 1e9, 5}};
  std::vector<cache::Key> ids{id(link, shape),       id(link, uneven),  id(link, scatter),
                              id(link, halves),      id(link, norm),    id(slower, shape),
                              id(later, shape),      id(jitter, shape), id(edge, shape),
                              id(other_edge, shape), id({}, shape),     id(link, product(2), 4)};
  CHECK(id(link, shape) == ids.front());
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("the mode says where a plan comes from") {
  const TemporaryFolder folder, wisdom_folder;
  Process empty(folder.path());
  for (const Mode mode : {Mode::off, Mode::analytic, Mode::cached, Mode::deterministic}) {
    CAPTURE(tune::name(mode));
    const Planned planned = plan_in(empty.database, mode);
    check_agreement(planned);
    CHECK(planned.runs == 0);
    CHECK(planned.plan().origin == Plan::Origin::forecast);
    CHECK_THAT(planned.plan().explain(), Catch::Contains("(forecast)"));
  }
  CHECK_THROWS_WITH(plan_in(empty.database, Mode::pinned),
                    Catch::StartsWith("no wisdom file has a plan for gather_matmul 16+16 x 8 x 4") &&
                        Catch::Contains("kiln records export --wisdom"));
  CHECK(!fs::exists(folder.path() / "best"));

  CHECK(plan_in(empty.database, Mode::online).plan().origin == Plan::Origin::measured);
  Process full(folder.path());
  for (const Mode mode : {Mode::cached, Mode::deterministic, Mode::online, Mode::tune}) {
    const Planned planned = plan_in(full.database, mode);
    CHECK(planned.runs == 0);
    CHECK(planned.plan().origin == Plan::Origin::stored);
  }
  CHECK(plan_in(full.database, Mode::off).plan().origin == Plan::Origin::forecast);
  CHECK_THROWS_AS(plan_in(full.database, Mode::pinned), UserError);

  const fs::path file = wisdom_folder.path() / "wisdom.json";
  std::ofstream(file) << tune::wisdom_text(tune::export_winners(full.store, {}));
  Process shipped(wisdom_folder.path());
  CHECK(shipped.database.add_wisdom(file) == 1);
  const Planned pinned = plan_in(shipped.database, Mode::pinned);
  check_agreement(pinned);
  CHECK(pinned.plan().origin == Plan::Origin::stored);
  CHECK(plan_in(shipped.database, Mode::tune).runs == 0);
}

TEST_CASE("the options of TensorParallel can set the mode or fix the schedule") {
  Findings found;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    Stream stream(comm.device());
    const auto x = test::full(8, 4, 1), w = test::full(4, 6, 1);
    auto gathered = test::full(16, 4, 0), y = test::full(16, 6, 0);
    const auto origin = [&](const TensorParallel::Options& options) {
      TensorParallel tp(comm, options);
      return tp.plan_gather_matmul(stream, x, w, y, gathered).origin_text();
    };
    found.require(origin({.mode = Mode::off}) == "forecast", "mode off");
    found.require(origin({.overlap = false}) == "given", "without overlap");
    found.require(origin({.force = Candidate{"ring", {1, 1}}}) == "given", "a forced schedule");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("a plan of another version of Kiln is measured again, if the mode measures") {
  const TemporaryFolder folder;
  Process process(folder.path());
  plan_in(process.database);
  tune::Record record = *process.store.bests().at(0);
  tune::RecordKey key = *record.key;
  key.tools.kiln = "0.0.1";
  record.key = std::make_shared<const tune::RecordKey>(key);
  REQUIRE(process.store.publish_best(record));
  CHECK(plan_in(folder, Mode::cached).plan().origin == Plan::Origin::stored);
  CHECK(plan_in(folder).runs > 0);
}

TEST_CASE("a damaged plan is found again from the records, or measured again") {
  const TemporaryFolder folder;
  Process process(folder.path());
  const Planned measured = plan_in(process.database);
  const fs::path file = plan_file(folder.path());
  const std::string good = read(file);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 4;
  LogCapture log;
  for (const std::string& bad : {flipped, good.substr(0, good.size() / 2), std::string(), std::string("{}\n"),
                                 std::string(1 << 17, '['), std::string(300, '\0')}) {
    std::ofstream(file, std::ios::binary) << bad;
    const Planned again = plan_in(folder);
    CHECK(again.runs == 0);
    CHECK(again.plan().choice().candidate == measured.plan().choice().candidate);
  }
  REQUIRE(log.lines().size() == 1); // for each file
  CHECK_THAT(log.lines()[0], Catch::Contains(file.string()) && Catch::Contains("is ignored"));
  CHECK(tune::verify(process.store, tune::Repair::no).damage.size() == 1);
  tune::verify(process.store, tune::Repair::yes);
  CHECK(read(file) == good);

  std::ofstream(file, std::ios::binary) << flipped;
  fs::remove_all(folder.path() / "rec");
  CHECK(plan_in(folder).runs > 0);
  CHECK(plan_in(folder).runs == 0);
}

TEST_CASE("a record whose contents are not a plan of this product is ignored with a log line") {
  const TemporaryFolder folder;
  Process process(folder.path());
  plan_in(process.database);
  const tune::Record good = *process.store.bests().at(0);
  fs::remove_all(folder.path() / "rec");
  using Facts = std::map<std::string, double>;
  const std::string chosen = good.config;
  const auto erase_another = [&](Facts& facts) { // the times of a schedule that was not chosen
    auto of = facts.lower_bound("forecast ");
    if (of->first == "forecast " + chosen) ++of;
    const std::string name = of->first.substr(std::string("forecast ").size());
    facts.erase("measured " + name), facts.erase("forecast " + name);
  };
  const std::vector<std::function<void(tune::Record&, Facts&)>> changes{
      [](auto&, Facts& facts) { facts.clear(); },
      [](auto&, Facts& facts) { facts.erase("computation"); },
      [&](auto&, Facts& facts) { facts.erase("measured " + chosen); },
      [&](auto&, Facts& facts) { facts["measured " + chosen] = -1; },
      [](auto&, Facts& facts) { facts["measured serial"] = -5; },
      [](auto&, Facts& facts) { facts["forecast serial"] = 1e300; },
      [](auto&, Facts& facts) { facts["communication"] = -1e-9; },
      [](tune::Record& record, auto&) { record.config = "spiral, 7 chunks"; },
      [](tune::Record& record, auto&) { record.result.status = tune::Status::crash; },
      [](auto&, Facts& facts) { facts["forecast spiral"] = facts["measured spiral"] = 1; },
      [&](auto&, Facts& facts) { erase_another(facts); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    tune::Record record = good;
    changes[i](record, record.result.facts);
    REQUIRE(process.store.publish_best(record));
    const bool foreign = i + 2 >= changes.size();
    CHECK(tune::plan_of(record).has_value() == foreign);
    // A warning is written only once in a process.
    LogCapture log;
    const Planned planned = plan_in(folder, Mode::cached);
    CHECK(planned.plan().origin == Plan::Origin::forecast);
    if (i == 0) CHECK_THAT(log.lines().at(0), Catch::Contains("is ignored, since its record is damaged"));
    if (i + 2 == changes.size()) CHECK_THAT(log.lines().at(0), Catch::Contains("lists other schedules"));
  }
  const Planned again = plan_in(folder);
  check_agreement(again);
  CHECK(again.runs > 0);
  CHECK(plan_in(folder).runs == 0); // the good plan replaces the bad one
}

TEST_CASE("random changes of a stored plan's numbers never break planning") {
  const TemporaryFolder folder;
  Process process(folder.path());
  plan_in(process.database);
  const tune::Record good = *process.store.bests().at(0);
  const std::vector<double> values{
      0, -1, -0.5, 1e-300, 1e18, 86'400, 86'401, std::numeric_limits<double>::max(), NAN, INFINITY};
  for (const auto& [name, value] : good.result.facts)
    for (const double other : values) {
      tune::Record record = good;
      record.result.facts[name] = other;
      record.time = std::numeric_limits<std::int64_t>::max();
      if (const auto plan = tune::plan_of(record)) {
        CHECK(plan->options[plan->chosen].measured >= 0);
        for (const auto& option : plan->options)
          CHECK((option.forecast >= 0 && option.forecast <= 86'400 && option.measured <= 86'400));
      }
    }
  Process reader(folder.path());
  tune::Record late = good;
  late.time = std::numeric_limits<std::int64_t>::max();
  REQUIRE(process.store.publish_best(late));
  CHECK_THAT(plan_in(reader.database).plan().explain(), Catch::Contains("(stored on "));
}

TEST_CASE("processes that measure the same product at the same time leave one whole plan") {
  const TemporaryFolder folder;
  std::vector<std::thread> writers;
  std::vector<Planned> measured(3);
  for (Planned& planned : measured)
    writers.emplace_back([&] { planned = plan_in(folder); });
  for (std::thread& writer : writers)
    writer.join();
  const Planned stored = plan_in(folder);
  check_agreement(stored);
  CHECK(stored.runs == 0);
  CHECK(std::any_of(measured.begin(), measured.end(), [&](const Planned& m) {
    return m.plan().measured_at == stored.plan().measured_at && m.plan().chosen == stored.plan().chosen;
  }));
  for (const Planned& m : measured)
    check_agreement(m);
}

TEST_CASE("the products of chunks have the step of K of the whole product") {
  const Device cpu = Device::cpu();
  for (std::int64_t k : {1, 100, 512, 2048})
    for (std::int64_t rows : {1, 7, 64, 300, 2048}) {
      const Config whole = ops::matmul_config(cpu, DType::F32, 2048, 512, k),
                   chunk = ops::matmul_config(cpu, DType::F32, rows, 512, k);
      CHECK(chunk.get("BK") == whole.get("BK"));
      if (rows <= 64) CHECK(*chunk.get("BM") <= 64);
    }
}

namespace {

constexpr const char* file_variable = "KILN_TEST_PLAN_FILE";

// Runs the hidden case below in another process, and returns the line that it writes.
std::string summary_of_process(const fs::path& folder, const char* mode) {
  const fs::path file = folder / "summary";
  fs::remove(file);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("KILN_CACHE_DIR", folder.c_str(), 1);
    setenv("KILN_TUNE", mode, 1);
    setenv(file_variable, file.c_str(), 1);
    alarm(60);
    execl("/proc/self/exe", "collectives_tests", "plans in a process: the case of the environment", nullptr);
    _exit(127);
  }
  int status = -1;
  REQUIRE(child > 0);
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return read(file);
}

} // namespace

// Hidden, because it only makes sense in the processes that the next case starts, each with an environment
// of its own.
TEST_CASE("plans in a process: the case of the environment", "[.]") {
  const char* file = std::getenv(file_variable);
  if (!file) {
    WARN("skipped: started by the case below");
    return;
  }
  std::string summary;
  run_ranks({.ranks = 2, .link = {.bytes_per_second = 1e9, .latency = 1000}}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    const auto x = test::full(16, 24, 0.5f), w = test::full(24, 40, 2);
    auto gathered = test::full(32, 24, 0), y = test::full(32, 40, 0);
    tp.gather_matmul(stream, x, w, y, gathered);
    stream.synchronize();
    if (comm.rank() == 0 && y.data()[0] == 24) summary = tp.summary();
  });
  std::ofstream(file) << summary;
}

TEST_CASE("the next process finds the plans of the one before it") {
  const TemporaryFolder folder;
  CHECK_THAT(summary_of_process(folder.path(), "cached"), Catch::Contains(" (forecast)"));
  CHECK_THAT(summary_of_process(folder.path(), ""), Catch::Contains(" (measured now)"));
  for (const char* mode : {"", "cached"})
    CHECK_THAT(summary_of_process(folder.path(), mode), Catch::Contains(" (stored on 20"));
  CHECK_THAT(summary_of_process(folder.path(), "off"), Catch::Contains(" (forecast)"));
}
