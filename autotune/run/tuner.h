// A whole tuning run of one task: what is known is looked up, the space is searched on the device, every
// trial is recorded, and the confirmed winner becomes the database's config.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/search/result.h>
#include <kiln/autotune/space/space.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

struct Machine;
struct Table;
struct Task;
class Prior;

enum class Effort : std::uint8_t { quick, full, most };
inline constexpr Effort quick = Effort::quick, full = Effort::full; // 32 trials or 20 s; 128 or 120 s
inline constexpr Effort most = Effort::most;                        // 512 trials or 15 minutes

struct TuneOptions {
  Effort effort = Effort::full;
  int trials = 0;     // 0: as the effort says
  double seconds = 0; // of all from beginning to end; 0: as the effort says
  int jobs = 0;       // compiler processes; 0: by the CPUs there are
  std::string strategy = "learned";
  std::uint64_t seed = 0;
  bool cold = true;           // inputs come from memory, as after other work; else from the caches
  bool record = true;         // in the database
  bool deterministic = false; // only configs that add up in the seed's order
  Progress progress = {};
  std::function<void(const std::string&)> announce = {}; // hears "measuring the default" and the like
  // What interruptions() was when the run began, where that was before tune(): one since then ends it at
  // once.
  std::optional<int> interruptions_before = {};
};

Budget budget_of(const TuneOptions& options);
// The device's limits; those that nobody measured yet are assumed where measuring would take much of the
// budget.
Machine machine_for(Device device, const TuneOptions& options);

struct Tuning {
  std::shared_ptr<const Task> task;
  std::shared_ptr<BoundSpace> space;
  std::shared_ptr<Prior> prior;
  std::shared_ptr<const Machine> machine;
  SearchResult search;
  std::string strategy;
  std::optional<Point> fallback, analytic; // the seed, and what the model chose without measuring
  double bound = 0; // seconds that no config beats, by the analytic model; where one did, the model was wrong
  std::size_t sibling_records = 0;
  std::string kept;    // the better config that launches go on with; empty: they use the winner
  int bad_records = 0; // lines of the database that could not be read
  int jobs = 0;        // compiler processes
  double worker_seconds = 0;
  std::string checked; // what of the fallback was compared with the interpreter

  double budget_seconds = 0;

  bool found() const { return search.best.has_value(); }
  Config config() const; // the winner's; UserError if there is none, with what went wrong
  const Measurement* of(const Point& point) const; // null: not measured
};

// UserError if no seed is legal, or the first one does not run or computes what it should not. Where the time
// is too short for it, nothing is found.
Tuning tune(const Task& task, const TuneOptions& options);

// Without measuring: wisdom, the database, else the analytic model.
struct Picked {
  Config config;
  std::string source; // "the user's wisdom", "the database", "the analytic model", "the seed", "tuned"
  bool known = false; // from wisdom or the database
  bool stale = false; // known, but found with other tools: to be confirmed
};
Picked pick(const Task& task, Mode mode);
// The same without the analytic model and the seed: nothing where neither wisdom nor the database have a
// config, of this problem or of one that is close. UserError in mode `pinned` where wisdom has none.
std::optional<Picked> pick_known(const Task& task, Mode mode);

// Ends the tuning runs of this process, which keep what they have. For signal handlers.
void interrupt_tuning() noexcept;
// How often that was called.
int interruptions() noexcept;

// The run as a table, if every point was measured; else of those that were.
Table table_of(const Tuning& tuning);

} // namespace kiln::tune
