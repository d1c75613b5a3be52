// Contenders in one process, in turns: A B C A B C ..., medians, with the care that fair numbers need.
//
//   auto seconds = race({{"Kiln", run}, {"OpenBLAS", other}}, options);
//
// A turn begins with a pause, so that the threads of the one before go to sleep (OpenBLAS's and libgomp's
// spin for a while after a call and would take the CPU from the next); then the contender runs untimed for a
// while, which wakes its own threads and brings the cores back to their clock. What follows is timed in
// batches long enough for the clock; their median is the turn's number, and the median of all turns the
// result.
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
  bool starts_threads = false;          // on each call, which must not inherit that this thread is pinned
  std::function<double()> outside = {}; // instead of run: the seconds of one turn in another process
};

struct RaceOptions {
  int rounds = 0;          // 0: as many as fit into the seconds, from 3 to 9, and more where turns disagree
  double seconds = 1.6;    // for all contenders of a row
  double most_seconds = 5; // no round beyond those begins after them
  double pause = 0.025;    // before a turn
  double warm = 0.020;     // untimed
  double measure = 0.004;  // timed; a call that takes longer is timed once
};

// The median seconds of each; 0 for those that do not do this. A turn beside which the CPUs shared a core is
// run again, if their probe is given.
std::vector<double> race(const std::vector<Contender>& contenders, const RaceOptions& options,
                         CoreSharing* sharing = nullptr);

} // namespace benchmarks
