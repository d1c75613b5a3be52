// The learned search: a classifier of the fastest tenth chooses each batch.
//
// After each batch, boosted trees learn which trials were in the fastest tenth, the faster the more they
// count; failures are among the others, so that nothing has to be made up for their times. (Regression learns
// to tell slow from slower, where most of a space is; see Song et al., "A general recipe for likelihood-free
// Bayesian optimization", ICML 2022.) What is known before, an analytic model or the records of siblings, is
// where the trees start from: a margin, whose weight is fitted to the trials. The points that they think best
// are a pool, from which a batch is drawn that is not all of one kind; what the classifier cannot tell apart,
// trees that learn the order of pairs of trials do. Where there are records of siblings, half of a batch
// comes from a Gaussian process of how wrong they are: one trial that is faster than siblings say tells of
// all that is like it, where a classifier that has three good trials learns little. That saves an eighth of
// the trials of GPUs that learn from other GPUs.
//
// What the compiler tells of the code, registers, spills and sizes, is known of trials and can be known of
// others before they run. Where it tells good trials from others, spares are compiled beside a batch, and
// trees that see it beside the knobs move all of them in the order in which they were proposed. It saves a
// sixth of the trials of made-up tables where spills decide that the knobs do not tell. Running those with
// the best odds, in whatever order they were proposed, explores too little and costs trials; and were the
// pool proposed as one batch of twice the size, most runs would be those of siblings.
//
// Measured on recorded tables and made-up ones, and left out: a first batch that covers the values of each
// knob, or of more and farther points, gains nothing; without siblings, times of a Gaussian process save a
// tenth of the trials on made-up tables and cost a tenth on recorded ones. More than half from the process
// where there are siblings costs a third of the trials to 98 %. Where one config stands alone and the search
// is stuck, a quarter of each batch from crossovers or mutations of the best, or from a bootstrapped
// classifier, finds it no sooner; from a process of times it is missed a third less often, for twice the time
// of models.
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
  double diversity = .5;           // times the standard deviation of the pool's scores
  double order = .5;               // the same of the order that pairs of trials teach
  std::size_t sibling_pool = 1024; // candidates that the process of siblings' errors looks at
  std::size_t sibling_trials = 96; // until so many: then the classifier knows as much
  double random_share = 1. / 16;
  std::size_t local = 2;      // of each batch, from what one knob tells from the best; three gain no more
  std::size_t stale = 8;      // trials without gain, before coordinate moves
  double descent_share = .15; // of all trials, at most, for them
  double prior_scale = 3, prior_trust = 1;
  // Of what the classifier gains by its splits, so that spares are compiled; above 1: never.
  double least_share_of_facts = .1;
  double place_worth = 1; // log-odds that facts have to add for a compiled candidate to gain a place
};

std::unique_ptr<Strategy> make_learned(SearchContext context);
std::unique_ptr<Strategy> make_learned(SearchContext context, const LearnedOptions& options);

} // namespace kiln::tune
