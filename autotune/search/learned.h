// Implements the learned search, in which a classifier of the fastest tenth of trials chooses each batch.
//
// After each batch, boosted trees learn which trials were in the fastest tenth; faster ones have larger
// weights. Failures are simply not among the fastest, so that no times have to be invented for them.
// (Regression would learn to distinguish slow from slower, where most of a space is; see Song et al., "A
// general recipe for likelihood-free Bayesian optimization", ICML 2022.) Prior knowledge, from an analytic
// model or from records of siblings, is a margin from which the trees start; its weight is fitted to the
// trials. The candidates with the best scores form a pool, from which a diverse batch is drawn. Trees that
// learn the order of pairs of trials distinguish candidates to which the classifier gives equal scores. If
// there are records of siblings, half of each batch comes from a Gaussian process of the siblings' errors:
// one trial that is faster than the siblings predict affects the predictions of all similar points, whereas a
// classifier learns little from three good trials. This saves an eighth of the trials when a GPU learns from
// other GPUs.
//
// Facts that the compiler reports about the code (registers, spills, sizes) are known for trials, and can be
// known for other candidates before they run. If they distinguish good trials from others, spares are
// compiled next to each batch, and trees that use these facts besides the knobs reorder all of them relative
// to the order in which they were proposed. This saves a sixth of the trials on synthetic tables in which
// spills, which the knobs do not reveal, determine the speed. Two alternatives were worse: running the
// candidates with the best odds regardless of the proposed order explores too little and costs trials; and if
// the pool were proposed as one batch of twice the size, most runs would be those that siblings suggest.
//
// The following were measured on recorded and synthetic tables and left out. A first batch that covers the
// values of each knob, or with more or more distant points, gains nothing. Without siblings, times predicted
// by a Gaussian process save a tenth of the trials on synthetic tables and cost a tenth on recorded ones.
// With siblings, taking more than half of a batch from the process costs a third more trials to 98 %. Where a
// single config stands out and the search is stuck, taking a quarter of each batch from crossovers or
// mutations of the best, or from a bootstrapped classifier, finds it no sooner; a Gaussian process of times
// misses it a third less often, but doubles the time spent in models.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

struct LearnedOptions {
  // A model that is updated after every fourth trial needs a tenth to a fifth fewer trials than one updated
  // after every eighth. Updating after every second gains little more and leaves compilers idle.
  std::size_t batch = 4;
  std::size_t first = 8; // points that are chosen without a model, if nothing is known before
  std::size_t most_candidates = 100'000, sampled_candidates = 16'384;
  double quantile = .1; // fraction of the trials that count as good
  std::size_t least_good = 3;
  int trees = 60, depth = 4;
  double learning_rate = .2, least_weight = .02, row_share = 1, column_share = 1;
  std::size_t pool = 64;
  double diversity = .5;           // in standard deviations of the pool's scores
  double order = .5;               // likewise, for the order learned from pairs of trials
  std::size_t sibling_pool = 1024; // candidates that the Gaussian process evaluates
  std::size_t sibling_trials = 96; // no process after this many: the classifier then knows as much
  double random_share = 1. / 16;
  std::size_t local = 2;      // per batch, neighbours of the best in one knob; three gain no more
  std::size_t stale = 8;      // trials without gain before coordinate moves begin
  double descent_share = .15; // the largest fraction of all trials for coordinate moves
  double prior_scale = 3, prior_trust = 1;
  // The share of facts in the classifier's gain from which spares are compiled; above 1: never.
  double least_share_of_facts = .1;
  double place_worth = 1; // log-odds that facts must add to move a compiled candidate up by one place
};

std::unique_ptr<Strategy> make_learned(SearchContext context);
std::unique_ptr<Strategy> make_learned(SearchContext context, const LearnedOptions& options);

} // namespace kiln::tune
