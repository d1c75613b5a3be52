// Tests that planning finds the configs of the products of chunks, and that ranks that search have time for
// it.
#include "autotune/other_process.h"
#include "autotune/own_cache.h"
#include "collectives/findings.h"

#include <kiln/autotune/random.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/collectives/plan_store.h>
#include <kiln/collectives/product_configs.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/tensor_parallel.h>
#include <kiln/ops/matmul.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

// Publishes a config for the batch-invariant product of these sizes, as a search would do on a rank.
void publish(std::int64_t m, std::int64_t n, std::int64_t k, const Config& config) {
  const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const tune::Task task =
      tune::make_task(*tune::find_tunable("matmul_batch_invariant"), "f32", shape, Device::cpu());
  tune::Record record;
  record.key = std::make_shared<const tune::RecordKey>(task.key());
  record.config = config.to_string();
  record.result.seconds = 1e-6;
  tune::Database::standard().publish(record);
}

} // namespace

TEST_CASE("the rows of products are those of the steps that compute with them") {
  const RowBytes bytes{.shard = 4, .partial = 4, .sum = 4};
  using Rows = std::vector<std::int64_t>;
  CHECK(rows_of_products(serial_gather(Shards({6, 2}), bytes)) == Rows{8});
  CHECK(rows_of_products(direct_gather(Shards({6, 2}), bytes)) == Rows{6, 2});
  CHECK(rows_of_products(direct_gather(Shards({6, 0}), bytes)) == Rows{6});
  const ScheduleOptions uses_sums{.uses_sums = true};
  CHECK(rows_of_products(two_shot_all_reduce(Shards({4, 4}), bytes, uses_sums)) == Rows{4});
  CHECK(rows_of_products(serial_gather(Shards({6, 2}), bytes, {.computes = false})) == Rows{});
}

TEST_CASE("ranks wait without a deadline for one that searches for configs") {
  using namespace std::chrono_literals;
  Findings found;
  const RanksOptions options{.ranks = 3, .link = {.bytes_per_second = 1.6e6}, .deadline = 2'000'000'000};
  run_ranks(options, [&](Communicator& comm) {
    prepare_products(comm, {16, 8}, [&](std::int64_t rows) {
      if (comm.rank() == 1 && rows == 8) std::this_thread::sleep_for(3s);
    });
    // The same within a plan, for a number of rows that only schedules with chunks have.
    ProductShape shape;
    shape.shards = Shards::even(51, 3);
    shape.n = shape.k = 8;
    bool has_searched = false;
    const auto compute = [&](std::int64_t rows) {
      std::this_thread::sleep_for(rows * 20us);
      if (comm.rank() != 2 || rows == 51 || rows == 17 || rows <= 8 || has_searched) return;
      has_searched = true;
      std::this_thread::sleep_for(3s);
    };
    const Plan plan = plan_by_measurement(comm, shape, {compute, [](const auto&) {}});
    found.require(plan.options[0].measured >= 0, "the plan is measured");
    found.require(comm.rank() != 2 || has_searched, "a schedule has other numbers of rows");
  });
  CHECK(found.list() == test::nothing_wrong);
}

// Hidden, as the one below: they are run in other processes, since the mode and the database are chosen once.
TEST_CASE("a plan has the configs that were found", "[.][configs of a plan]") {
  const OwnCache cache;
  std::mt19937_64 random(5);
  const auto x = test::random_matrix<float>(random, 64, 160), w = test::random_matrix<float>(random, 160, 72);
  Findings found;
  std::string before, after;
  std::vector<float> results[2];
  for (const bool tuned : {false, true})
    run_ranks({.ranks = 2}, [&](Communicator& comm) {
      const auto config = [](std::int64_t bm, std::int64_t bn) {
        return Config::parse("BM=" + std::to_string(bm) + ",BN=" + std::to_string(bn) + ",BK=256");
      };
      if (tuned && comm.rank() == 0)
        publish(64, 72, 160, config(16, 32)), publish(32, 72, 160, config(4, 64));
      comm.barrier();
      Stream stream(comm.device());
      auto gathered = test::full(64, 160, 0), y = test::full(64, 72, 0);
      const auto own = x.view().slice(0, 32 * comm.rank(), 32 * comm.rank() + 32);
      for (const char* schedule : {"serial", "direct"}) {
        TensorParallel tp(comm, {.force = Candidate{schedule, {1}}});
        tp.gather_matmul(stream, own, w, y, gathered);
        const Plan& plan = tp.plans().begin()->second;
        found.require(plan.products.size() == 1, "one number of rows");
        const Plan::Product& product = plan.products.at(0);
        const bool serial = !std::strcmp(schedule, "serial");
        found.require(product.rows == (serial ? 64 : 32), "its value");
        found.require(product.tuned == tuned, "whether it is tuned");
        const Config usual = ops::matmul_config(comm.device(), DType::F32, product.rows, 72, 160);
        found.require(product.config == (!tuned   ? usual
                                         : serial ? config(16, 32)
                                                  : config(4, 64)),
                      "its config");
        if (comm.rank() == 0 && serial) (tuned ? after : before) = plan.explain();
        if (comm.rank() == 1) results[tuned].insert(results[tuned].end(), y.begin(), y.end());
      }
      found.require(TensorParallel(comm, {.measure = false})
                            .plan_gather_matmul(stream, own, w, y, gathered)
                            .products.size() > 0,
                    "a plan that is not measured lists configs, too");
    });
  CHECK(found.list() == test::nothing_wrong);
  CHECK_THAT(before, Catch::Contains("  products of 64 rows: BK=256,BM=") && !Catch::Contains("(tuned)"));
  CHECK_THAT(after, Catch::EndsWith("  products of 64 rows: BK=256,BM=16,BN=32 (tuned)\n"));
  CHECK(results[0].size() == 2 * 64 * 72);
  CHECK(results[0] == results[1]); // to the bit
}

namespace {

// For each product that was searched, its numbers of rows and its kernel.
std::set<std::pair<std::int64_t, cache::Key>> searched() {
  std::set<std::pair<std::int64_t, cache::Key>> found;
  for (const tune::Record& r : tune::Database::standard().store().load({}).records)
    if (r.confirmed && r.key->kernel == "matmul") found.insert({r.key->problem["M"], r.key->ir});
  return found;
}

} // namespace

TEST_CASE("configs of chunks are searched while planning", "[.][configs of chunks]") {
  const OwnCache cache;
  setenv("KILN_TUNE", "tune", 1);
  Findings found;
  run_ranks({.ranks = 2, .deadline = 1'000'000'000}, [&](Communicator& comm) {
    Stream stream(comm.device());
    const auto x = test::full(16, 32, 0.5f), w = test::full(32, 16, 2);
    const auto bias = test::full(16, 1);
    auto gathered = test::full(32, 32, 0), y = test::full(32, 16, 0);
    TensorParallel tp(comm, {.force = Candidate{"direct", {1}}});
    const auto count = [&] {
      comm.barrier();
      const std::size_t now = searched().size();
      comm.barrier();
      return now;
    };
    tp.plan_gather_matmul(stream, x, w, y, gathered);
    found.require(count() == 1, "planning searches");
    tp.gather_matmul(stream, x, w, y, gathered);
    found.require(count() == 1 && y.view()(31, 15) == 32, "the call does not search");
    // Another epilogue is another kernel, with the same plan.
    tp.gather_matmul(stream, x, w, y, gathered, {.bias = bias});
    found.require(count() == 2 && y.view()(31, 15) == 33, "a bias has a config of its own");
    tp.gather_matmul(stream, x, w, y, gathered, {.bias = bias});
    found.require(count() == 2 && tp.plans().size() == 1, "which is searched once");
  });
  CHECK(found.list() == test::nothing_wrong);
}
TEST_CASE("a plan lists the configs of its products, which are those that were found") {
  CHECK(test::exit_code_of_test("[configs of a plan]", 100) == 0);
}
TEST_CASE("with KILN_TUNE=tune, configs of chunks are searched while planning, and not in calls") {
  CHECK(test::exit_code_of_test("[configs of chunks]", 300) == 0);
}
