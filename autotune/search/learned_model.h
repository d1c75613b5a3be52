// What the learned search knows after its trials: who is likely in the fastest tenth, in which order, and
// how much there is left to find.
#pragma once

#include "learned_candidates.h"

namespace kiln::tune {

class LearnedModel {
public:
  struct Tried {
    std::size_t at;     // the candidate
    double log_seconds; // infinite for failures
  };

  // Of the logarithms of times, from the best: what differs beyond does not matter.
  static constexpr double range = 1.5;

  LearnedModel(const LearnedCandidates& candidates, const LearnedOptions& options)
      : candidates_(candidates), options_(options) {}

  // From at least one trial that was ok. The log-odds of each candidate to be in the fastest tenth.
  std::vector<double> classify(const std::vector<Tried>& trials, Random& random);
  bool knows_times() const { return times_.has_value(); }
  double log_seconds(std::size_t at) const { return times_->predict(candidates_.rows()[at]); }
  double order(std::size_t at) const; // smaller for what is likely faster
  // How likely a candidate that is not taken is more than 2 % faster than `best`.
  double chance_of_better(const std::vector<Tried>& trials, double best) const;

private:
  BoostOptions tree_options(std::uint64_t seed) const;
  void weigh_by_gain(const std::vector<Tried>& trials, double threshold);
  double fit_scale(const std::vector<Tried>& trials) const;

  const LearnedCandidates& candidates_;
  const LearnedOptions& options_;
  TrainingSet training_; // rows of the trials; labels of the model fitted last
  std::optional<BoostedTrees> times_, order_;
};

} // namespace kiln::tune
