// Models the errors of an initial guess as a Gaussian process, in which similar points have similar errors.
//
// With a few dozen measurements this learns more than trees do, if the guess is reasonable. Covariances fall
// exponentially with the number of knobs that differ. The length scale and the size of the errors are chosen
// from a few candidates by marginal likelihood (Rasmussen and Williams, "Gaussian Processes for Machine
// Learning", 2006, algorithm 2.1 and section 5.4.1).
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

  // Learns from at least one point. Each point has one finite value. `knobs` must outlive the object.
  GaussianProcess(const std::vector<Knob>& knobs, std::vector<Point> points, std::vector<double> values);

  void add(const Point& point, double value); // adds a point, with the scales chosen before
  Guess operator()(const Point& point) const; // predicts the value at this point, without noise
  double likelihood() const;                  // log likelihood of the training values, up to a constant

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
  std::vector<double> values_; // minus their median
  double middle_ = 0;
  Scales scales_{};
  std::vector<std::vector<double>> factor_; // rows of the Cholesky factor of the covariances
  std::vector<double> weights_;             // the inverse of the factor times the values
};

// Returns by how much a value is expected to be below `least`, counting values above it as 0 (Jones et al.,
// "Efficient global optimization of expensive black-box functions", 1998, equation 15).
double expected_improvement(const GaussianProcess::Guess& guess, double least);

} // namespace kiln::tune
