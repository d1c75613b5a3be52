// Tests Gaussian processes over points.
#include <kiln/autotune/model/gaussian_process.h>

#include "test_seed.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace kiln;
using namespace kiln::tune;
using namespace kiln::test;

namespace {

std::vector<Knob> some_knobs() {
  return {{"tile", {16, 32, 64, 128}, {}, true},
          {"order", {0, 1, 2}, {"row", "column", "z"}, false},
          {"pad", {0, 1}, {}, true}};
}

std::vector<Point> all_points() {
  std::vector<Point> points;
  for (std::uint16_t a = 0; a < 4; ++a)
    for (std::uint16_t b = 0; b < 3; ++b)
      for (std::uint16_t c = 0; c < 2; ++c)
        points.push_back({a, b, c});
  return points;
}

double distance(const Point& a, const Point& b) { // the same distance as in GaussianProcess
  const int tile = std::abs(a[0] - b[0]);
  return (tile ? .3 + .7 * tile / 3 : 0) + (a[1] != b[1]) + (a[2] != b[2]);
}

struct Solved {
  std::vector<double> x;
  double log_determinant;
};

Solved solve(std::vector<std::vector<double>> matrix, std::vector<double> right) { // by elimination
  const std::size_t n = right.size();
  double log_determinant = 0;
  for (std::size_t i = 0; i < n; ++i) {
    log_determinant += std::log(matrix[i][i]);
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = matrix[r][i] / matrix[i][i];
      for (std::size_t c = i; c < n; ++c)
        matrix[r][c] -= factor * matrix[i][c];
      right[r] -= factor * right[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t c = i + 1; c < n; ++c)
      right[i] -= matrix[i][c] * right[c];
    right[i] /= matrix[i][i];
  }
  return {right, log_determinant};
}

// The process with the most likely scales, solved without a Cholesky factor.
struct Direct {
  double likelihood = -1e300, length = 0, sigma = 0, middle = 0;
  std::vector<Point> points;
  std::vector<double> values;

  std::vector<std::vector<double>> covariances() const {
    std::vector<std::vector<double>> k(points.size(), std::vector<double>(points.size()));
    for (std::size_t i = 0; i < points.size(); ++i)
      for (std::size_t j = 0; j < points.size(); ++j)
        k[i][j] = sigma * sigma * std::exp(-distance(points[i], points[j]) / length) + (i == j ? .0025 : 0);
    return k;
  }
  Direct(std::vector<Point> p, std::vector<double> v) : points(std::move(p)), values(std::move(v)) {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    middle = sorted[sorted.size() / 2];
    for (double& x : values)
      x -= middle;
    double best[2] = {};
    for (double l : {1., 2., 4.})
      for (double s : {.2, .4, .8}) {
        length = l, sigma = s;
        const Solved solved = solve(covariances(), values);
        double found = -solved.log_determinant / 2;
        for (std::size_t i = 0; i < values.size(); ++i)
          found -= values[i] * solved.x[i] / 2;
        if (found > likelihood) likelihood = found, best[0] = l, best[1] = s;
      }
    length = best[0], sigma = best[1];
  }
  GaussianProcess::Guess operator()(const Point& p) const {
    std::vector<double> k;
    for (const Point& other : points)
      k.push_back(sigma * sigma * std::exp(-distance(other, p) / length));
    const Solved mean = solve(covariances(), values), less = solve(covariances(), k);
    double m = middle, variance = sigma * sigma;
    for (std::size_t i = 0; i < k.size(); ++i)
      m += k[i] * mean.x[i], variance -= k[i] * less.x[i];
    return {m, std::sqrt(variance)};
  }
};

} // namespace

TEST_CASE("a Gaussian process matches the equations", "[gaussian_process]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  const std::vector<Knob> knobs = some_knobs();
  for (int round = 0; round < 8; ++round) {
    std::vector<Point> points = all_points();
    random.shuffle(points);
    points.resize(1 + random.below(16));
    std::vector<double> values;
    for (const Point& p : points)
      values.push_back(.3 * p[0] - .2 * (p[1] == 1) + .1 * random.uniform() * round);
    const Direct direct(points, values);
    GaussianProcess process(knobs, points, values);
    CHECK(process.likelihood() == Approx(direct.likelihood));
    for (const Point& p : all_points()) {
      CHECK(process(p).mean == Approx(direct(p).mean).margin(1e-9));
      CHECK(process(p).deviation == Approx(direct(p).deviation).margin(1e-7));
    }
  }
}

TEST_CASE("an added value changes the predictions of similar points", "[gaussian_process]") {
  const std::vector<Knob> knobs = some_knobs();
  GaussianProcess process(knobs, {{0, 0, 0}, {3, 2, 1}, {2, 1, 0}}, {.1, -.2, 0});
  const Point added{1, 0, 1}, near{2, 0, 1}, far{3, 2, 0};
  const auto before = process(near), before_far = process(far);
  process.add(added, -2);
  CHECK(process(added).mean < -1.5);
  CHECK(process(added).deviation < .1);
  CHECK(process(near).mean < before.mean - .1);
  CHECK(process(near).deviation < before.deviation);
  CHECK(std::abs(process(far).mean - before_far.mean) < std::abs(process(near).mean - before.mean));
}

TEST_CASE("the expected improvement is the mean of the values below", "[gaussian_process]") {
  for (const double mean : {-1., 0., .4, 3.})
    for (const double deviation : {.01, .3, 2.}) {
      double sum = 0;
      const int steps = 20000;
      for (int i = 0; i < steps; ++i) {
        const double z = -10 + 20. * (i + .5) / steps;
        sum += std::max(0., .25 - (mean + z * deviation)) * std::exp(-z * z / 2) / std::sqrt(2 * M_PI) * 20 /
               steps;
      }
      CHECK(expected_improvement({mean, deviation}, .25) == Approx(sum).margin(1e-6));
    }
}
