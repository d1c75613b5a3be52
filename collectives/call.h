// Declares what a collective call consists of, which engines execute: a schedule, and what this rank
// contributes.
#pragma once

#include <kiln/collectives/forecast.h>
#include <kiln/dsl/api.h>

#include <functional>
#include <memory>
#include <string>

KILN_API_BEGIN
namespace kiln::collectives {

// What a rank contributes to a call. The functions are called on the rank's thread, or on a thread of the
// engine; `place` must not throw.
struct RankPart {
  // Where this rank has a piece: its own, or one that it receives. Of the host, or of the rank's device.
  std::function<void*(const Piece&)> place;
  // Computes or reduces, and returns when the results are in memory.
  std::function<void(const Step&)> run = {};
};

struct CollectiveCall {
  std::string collective;   // "all_gather"
  std::string tag = {};     // of the caller
  std::string details = {}; // what all ranks must pass alike besides the schedule: "bf16, sum"
  std::shared_ptr<const Schedule> schedule = {};
  RankPart part = {};
  StepCost cost = {};       // of this rank's computations, for the virtual clock; none: they take no time
  Nanoseconds deadline = 0; // of each wait for another rank; 0: that of the communicator
  // Whether the engine itself reduces, when what it needs has arrived; otherwise the rank's thread does so
  // while it executes the call.
  bool in_background = false;
};

} // namespace kiln::collectives
KILN_API_END
