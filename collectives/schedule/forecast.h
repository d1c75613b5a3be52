// Forecasts how long a schedule takes: when each step begins and ends on a link, given the duration of each
// computation.
//
//   const Forecast f = forecast(schedule, link, [](const Step& s) { return ...; });
//   f.makespan;                     // in nanoseconds
//
// The forecast is that of the virtual clock (timeline.h): ranks that execute the schedule on it, and begin at
// the same time, take exactly the forecast's time if the link has no jitter.
#pragma once

#include <kiln/collectives/schedule/link.h>
#include <kiln/collectives/schedule/schedule.h>
#include <kiln/dsl/api.h>

#include <functional>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

// How long a computation or a reduction takes.
using StepCost = std::function<Nanoseconds(const Step&)>;

struct Forecast {
  struct Time {
    Nanoseconds begin = 0, end = 0;
  };
  std::vector<Time> steps;
  Nanoseconds makespan = 0;
  // The largest sums of one rank: of its computations and reductions, and of what passes its busier port.
  Nanoseconds computation = 0, communication = 0;
};

// What happens if all ranks begin at the time 0, without jitter.
Forecast forecast(const Schedule& schedule, const LinkModel& link, const StepCost& cost);

} // namespace kiln::collectives
KILN_API_END
