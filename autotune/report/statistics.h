// Computes a report's statistics: rank correlation, recall, medians, effects of knobs and counts of failures.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/autotune/space/trial.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

inline constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
inline bool usable(double seconds) { return std::isfinite(seconds) && seconds > 0; }
inline bool has_time(const Trial& trial) { return trial.result.ok() && usable(trial.result.seconds); }

// Returns Kendall's tau-b: 1 if both orders agree on every pair, -1 if they disagree on every pair, ties
// aside; NaN if either is constant or has fewer than two values. It takes O(n^2) time.
double kendall_tau(std::span<const double> a, std::span<const double> b);

// Returns the share of the `count` smallest values of `truth` that are also among the `count` smallest of
// `guess`.
double top_recall(std::span<const double> truth, std::span<const double> guess, std::size_t count);

double median(std::vector<double> values); // NaN if there are no values

// The effect of one knob on the trials that were measured.
struct KnobEffect {
  struct Value {
    int tried = 0, ok = 0;
    double best = 0, median = 0; // seconds; 0 if no trial with this value succeeded
  };
  std::vector<Value> values;
  // The part of the variance of log(time) that this knob's value explains by itself, from 0 to 1; NaN if all
  // times are equal. A search tries good values more often, so this is only a hint.
  double share = 0;
};
KnobEffect knob_effect(std::size_t knob, std::size_t value_count, std::span<const Trial> trials);

// A kind of failure, how often it happened, and its most frequent messages.
struct FailureKind {
  Status status;
  int count = 0;
  std::vector<std::pair<std::string, int>> messages;
};
// Returns the kinds of failures, the most frequent first.
std::vector<FailureKind> failures(std::span<const Trial> trials, std::size_t most_messages = 4);

} // namespace kiln::tune
