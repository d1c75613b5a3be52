// Defines Plan, the choice of a schedule for a matrix product with a collective, and explains how it is made.
//
// The serial schedule is always a candidate, and wins unless another one is faster. All candidates are ranked
// by their forecasts (forecast.h). On the wall clock, the three best are then timed against the serial one:
// the ranks run these four round-robin, five times each. The time of a run is that of its slowest rank, and
// the time of a candidate is the median of its runs. A schedule replaces the serial one only if it is at
// least 2 % faster, and is slower in at most one of the five rounds. Rank 0 makes the decision.
//
// A measured plan is stored in the tuner's database. Later processes use it if the product, the device, the
// numbers of ranks and CPUs, the emulated link, the version of Kiln and the possible schedules are the same.
// `kiln records show collective_plan` prints the stored plans; wisdom files contain them, too.
// On the wall clock, the mode (autotune/mode.h) says where plans come from:
//
//   tune, online           the database or a wisdom file; if neither has the plan, it is measured and stored
//   cached, deterministic  the database or a wisdom file; if neither has the plan, forecasts
//   pinned                 a wisdom file; if it does not have the plan, UserError
//   analytic, off          forecasts
//
// The mode is that of TensorParallel::Options, or else of KILN_TUNE. The default is `tune`, and not `cached`
// as for the configs of kernels: measuring takes about 40 times as long as the product itself, which is much
// less than a search for a config. Plans are never made in the background, since all ranks must change them
// at the same call: a plan is looked up, and if necessary measured, when its product is first called or
// planned.
//
// A plan does not choose the configs of the products. The products of chunks are batch-invariant: they have
// the config of ops::matmul_config for their rows, with the same tile size along K for all numbers of rows.
// The fastest config with this tile size is hardly faster: by at most 2 % for 128 to 512 rows, and by 7 % for
// 64 rows (measured by `kiln tune matmul --deterministic` on one thread of an AMD Zen 3, for N and K from 512
// to 2048, in f32 and bf16).
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/collectives/schedule/candidates.h>
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
  std::size_t chosen = 0;      // index into options
  std::vector<Option> options; // the serial one first
  std::shared_ptr<const Schedule> schedule;
  // Of the serial schedule: the time of a rank's computations alone, and of its transfers alone. `hidden` is
  // the time that the chosen schedule saves, as a fraction of the shorter of the two; at most 1.
  Nanoseconds computation = 0, communication = 0;
  double hidden = 0;

  enum class Origin : std::uint8_t {
    forecast, // chosen by the forecasts
    measured, // by this TensorParallel
    stored,   // measured by another TensorParallel, or in another process
    options,  // fixed by TensorParallel::Options
  };
  Origin origin = Origin::forecast;
  std::int64_t measured_at = 0; // milliseconds since 1970; 0: not measured

  // Selects the option with this index, and builds its schedule.
  void choose(std::size_t option);
  bool overlaps() const { return chosen != 0; }
  const Option& choice() const { return options[chosen]; }
  std::string origin_text() const; // "measured now", "stored on 2026-11-21 09:30 UTC", "forecast", "given"
  // The candidates with their times, where the plan is from, and why the choice was made, in a few lines.
  std::string explain() const;
};

// What a plan measures on the wall clock. All ranks call the functions in the same order.
struct Trial {
  std::function<void(std::int64_t rows)> compute; // computes the local product of this number of rows
  std::function<void(const std::shared_ptr<const Schedule>&)> run; // executes the product with a schedule
};

// Chooses by forecasts alone.
Plan plan_by_forecast(const ProductShape& shape, const LinkModel& link, const ComputeModel& machine);
// Chooses by measurement, as described above. All ranks must call it.
Plan plan_by_measurement(Communicator& comm, const ProductShape& shape, const Trial& trial);

} // namespace kiln::collectives
KILN_API_END
