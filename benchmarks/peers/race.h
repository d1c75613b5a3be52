// Times contenders in alternation (A B C A B C ...), and returns the median time of each.
//
//   auto seconds = race({{"Kiln", run}, {"OpenBLAS", other}}, options);
//
// A measurement begins with a pause, in which the threads of the previous contender go to sleep: those of
// OpenBLAS and libgomp spin for a while after a call, and would take CPU time from the next contender. The
// contender then runs untimed for a while, which wakes its own threads and raises the clock frequency of the
// cores.
// After that it is timed in batches that are long enough for the resolution of the clock. The time of
// the measurement is the median of its batches, and the result is the median of all measurements.
#pragma once

#include "core_sharing.h"
#include "row.h"

#include <functional>
#include <string>
#include <vector>

namespace benchmarks {

struct Contender {
  std::string name;
  std::function<void()> run = {};
  Role role = Role::peer;
  bool starts_threads = false; // each call starts threads, which must not inherit the caller's pinning
  // Used instead of `run`: measures once in another way, such as in another process, and returns the
  // seconds.
  std::function<double()> timed = {};
};

struct RaceOptions {
  int rounds = 0;          // 0: as many as fit into `seconds`, from 3 to 9, and more if they disagree
  double seconds = 1.6;    // for all contenders of a row
  double most_seconds = 5; // after this time no further round begins
  double pause = 0.025;    // seconds before a measurement
  double warm = 0.020;     // seconds of a measurement that are not timed
  double measure = 0.004;  // seconds of a measurement that are timed; a call that takes longer is timed once
};

// Returns the median seconds of each contender, or 0 for one that does not support the work. If `sharing` is
// given, a measurement during which two CPUs shared a core is repeated.
std::vector<double> race(const std::vector<Contender>& contenders, const RaceOptions& options,
                         CoreSharing* sharing = nullptr);

} // namespace benchmarks
