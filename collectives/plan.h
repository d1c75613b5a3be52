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
// Planning also finds the configs of the products of chunks, so that no later call searches for one. They are
// those that the tuner knows for each number of rows, or else those of ops::matmul_config. With
// KILN_TUNE=tune (of the environment: TensorParallel::Options::mode is only for plans), the tuner searches
// for those that it does not know: for all products that are measured, before it measures them, and for those
// of a stored plan. Each search takes seconds to minutes, for which ranks wait without a deadline.
// KILN_TUNE=online measures with all threads of the process, and so finds nothing for ranks that have a part
// of them; `kiln tune matmul_batch_invariant` finds configs for ranks with as many threads as
// KILN_NUM_THREADS says. explain() prints the configs of the chosen schedule.
//
// The products of chunks are batch-invariant, so that all their configs give the same bits (ops/matmul.h).
// Ranks of one process with equal products and equally many threads have equal configs, but need not. A
// stored plan does not contain configs: each process looks them up, and the plan is not measured again when
// the tuner finds others, since a config changes the times of all schedules alike, and only little: by at
// most 4 % with 64 to 512 rows, on one thread (ops/README.md, "Tuning").
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/collectives/schedule/candidates.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>

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
  struct Product {
    std::int64_t rows = 0;
    Config config;
    bool tuned = false; // the tuner has found a config other than that of ops::matmul_config
  };
  ProductShape shape;
  std::size_t chosen = 0;      // index into options
  std::vector<Option> options; // the serial one first
  std::shared_ptr<const PreparedSchedule> schedule;
  // The configs of this rank's products, one for each number of rows that the schedule computes; the largest
  // first. On the wall clock; otherwise empty.
  std::vector<Product> products;
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
  // The candidates with their times, where the plan is from, why the choice was made, and the configs of the
  // products, in a few lines.
  std::string explain() const;
};

// What a plan measures on the wall clock. All ranks call the functions in the same order.
struct Trial {
  // Computes the local product of this number of rows. The first time, it may search for the config.
  std::function<void(std::int64_t rows)> compute;
  // Executes the product with a schedule.
  std::function<void(const std::shared_ptr<const PreparedSchedule>&)> run;
};

// Chooses by forecasts alone.
Plan plan_by_forecast(const ProductShape& shape, const LinkModel& link, const ComputeModel& machine);
// Chooses by measurement, as described above. All ranks must call it.
Plan plan_by_measurement(Communicator& comm, const ProductShape& shape, const Trial& trial);

} // namespace kiln::collectives
KILN_API_END
