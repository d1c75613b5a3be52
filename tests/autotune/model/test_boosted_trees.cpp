// Tests boosted trees: their splits against trying all, functions that they must learn, and their files.
#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/model/objective.h>
#include <kiln/dsl/error.h>

#include "model_support.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace kiln;
using namespace kiln::tune;
using namespace kiln::test;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// Returns the least objective, penalty included, that one split of `set` can reach, by trying all splits.
double best_split_error(const TrainingSet& set, double l2) {
  double start = 0, weight = 0;
  for (std::size_t r = 0; r < set.rows.size(); ++r)
    start += double{set.weights[r]} * double{set.labels[r]}, weight += double{set.weights[r]};
  start = static_cast<float>(start / weight);
  auto objective = [&](auto&& left) {
    double g[2] = {}, h[2] = {};
    for (std::size_t r = 0; r < set.rows.size(); ++r) {
      g[left(r)] += double{set.weights[r]} * (start - double{set.labels[r]});
      h[left(r)] += double{set.weights[r]};
    }
    if (h[0] == 0 || h[1] == 0) return std::numeric_limits<double>::infinity();
    return -.5 * (g[0] * g[0] / (h[0] + l2) + g[1] * g[1] / (h[1] + l2));
  };
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < set.rows.columns; ++c)
    for (std::size_t t = 0; t < set.rows.size(); ++t)
      for (bool missing_left : {false, true})
        best = std::min(best, objective([&](std::size_t r) {
                          float v = set.rows[r][c];
                          return std::isnan(v) ? missing_left : v < set.rows[t][c];
                        }));
  return best;
}

double objective_of(const BoostedTrees& model, const TrainingSet& set, double l2) {
  double start = 0, weight = 0;
  for (std::size_t r = 0; r < set.rows.size(); ++r)
    start += double{set.weights[r]} * double{set.labels[r]}, weight += double{set.weights[r]};
  start = static_cast<float>(start / weight);
  double result = 0, leaves[2] = {};
  bool have[2] = {};
  for (std::size_t r = 0; r < set.rows.size(); ++r) {
    double leaf = model.predict(set.rows[r]) - start;
    result += double{set.weights[r]} * ((start - double{set.labels[r]}) * leaf + .5 * leaf * leaf);
    std::size_t at = !have[0] || std::abs(leaves[0] - leaf) < 1e-9 ? 0 : 1;
    leaves[at] = leaf, have[at] = true;
  }
  return result + .5 * l2 * (leaves[0] * leaves[0] + leaves[1] * leaves[1]);
}

TrainingSet learnable(Random& random, std::size_t count, Objective objective) {
  TrainingSet set;
  set.rows = random_rows(random, count, 6);
  for (std::size_t r = 0; r < count; ++r) {
    float y = bumpy(set.rows[r]);
    set.labels.push_back(objective == Objective::logistic ? (y > 1.2f ? 1.f : 0.f) : y);
  }
  return set;
}

// The loss of each objective by its definition.
double loss_of(const TrainingSet& set, Objective objective, const std::vector<double>& scores) {
  double loss = 0;
  for (std::size_t a = 0; a < scores.size(); ++a) {
    double w = double{set.weights[a]}, y = double{set.labels[a]};
    if (objective == Objective::squared) loss += .5 * w * std::pow(scores[a] - y, 2);
    if (objective == Objective::logistic) loss += w * (std::log1p(std::exp(scores[a])) - y * scores[a]);
    if (objective != Objective::pairwise) continue;
    auto group = std::count(set.groups.begin(), set.groups.end(), set.groups[a]);
    for (std::size_t b = 0; b < scores.size(); ++b)
      if (set.groups[a] == set.groups[b] && set.labels[a] > set.labels[b])
        loss += w * double{set.weights[b]} / static_cast<double>(group) *
                std::log1p(std::exp(scores[b] - scores[a]));
  }
  return loss;
}

} // namespace

TEST_CASE("gradients are the slopes and curvatures of their objective", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (Objective objective : {Objective::squared, Objective::logistic, Objective::pairwise}) {
    INFO("objective " << static_cast<int>(objective));
    TrainingSet set;
    set.rows = random_rows(random, 24, 1);
    std::vector<double> scores;
    for (std::size_t r = 0; r < 24; ++r) {
      set.labels.push_back(static_cast<float>(random.below(objective == Objective::logistic ? 2 : 5)));
      set.weights.push_back(static_cast<float>(.5 + random.uniform()));
      set.groups.push_back(static_cast<int>(random.below(3)));
      scores.push_back(random.uniform() * 4 - 2);
    }
    Gradients gradients(set, objective);
    gradients.compute(scores, random);
    for (std::size_t r = 0; r < 24; ++r) {
      constexpr double step = 1e-4;
      std::vector<double> more = scores, less = scores;
      more[r] += step, less[r] -= step;
      double up = loss_of(set, objective, more), here = loss_of(set, objective, scores),
             down = loss_of(set, objective, less);
      CHECK(gradients[r].first == Approx((up - down) / (2 * step)).margin(1e-5));
      CHECK(gradients[r].second == Approx((up - 2 * here + down) / (step * step)).margin(1e-5));
    }
  }
}

TEST_CASE("a boosted tree's first split is the best one", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    TrainingSet set;
    set.rows = random_rows(random, 2 + random.below(30), 1 + random.below(4), round % 2 ? 5 : 0);
    for (float& v : set.rows.values)
      if (random.below(8) == 0) v = nan_value;
    for (std::size_t r = 0; r < set.rows.size(); ++r) {
      set.labels.push_back(static_cast<float>(random.uniform() * 4 - 2));
      set.weights.push_back(static_cast<float>(.5 + random.uniform()));
    }
    BoostOptions options{.trees = 1, .depth = 1, .learning_rate = 1, .least_weight = 0};
    BoostedTrees model = BoostedTrees::train(set, options);
    double best = best_split_error(set, options.l2);
    if (!std::isfinite(best) || best > -1e-9) continue; // nothing to split
    CHECK(objective_of(model, set, options.l2) == Approx(best).margin(1e-4));
  }
}

TEST_CASE("boosted trees learn values, classes and orders", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (Objective objective : {Objective::squared, Objective::logistic, Objective::pairwise}) {
    TrainingSet set = learnable(random, 600, objective), test = learnable(random, 300, objective);
    BoostedTrees model =
        BoostedTrees::train(set, {.objective = objective, .trees = 120, .row_share = .8, .seed = 3});
    std::vector<double> predicted = model.predict(test.rows), truth;
    double right = 0, square = 0, spread = 0;
    for (std::size_t r = 0; r < predicted.size(); ++r) {
      truth.push_back(double{bumpy(test.rows[r])});
      right += (predicted[r] > 0) == (test.labels[r] > .5f);
      square += std::pow(predicted[r] - truth[r], 2), spread += std::pow(truth[r] - 1, 2);
      CHECK(predicted[r] == model.predict(test.rows[r]));
    }
    INFO("objective " << static_cast<int>(objective));
    CHECK(kendall(predicted, truth) > (objective == Objective::logistic ? .6 : .8));
    if (objective == Objective::logistic) CHECK(right / 300 > .88);
    if (objective == Objective::squared) CHECK(square / spread < .1);
  }
}

TEST_CASE("a pairwise objective compares within groups only", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  TrainingSet set;
  set.rows = random_rows(random, 400, 3);
  for (std::size_t r = 0; r < 400; ++r) { // column 2 gives the group, whose offset is irrelevant
    int group = r % 2 == 0;
    set.rows.values[r * 3 + 2] = static_cast<float>(group);
    set.groups.push_back(group);
    set.labels.push_back(set.rows[r][0] + 10.f * static_cast<float>(group));
  }
  BoostedTrees model = BoostedTrees::train(set, {.objective = Objective::pairwise});
  CHECK(model.importance()[0] > .8);
  float low[] = {.2f, .5f, 1}, high[] = {.8f, .5f, 0};
  CHECK(model.predict(std::span<const float>(high)) > model.predict(std::span<const float>(low)));
}

TEST_CASE("boosted trees start from the margin", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  TrainingSet set = learnable(random, 300, Objective::squared);
  set.margins = set.labels; // nothing remains to be learned
  BoostedTrees nothing_left = BoostedTrees::train(set, {});
  for (double p : nothing_left.predict(set.rows))
    CHECK(std::abs(p) < 1e-6);
  for (float& m : set.margins)
    m += 3;
  for (double p : BoostedTrees::train(set, {}).predict(set.rows))
    CHECK(p == Approx(-3));
}

TEST_CASE("training is deterministic and depends on its seed", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  TrainingSet set = learnable(random, 200, Objective::squared);
  BoostOptions options{.row_share = .7, .column_share = .5, .seed = 1};
  std::string first = BoostedTrees::train(set, options).to_json();
  CHECK(first == BoostedTrees::train(set, options).to_json());
  options.seed = 2;
  CHECK(first != BoostedTrees::train(set, options).to_json());
}

TEST_CASE("contributions sum to the prediction, and importance finds the relevant columns",
          "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  TrainingSet set = learnable(random, 400, Objective::squared);
  BoostedTrees model = BoostedTrees::train(set, {});
  for (std::size_t r = 0; r < 20; ++r) {
    double sum = 0;
    std::vector<double> parts = model.contributions(set.rows[r], &sum);
    for (double part : parts)
      sum += part;
    CHECK(sum == Approx(model.predict(set.rows[r])).margin(1e-6));
  }
  std::vector<double> importance = model.importance();
  double sum = 0;
  for (double share : importance)
    sum += share;
  CHECK(sum == Approx(1));
  CHECK(importance[4] + importance[5] < .05); // columns that the function does not read
}

TEST_CASE("without rows, or with equal labels, one value is predicted", "[boosted trees]") {
  TrainingSet set;
  set.rows.columns = 2;
  float row[] = {1, nan_value};
  CHECK(BoostedTrees::train(set, {}).predict(std::span<const float>(row)) == 0);
  for (int i = 0; i < 10; ++i) {
    set.rows.add()[0] = static_cast<float>(i);
    set.labels.push_back(1);
  }
  CHECK(BoostedTrees::train(set, {}).predict(std::span<const float>(row)) == Approx(1));
  double odds =
      BoostedTrees::train(set, {.objective = Objective::logistic}).predict(std::span<const float>(row));
  CHECK((odds > 2 && odds < 20));
}

TEST_CASE("infinite values are ordered like others", "[boosted trees]") {
  TrainingSet set;
  set.rows.columns = 1;
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 40; ++i) {
    const float values[] = {-infinite, -1, 3e38f, infinite};
    set.rows.add()[0] = values[i % 4];
    set.labels.push_back(static_cast<float>(i % 4));
  }
  BoostedTrees model = BoostedTrees::train(set, {.trees = 100});
  std::vector<double> p = model.predict(set.rows);
  CHECK((p[0] < p[1] && p[1] < p[2] && p[2] < p[3]));
  CHECK(BoostedTrees::from_json(model.to_json()).predict(set.rows) == p);
}

TEST_CASE("boosted trees that were read back predict bitwise equal values", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (Objective objective : {Objective::squared, Objective::logistic, Objective::pairwise}) {
    TrainingSet set = learnable(random, 200, objective);
    BoostedTrees model = BoostedTrees::train(set, {.objective = objective});
    BoostedTrees again = BoostedTrees::from_json(model.to_json());
    CHECK(again.predict(set.rows) == model.predict(set.rows));
    CHECK(again.importance() == model.importance());
    CHECK(again.to_json() == model.to_json());
  }
}

TEST_CASE("invalid files of boosted trees are rejected", "[boosted trees]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  TrainingSet set = learnable(random, 100, Objective::squared);
  const std::string good = BoostedTrees::train(set, {.trees = 5}).to_json();
  for (const char* text : {"", "{}", "[]", "null", "3", "{\"version\":1}", "{\"version\":2}", "\xff\xfe"})
    CHECK_THROWS_AS(BoostedTrees::from_json(text), UserError);
  float row[] = {.5f, .5f, .5f, .5f, .5f, .5f};
  int read = 0;
  const std::string alphabet = "0123456789[]{},:\"-.eE \ntruefalsn\x01\xff";
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (std::size_t changes = 1 + random.below(4); changes > 0; --changes) {
      std::size_t at = random.below(text.size());
      switch (random.below(4)) {
      case 0: text[at] = alphabet[random.below(alphabet.size())]; break;
      case 1: text.erase(at, 1 + random.below(20)); break;
      case 2: text.insert(at, 1, alphabet[random.below(alphabet.size())]); break;
      default: text.resize(at); break;
      }
      if (text.empty()) text = " ";
    }
    try { // the text is either rejected or gives a usable model
      BoostedTrees model = BoostedTrees::from_json(text);
      ++read;
      nlohmann::json json = nlohmann::json::parse(text);
      if (json["columns"] == 6) CHECK(std::isfinite(model.predict(std::span<const float>(row))));
    } catch (const UserError&) {
    }
  }
  CHECK(read < 4000);
}

TEST_CASE("inconsistent training sets are rejected", "[boosted trees]") {
  TrainingSet set;
  set.rows.columns = 1;
  set.rows.add()[0] = 1;
  CHECK_THROWS_WITH(BoostedTrees::train(set, {}), "boosted trees: 0 labels for 1 rows");
  set.labels = {nan_value};
  CHECK_THROWS_WITH(BoostedTrees::train(set, {}), Catch::Contains("row 0 has label nan"));
  set.labels = {2};
  CHECK_THROWS_WITH(BoostedTrees::train(set, {.objective = Objective::logistic}),
                    Catch::Contains("a logistic objective takes 0 to 1"));
  CHECK_THROWS_WITH(BoostedTrees::train(set, {.bins = 1000}), Catch::Contains("with 1000 bins"));
  set.weights = {1, 2};
  CHECK_THROWS_AS(BoostedTrees::train(set, {}), UserError);
}
