// Predicts which candidates are in the fastest tenth, in which order, and how likely a better one is.
#pragma once

#include "learned_candidates.h"
#include "learned_facts.h"

namespace kiln::tune {

class LearnedModel {
public:
  struct Tried {
    std::size_t at;     // index of the candidate
    double log_seconds; // infinite for failures
  };

  // The largest difference in log time from the best that matters.
  static constexpr double range = 1.5;

  LearnedModel(const LearnedCandidates& candidates, const LearnedOptions& options)
      : candidates_(candidates), options_(options) {}

  // Adds facts that the compiler reported about a candidate. Predictions for it then use them as well.
  void note(std::size_t at, const std::map<std::string, double>& facts) { facts_.note(at, facts); }

  // Returns the log-odds that each candidate is in the fastest tenth. At least one trial must have succeeded.
  std::vector<double> classify(const std::vector<Tried>& trials, Random& random);
  // Returns what the facts of a candidate add to its log-odds, relative to an average trial; 0 if they are
  // not known.
  double gain_from_facts(std::size_t at) const;
  bool knows_times() const { return plain_.has_value(); }
  double log_seconds(std::size_t at) const { return predict(&Trees::times, at); }
  double order(std::size_t at) const; // smaller for candidates that are likely faster
  // Returns the facts' share of the gain with which the classifier distinguishes good trials from others.
  double share_of_facts() const;
  // Returns the probability that some candidate that is not taken is more than 2 % faster than `best`.
  double chance_of_better(const std::vector<Tried>& trials, double best) const;

private:
  struct Targets { // per trial
    std::vector<float> good, weights, margins, log_seconds;
    Targets of(const std::vector<std::size_t>& trials) const;
  };
  struct Trees {
    BoostedTrees good, times;
  };
  BoostOptions tree_options(std::uint64_t seed) const;
  BoostOptions options_of_times(std::uint64_t seed) const;
  Targets targets_of(const std::vector<Tried>& trials) const;
  std::vector<float> gains(const std::vector<Tried>& trials, double threshold) const;
  double fit_scale(const std::vector<Tried>& trials, const std::vector<float>& good) const;
  Trees fit(TrainingSet& set, const Targets& targets, std::uint64_t seed) const;
  void fit_informed(const std::vector<Tried>& trials, const Targets& targets, std::uint64_t seed);
  bool informed(std::size_t at) const { return informed_ && facts_.known(at); }
  double predict(BoostedTrees Trees::* trees, std::size_t at) const;

  const LearnedCandidates& candidates_;
  const LearnedOptions& options_;
  LearnedFacts facts_;
  TrainingSet training_;                  // rows of the trials; labels of the last fitted model
  std::optional<Trees> plain_, informed_; // without and with facts about the code
  std::optional<BoostedTrees> order_;
  double offset_ = 0; // mean change of the log-odds of trials by their facts
};

} // namespace kiln::tune
