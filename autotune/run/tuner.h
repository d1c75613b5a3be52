// Performs a tuning run of one task.
//
// A run looks up what is known, searches the space on the device, records every trial, and publishes the
// confirmed winner in the database.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/search/result.h>
#include <kiln/autotune/space/space.h>
#include <kiln/dsl/api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {
struct Machine;
struct Table;
struct Task;
class Prior;
} // namespace kiln::tune

KILN_API_BEGIN
namespace kiln::tune {

enum class Effort : std::uint8_t { quick, full, most };
inline constexpr Effort quick = Effort::quick, full = Effort::full; // 32 trials or 20 s; 128 trials or 120 s
inline constexpr Effort most = Effort::most;                        // 512 trials or 15 minutes

struct TuneOptions {
  Effort effort = Effort::full;
  int trials = 0;     // 0: determined by the effort
  double seconds = 0; // for the whole run; 0: determined by the effort
  int jobs = 0;       // compiler processes; 0: determined by the number of CPUs
  std::string strategy = "learned";
  std::uint64_t seed = 0;
  bool cold = true;           // inputs come from memory, as after other work; else from the caches
  bool record = true;         // in the database
  bool deterministic = false; // only configs with the seed's order of additions
  Progress progress = {};
  std::function<void(const std::string&)> announce = {}; // called with "measuring the default" and the like
  // The value of interruptions() when the run began, if that was before tune(). A later interruption ends the
  // run at once.
  std::optional<int> interruptions_before = {};
};

KILN_INTERNAL Budget budget_of(const TuneOptions& options);
// Returns the device's limits. Limits that have not been measured yet are assumed if measuring them would
// take much of the budget.
KILN_INTERNAL Machine machine_for(Device device, const TuneOptions& options);

struct Tuning {
  std::shared_ptr<const Task> task;
  std::shared_ptr<BoundSpace> space;
  std::shared_ptr<Prior> prior;
  std::shared_ptr<const Machine> machine;
  SearchResult search;
  std::string strategy;
  std::optional<Point> fallback, analytic; // the first legal seed; the model's choice without measuring
  double bound = 0; // the model's lower bound in seconds; if a config is faster, the model is wrong
  std::size_t sibling_records = 0;
  std::string kept;    // a better config that launches keep using; empty: they use the winner
  int bad_records = 0; // lines of the database that could not be read
  int jobs = 0;        // compiler processes
  double worker_seconds = 0;
  std::string checked; // which part of the fallback's result was compared with the interpreter

  double budget_seconds = 0;

  bool found() const { return search.best.has_value(); }
  Config config() const; // the winner; throws UserError with the reason if there is none
  const Measurement* of(const Point& point) const; // null: not measured
};

// Throws UserError if no seed is legal, or if the first legal seed does not run or computes a wrong result.
// If the time is too short to measure it, the result is empty.
KILN_INTERNAL Tuning tune(const Task& task, const TuneOptions& options);

// Chooses a config without measuring: from wisdom, the database, else the analytic model.
struct Picked {
  Config config;
  std::string source; // "the user's wisdom", "the database", "the analytic model", "the seed", "tuned"
  bool known = false; // from wisdom or the database
  bool stale = false; // known, but found with other tool versions, so to be confirmed
};
KILN_INTERNAL Picked pick(const Task& task, Mode mode);
// Like pick, but without the analytic model and the seed: returns nothing if neither wisdom nor the database
// has a config for this problem or one close to it. Throws UserError in mode `pinned` if wisdom has none.
KILN_INTERNAL std::optional<Picked> pick_known(const Task& task, Mode mode);

// Ends the tuning runs of this process, which keep their results so far. Safe to call in signal handlers.
void interrupt_tuning() noexcept;
// The number of calls of interrupt_tuning() so far.
int interruptions() noexcept;

// Converts the run to a table of all measured points.
KILN_INTERNAL Table table_of(const Tuning& tuning);

} // namespace kiln::tune
KILN_API_END
