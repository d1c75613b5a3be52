// Defines Plan, the choice of a schedule for a product with a collective, and how it is made.
//
// The serial schedule is always a candidate, and wins unless another one is faster. All candidates are ranked
// by their forecasts (forecast.h). On the wall clock, the three best are then timed against the serial one:
// the ranks run them in turn, five times each. A run takes as long as its slowest rank, and medians count. A
// schedule replaces the serial one only if it is at least 2 % faster. Rank 0 makes the decision.
#pragma once

#include <kiln/collectives/candidates.h>
#include <kiln/collectives/communicator.h>
#include <kiln/dsl/api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct Plan {
  struct Option {
    Candidate candidate;
    Nanoseconds forecast = 0, measured = -1; // -1: not measured
  };
  ProductShape shape;
  std::size_t chosen = 0;      // of the options
  std::vector<Option> options; // the serial one first
  std::shared_ptr<const Schedule> schedule;
  // Of the serial schedule: the computations of a rank, and the time of its transfers alone. `hidden` is the
  // share of the shorter of the two that the chosen schedule saves, at most 1.
  Nanoseconds computation = 0, communication = 0;
  double hidden = 0;

  // Selects an option and builds its schedule.
  void choose(std::size_t option);
  bool overlaps() const { return chosen != 0; }
  const Option& choice() const { return options[chosen]; }
  // The candidates with their times, and why the choice was made. A few lines of text.
  std::string explain() const;
};

// What a plan measures on the wall clock. All ranks call the functions alike.
struct Trial {
  std::function<void(std::int64_t rows)> compute; // the local product of so many rows
  std::function<void(const std::shared_ptr<const Schedule>&)> run;
};

// Chooses by forecasts alone.
Plan plan_by_forecast(const ProductShape& shape, const LinkModel& link, const ComputeModel& machine);
// Chooses as described above. All ranks call it.
Plan plan_by_measurement(Communicator& comm, const ProductShape& shape, const Trial& trial);

} // namespace kiln::collectives
KILN_API_END
