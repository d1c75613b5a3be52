// What the learned search knows after its trials: who is likely in the fastest tenth, in which order, and
// how much there is left to find.
#pragma once

#include "learned_candidates.h"
#include "learned_facts.h"

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

  // What the compiler told of a candidate. From then on it is judged by that as well.
  void note(std::size_t at, const std::map<std::string, double>& facts) { facts_.note(at, facts); }

  // From at least one trial that was ok. The log-odds of each candidate to be in the fastest tenth.
  std::vector<double> classify(const std::vector<Tried>& trials, Random& random);
  // What the facts of a candidate add to its log-odds, beside what they add to those of a usual trial; 0
  // where they are not known.
  double told_by_facts(std::size_t at) const;
  bool knows_times() const { return plain_.has_value(); }
  double log_seconds(std::size_t at) const { return ask(&Trees::times, at); }
  double order(std::size_t at) const; // smaller for what is likely faster
  // How much of what tells good trials from others is facts of their code, and not their knobs.
  double share_of_facts() const;
  // How likely a candidate that is not taken is more than 2 % faster than `best`.
  double chance_of_better(const std::vector<Tried>& trials, double best) const;

private:
  struct Targets { // of each trial
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
  double ask(BoostedTrees Trees::* trees, std::size_t at) const;

  const LearnedCandidates& candidates_;
  const LearnedOptions& options_;
  LearnedFacts facts_;
  TrainingSet training_;                  // rows of the trials; labels of the model fitted last
  std::optional<Trees> plain_, informed_; // without and with facts of the code
  std::optional<BoostedTrees> order_;
  double offset_ = 0; // of the log-odds of trials with facts, on average
};

} // namespace kiln::tune
