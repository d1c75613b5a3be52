// The learned search: a classifier of the fastest tenth chooses each batch.
//
// After each batch, boosted trees learn which trials were in the fastest tenth; failures are among the
// others, so that nothing has to be made up for their times. (Regression learns to tell slow from slower,
// where most of a space is; see Song et al., "A general recipe for likelihood-free Bayesian optimization",
// ICML 2022.) What is known before, an analytic model or the records of siblings, is where the trees start
// from: a margin, whose weight is fitted to the trials. The points that they think best are a pool, from
// which a batch is drawn that is not all of one kind; what the classifier cannot tell apart, trees that learn
// the order of pairs of trials do.
//
// Measured on recorded tables and made-up ones, and left out: a first batch that covers the values of each
// knob, or of more and farther points, gains nothing; times of another learner, a Gaussian process, save a
// tenth of the trials on made-up tables and cost a tenth on recorded ones.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

struct LearnedOptions {
  // A model that hears of every fourth trial needs a tenth to a fifth fewer of them than one that waits for
  // eight; two gain little more, and leave compilers idle.
  std::size_t batch = 4;
  std::size_t first = 8; // points without a model, where nothing is known before
  std::size_t most_candidates = 100'000, sampled_candidates = 16'384;
  double quantile = .1; // of the trials, that are called good
  std::size_t least_good = 3;
  int trees = 60, depth = 4;
  double learning_rate = .2, least_weight = .02, row_share = 1, column_share = 1;
  std::size_t pool = 64;
  double diversity = .5; // times the standard deviation of the pool's scores
  double order = .5;     // the same of the order that pairs of trials teach
  double random_share = 1. / 16;
  std::size_t local = 2;      // of each batch, from what one knob tells from the best; three gain no more
  std::size_t stale = 8;      // trials without gain, before coordinate moves
  double descent_share = .15; // of all trials, at most, for them
  double prior_scale = 3, prior_trust = 1;
};

std::unique_ptr<Strategy> make_learned(SearchContext context);
std::unique_ptr<Strategy> make_learned(SearchContext context, const LearnedOptions& options);

} // namespace kiln::tune
