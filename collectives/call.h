// Declares what a collective call consists of, which engines execute: a schedule, and what this rank
// contributes.
#pragma once

#include <kiln/collectives/schedule/forecast.h>
#include <kiln/collectives/schedule/prepared_schedule.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

KILN_API_BEGIN
namespace kiln::collectives {

// What a rank contributes to a call. The functions are called on the rank's thread, or on a thread of the
// engine; `place` must neither throw nor make calls on a communicator.
struct RankPart {
  // Returns the address of a piece on this rank, its own or a received one, in memory of the host or the
  // device.
  std::function<void*(const Piece&)> place;
  // Computes or reduces, and returns when the results are in memory.
  std::function<void(const Step&)> run = {};
};

// The order in which the contributions of ranks are combined. `ranks`: in the order of ranks, with the same
// bits on every engine. `engine`: in the order that is fastest on the engine, so that bits depend on it. The
// engine for threads always uses the order of ranks. No call of Kiln chooses `engine` by itself.
enum class ReductionOrder : std::uint8_t { ranks, engine };

struct CollectiveCall {
  std::string collective;   // "all_gather"
  std::string tag = {};     // of the caller
  std::string details = {}; // must be equal on all ranks, as the schedule: "bf16, sum"
  std::shared_ptr<const PreparedSchedule> schedule = {};
  RankPart part = {};
  StepCost cost = {};       // of this rank's computations, for the virtual clock; none: they take no time
  Nanoseconds deadline = 0; // of each wait for another rank; 0: that of the communicator
  // true: the engine reduces as data arrives. false: the rank's thread computes and reduces inside the wait,
  // so that Work::test is never true before it.
  bool in_background = false;
  // The order that the caller allows, for engines whose libraries have reductions of their own.
  ReductionOrder order = ReductionOrder::ranks;
};

} // namespace kiln::collectives
KILN_API_END
