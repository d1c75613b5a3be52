// Tests the training and predictions of random forests.
#include <kiln/autotune/model/forest.h>
#include <kiln/dsl/error.h>

#include "model_support.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;
using namespace kiln::test;

TEST_CASE("a forest distinguishes two classes", "[forest]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  Rows rows = random_rows(random, 500, 5), test = random_rows(random, 400, 5);
  std::vector<std::uint8_t> labels;
  for (std::size_t r = 0; r < rows.size(); ++r)
    labels.push_back(bumpy(rows[r]) > 1.2f);
  Forest forest = Forest::train(rows, labels, {}, {.trees = 100, .seed = seed});
  REQUIRE(forest.trees() == 100);
  double right = 0;
  for (std::size_t r = 0; r < test.size(); ++r) {
    double p = forest.probability(test[r]), mean = 0;
    for (std::size_t t = 0; t < forest.trees(); ++t)
      mean += forest.probability(t, test[r]) / 100;
    CHECK(p == Approx(mean));
    right += (p > .5) == (bumpy(test[r]) > 1.2f);
  }
  CHECK(right / 400 > .85);
}

TEST_CASE("rows in the same leaf read the same columns and have the same probability", "[forest]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  Rows rows = random_rows(random, 200, 4, 6);
  std::vector<std::uint8_t> labels;
  std::vector<double> weights;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    labels.push_back(rows[r][0] * rows[r][1] > 8);
    weights.push_back(.1 + random.uniform());
  }
  Forest forest = Forest::train(rows, labels, weights, {.trees = 20, .seed = 1});
  Forest again = Forest::train(rows, labels, weights, {.trees = 20, .seed = 1});
  for (std::size_t t = 0; t < forest.trees(); ++t)
    for (std::size_t r = 1; r < rows.size(); ++r) {
      CHECK(forest.leaf(t, rows[r]) == again.leaf(t, rows[r]));
      if (forest.leaf(t, rows[r]) != forest.leaf(t, rows[r - 1])) continue;
      CHECK(forest.columns_read(t, rows[r]) == forest.columns_read(t, rows[r - 1]));
      CHECK(forest.probability(t, rows[r]) == forest.probability(t, rows[r - 1]));
    }
}

TEST_CASE("without rows or with a single class a forest is one leaf", "[forest]") {
  Rows rows;
  rows.columns = 1;
  float row[] = {1};
  CHECK(Forest::train(rows, {}, {}, {}).probability(std::span<const float>(row)) == 0);
  rows.values = {1, 2, 3};
  const std::uint8_t labels[] = {1, 1, 1};
  CHECK(Forest::train(rows, labels, {}, {}).probability(std::span<const float>(row)) == 1);
  CHECK_THROWS_AS(Forest::train(rows, std::span(labels, 2), {}, {}), UserError);
}
