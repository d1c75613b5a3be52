// The figures of a report that take more than adding up.
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

// Kendall's tau-b: 1 if both put all pairs in one order, -1 if in opposite ones, ties aside; NaN where one
// of them is constant or has fewer than two values. O(n^2).
double kendall_tau(std::span<const double> a, std::span<const double> b);

// Which share of the `count` least of `truth` is among the `count` least of `guess`.
double top_recall(std::span<const double> truth, std::span<const double> guess, std::size_t count);

double median(std::vector<double> values); // NaN of none

// What one knob did to the trials that were measured.
struct KnobEffect {
  struct Value {
    int tried = 0, ok = 0;
    double best = 0, median = 0; // seconds; 0: none was ok
  };
  std::vector<Value> values;
  // The part of the variance of the logarithm of time that the knob's value explains by itself, from 0 to 1;
  // NaN where the times do not differ. A search tries good values more often, so this is a hint.
  double share = 0;
};
KnobEffect knob_effect(std::size_t knob, std::size_t value_count, std::span<const Trial> trials);

// How often each kind of failure happened, most often first, with its most frequent messages.
struct FailureKind {
  Status status;
  int count = 0;
  std::vector<std::pair<std::string, int>> messages;
};
std::vector<FailureKind> failures(std::span<const Trial> trials, std::size_t most_messages = 4);

} // namespace kiln::tune
