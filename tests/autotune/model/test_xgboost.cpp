// Compares boosted trees with XGBoost, if installed, on the same data with the same settings.
#include <kiln/autotune/model/boosted_trees.h>

#include "model_support.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#ifdef KILN_XGBOOST
#include <xgboost/c_api.h>

using namespace kiln;
using namespace kiln::tune;
using namespace kiln::test;

namespace {

void ok(int status) {
  if (status != 0) FAIL(XGBGetLastError());
}

DMatrixHandle matrix(const Rows& rows) {
  DMatrixHandle handle = nullptr;
  ok(XGDMatrixCreateFromMat(rows.values.data(), rows.size(), rows.columns,
                            std::numeric_limits<float>::quiet_NaN(), &handle));
  return handle;
}

std::vector<double> by_xgboost(const TrainingSet& set, const BoostOptions& options, const Rows& test) {
  DMatrixHandle train = matrix(set.rows), tested = matrix(test);
  ok(XGDMatrixSetFloatInfo(train, "label", set.labels.data(), set.labels.size()));
  if (options.objective == Objective::pairwise) {
    auto all = static_cast<unsigned>(set.rows.size());
    ok(XGDMatrixSetUIntInfo(train, "group", &all, 1));
  }
  BoosterHandle booster = nullptr;
  ok(XGBoosterCreate(&train, 1, &booster));
  auto give = [&](const char* name, const std::string& value) {
    ok(XGBoosterSetParam(booster, name, value.c_str()));
  };
  const char* objectives[] = {"reg:squarederror", "binary:logitraw", "rank:pairwise"};
  give("objective", objectives[static_cast<int>(options.objective)]);
  give("max_depth", std::to_string(options.depth));
  give("eta", std::to_string(options.learning_rate));
  give("lambda", std::to_string(options.l2));
  give("min_child_weight", std::to_string(options.least_weight));
  give("tree_method", "hist");
  give("max_bin", std::to_string(options.bins));
  give("nthread", "1");
  give("verbosity", "0");
  for (int t = 0; t < options.trees; ++t)
    ok(XGBoosterUpdateOneIter(booster, t, train));
  bst_ulong count = 0;
  const float* values = nullptr;
  ok(XGBoosterPredict(booster, tested, 1, 0, 0, &count, &values));
  std::vector<double> result(values, values + count);
  XGBoosterFree(booster);
  XGDMatrixFree(train);
  XGDMatrixFree(tested);
  return result;
}

} // namespace

TEST_CASE("boosted trees order unseen rows as well as XGBoost's", "[boosted trees][xgboost]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (Objective objective : {Objective::squared, Objective::logistic, Objective::pairwise}) {
    double ours = 0, theirs = 0;
    constexpr int rounds = 5;
    for (int round = 0; round < rounds; ++round) {
      TrainingSet set;
      set.rows = random_rows(random, 400, 6, round % 2 ? 0 : 12);
      Rows test = random_rows(random, 400, 6, round % 2 ? 0 : 12);
      auto truth = [&](std::span<const float> row) {
        float unit[4];
        for (std::size_t c = 0; c < 4; ++c)
          unit[c] = round % 2 ? row[c] : row[c] / 11;
        return bumpy(unit);
      };
      for (std::size_t r = 0; r < set.rows.size(); ++r) {
        float y = truth(set.rows[r]) + .3f * static_cast<float>(random.uniform());
        set.labels.push_back(objective == Objective::logistic ? (y > 1.5f ? 1.f : 0.f) : y);
      }
      for (std::size_t i = 0; i < set.rows.values.size(); i += 97)
        set.rows.values[i] = std::numeric_limits<float>::quiet_NaN();
      std::vector<double> times;
      for (std::size_t r = 0; r < test.size(); ++r)
        times.push_back(double{truth(test[r])});
      BoostOptions options{.objective = objective};
      ours += kendall(BoostedTrees::train(set, options).predict(test), times) / rounds;
      theirs += kendall(by_xgboost(set, options, test), times) / rounds;
    }
    INFO("objective " << static_cast<int>(objective) << ": tau " << ours << ", XGBoost's " << theirs);
    CHECK(ours > theirs - .03);
    CHECK(theirs > .5);
  }
}

#else

TEST_CASE("boosted trees order unseen rows as well as XGBoost's", "[boosted trees][xgboost]") {
  WARN("skipped: XGBoost (libxgboost-dev) was not found when the build was configured");
}

#endif
