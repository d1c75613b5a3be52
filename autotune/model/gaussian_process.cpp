// Fits a Gaussian process over points, and computes its predictions.
#include <kiln/autotune/model/gaussian_process.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace kiln::tune {

namespace {
constexpr double noise = .05; // of a value: differences between neighbours that the knobs do not explain
} // namespace

GaussianProcess::GaussianProcess(const std::vector<Knob>& knobs, std::vector<Point> points,
                                 std::vector<double> values)
    : knobs_(knobs), points_(std::move(points)), values_(std::move(values)) {
  std::vector<double> sorted = values_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  middle_ = *middle;
  for (double& v : values_)
    v -= middle_;
  Scales best{};
  double highest = -std::numeric_limits<double>::infinity();
  for (const double length : {1., 2., 4.})
    for (const double sigma : {.2, .4, .8}) {
      learn({length, sigma});
      if (const double l = likelihood(); l > highest) highest = l, best = scales_;
    }
  learn(best);
}

void GaussianProcess::learn(const Scales& scales) {
  scales_ = scales;
  factor_.clear();
  weights_.clear();
  for (std::size_t i = 0; i < points_.size(); ++i)
    append(i);
}

void GaussianProcess::append(std::size_t at) {
  std::vector<double> covariances(at), row;
  for (std::size_t i = 0; i < at; ++i)
    covariances[i] = covariance(distance(points_[i], points_[at]));
  const double mean = solve(covariances, row);
  double left = covariance(0) + noise * noise;
  for (const double v : row)
    left -= v * v;
  row.push_back(std::sqrt(std::max(left, 1e-12)));
  weights_.push_back((values_[at] - mean) / row.back());
  factor_.push_back(std::move(row));
}

void GaussianProcess::add(const Point& point, double value) {
  points_.push_back(point);
  values_.push_back(value - middle_);
  append(points_.size() - 1);
}

// Solves factor * solution = covariances, and returns the product of the solution and the weights, which is
// the expected value.
double GaussianProcess::solve(std::span<const double> covariances, std::vector<double>& solution) const {
  solution.resize(covariances.size());
  double mean = 0;
  for (std::size_t i = 0; i < covariances.size(); ++i) {
    double v = covariances[i];
    for (std::size_t j = 0; j < i; ++j)
      v -= factor_[i][j] * solution[j];
    solution[i] = v / factor_[i][i];
    mean += solution[i] * weights_[i];
  }
  return mean;
}

GaussianProcess::Guess GaussianProcess::operator()(const Point& point) const {
  std::vector<double> covariances(points_.size()), solution;
  for (std::size_t i = 0; i < points_.size(); ++i)
    covariances[i] = covariance(distance(points_[i], point));
  const double mean = middle_ + solve(covariances, solution);
  double variance = covariance(0);
  for (const double v : solution)
    variance -= v * v;
  return {mean, std::sqrt(std::max(variance, 1e-12))};
}

double GaussianProcess::likelihood() const {
  double sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    sum -= weights_[i] * weights_[i] / 2 + std::log(factor_[i][i]);
  return sum;
}

// Returns the distance in knobs that differ: 1 for words; for sizes about a third for one step, up to 1 from
// end to end.
double GaussianProcess::distance(const Point& a, const Point& b) const {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const int steps = std::abs(int{a[k]} - int{b[k]});
    const std::size_t values = knobs_[k].values.size();
    if (steps == 0) continue;
    sum += knobs_[k].ordered && values > 2 ? .3 + .7 * steps / static_cast<double>(values - 1) : 1;
  }
  return sum;
}

double GaussianProcess::covariance(double distance) const {
  return scales_.sigma * scales_.sigma * std::exp(-distance / scales_.length);
}

double expected_improvement(const GaussianProcess::Guess& guess, double least) {
  const double z = (least - guess.mean) / guess.deviation;
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return guess.deviation * (z * below + density);
}

} // namespace kiln::tune
