// What is left of values after a guess, as a Gaussian process over points: alike points are off alike.
//
// From a few dozen measurements this learns more than trees do, if the guess is a fair one. Covariances fall
// exponentially with the knobs that differ; how fast, and how far values are off at all, is what the marginal
// likelihood prefers among a few choices (Rasmussen and Williams, "Gaussian Processes for Machine Learning",
// 2006, algorithm 2.1 and section 5.4.1).
#pragma once

#include <kiln/autotune/space/space.h>

#include <span>
#include <vector>

namespace kiln::tune {

class GaussianProcess {
public:
  struct Guess {
    double mean, deviation;
  };

  // Learns from at least one point; values are finite, one for each. The knobs have to outlive it.
  GaussianProcess(const std::vector<Knob>& knobs, std::vector<Point> points, std::vector<double> values);

  void add(const Point& point, double value); // one more, with the scales found at first
  Guess operator()(const Point& point) const; // of a value at this point, without its noise
  double likelihood() const;                  // the logarithm, less a constant, of what it learnt from

private:
  struct Scales {
    double length, sigma; // of distances, of values
  };
  void learn(const Scales& scales);
  void append(std::size_t at);
  double distance(const Point& a, const Point& b) const;
  double covariance(double distance) const;
  double solve(std::span<const double> covariances, std::vector<double>& solution) const;

  const std::vector<Knob>& knobs_;
  std::vector<Point> points_;
  std::vector<double> values_; // less the median
  double middle_ = 0;
  Scales scales_{};
  std::vector<std::vector<double>> factor_; // rows of the Cholesky factor of the covariances
  std::vector<double> weights_;             // the factor's inverse times the values
};

// By how much a value is expected to be below `least`, where it is above by none (Jones et al., "Efficient
// global optimization of expensive black-box functions", 1998, equation 15).
double expected_improvement(const GaussianProcess::Guess& guess, double least);

} // namespace kiln::tune
