// Defines the options and the result of a tuning run, and declares tune() and pick(), which TunedKernel
// (tuned.h) and the command line call: tune() performs a tuning run of one task, and pick() chooses a config
// without measuring.
//
// A tuning run reads what the database knows, searches the space on the device, records every trial, and
// publishes the confirmed winner in the database.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/output_check.h>
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

// The budget of a tuning run, which ends at the first of two limits.
enum class Effort : std::uint8_t { quick, full, most };
inline constexpr Effort quick = Effort::quick, full = Effort::full; // 32 trials, 20 s; 128 trials, 120 s
inline constexpr Effort most = Effort::most;                        // 512 trials, 15 minutes

struct TuneOptions {
  Effort effort = Effort::full;
  int trials = 0;     // the largest number of trials; 0: determined by the effort
  double seconds = 0; // the time limit of the whole run; 0: determined by the effort
  int jobs = 0;       // the number of compiler processes; 0: determined by the number of CPUs
  std::string strategy = "learned";
  std::uint64_t seed = 0;
  bool cold = true;           // time with inputs in memory, as after other work; false: in the caches
  bool record = true;         // write trials and the winner to the database
  bool deterministic = false; // search only configs that add in the order of the first seed
  // How outputs are compared, in addition to TunedOptions::outputs. The last check of a parameter counts.
  std::vector<OutputCheck> outputs = {};
  Progress progress = {};                                // called after each trial
  std::function<void(const std::string&)> announce = {}; // called with "measuring the default" and the like
  // The value of interruptions() when the caller began, if that was before it called tune(). Any interruption
  // since then ends the run at once.
  std::optional<int> interruptions_before = {};
  // Distinguishes problems of equal sizes whose contents differ, such as sparse matrices: "rows of 0 to 7".
  // tune() stores its result under this key instead of that of its handle (see TunedKernel::with_key). In
  // TunedOptions::search, it is the key of the handle that tuned() returns. At most 1000 bytes; longer ones
  // are a UserError. `kiln tune` ignores it.
  std::string key = {};
  // TunedKernel::tune measures with copies of its arguments, which have at most this many bytes in total.
  // Integers and small arguments are copied first; arguments beyond the limit get made-up contents, which
  // `announce` or, without it, the log reports.
  std::int64_t contents_bytes = std::int64_t{1} << 30;
};

// The result of a tuning run. Its points are points of `space`, which converts them to configs and text:
//
//   for (const tune::Trial& t : tuning.search.trials)
//     std::printf("%s: %s\n", tuning.space->text(t.point).c_str(), tune::name(t.result.status));
struct Tuning {
  std::shared_ptr<BoundSpace> space; // the space that was searched
  SearchResult search;
  std::string strategy;
  std::optional<Point> fallback, analytic; // the first legal seed; the analytic model's choice
  double bound = 0; // the model's lower bound in seconds; if a config is faster, the model is wrong
  std::size_t sibling_records = 0;
  std::string kept;    // the better config that launches keep using; empty: they use the winner
  int bad_records = 0; // number of lines of the database that could not be read
  int jobs = 0;        // number of compiler processes
  double worker_seconds = 0;
  // If nothing was measured because the default or the reference did not end: what probably is the cause,
  // such as an argument's contents, and what to do about it. Otherwise empty.
  std::string suspicion;
  std::string checked; // the part of the fallback's result that was compared with the interpreter
  // One for each output of which little was compared, one if nothing was, and one if there was no time to
  // verify the best config. Also logged.
  std::vector<std::string> warnings;
  // How many configs were refused because of their outputs, the first reason, and what to declare if such
  // outputs are right; empty: none was. Also logged.
  std::string refusals;

  double budget_seconds = 0;

  // For the reports of Kiln; the types are internal.
  std::shared_ptr<const Task> task;
  std::shared_ptr<Prior> prior;
  std::shared_ptr<const Machine> machine;

  bool found() const { return search.best.has_value(); }
  Config config() const; // the winner; throws UserError with the reason if there is none
  const Measurement* of(const Point& point) const; // null if it was not measured
};

// The config that a launch uses, and where it is from: the result of TunedKernel::pick.
struct Picked {
  Config config;
  // "the user's wisdom", "the program's wisdom", "the database" (each of these also with ", for PROBLEM" if
  // the config is for another problem), "the analytic model", "the seed", "tuned".
  std::string source;
  bool known = false; // from wisdom or the database
  // A config is recorded for this problem, but was found with other versions of the tools, or confirmed by
  // older rules (then it is not the one above): it should be confirmed again, which takes a few trials.
  bool stale = false;
};

// Ends the tuning runs of this process; they keep the results that they have. Safe to call in signal
// handlers.
void interrupt_tuning() noexcept;
// Returns how often interrupt_tuning() was called.
int interruptions() noexcept;

} // namespace kiln::tune
KILN_API_END

namespace kiln::tune {

// The rest is for Kiln itself and is not exported.

// Returns the limits of a run with these options.
Budget budget_of(const TuneOptions& options);

// Returns the rates of the device, as machine_of does. If measuring them would take too much of the budget,
// assumed rates are returned.
Machine machine_for(Device device, const TuneOptions& options);

// Performs a tuning run. The winner is verified; if the time is too short for that, it is the first legal
// seed. If it is too short even for measuring that seed, the result has no winner. Throws UserError if a size
// of the problem is 0, if the compile policy forbids compiling, if no seed is legal, or if the first legal
// seed does not run or computes a wrong result.
Tuning tune(const Task& task, const TuneOptions& options);

// Chooses a config without measuring: from wisdom files, else from the database, else by the analytic model.
// Mode `off` always gives the first seed. Throws UserError if the space has no seed, and in mode `pinned` if
// no wisdom file has a config.
Picked pick(const Task& task, Mode mode);

// Like pick, but without the analytic model and the seed: returns nothing if neither wisdom files nor the
// database have a config for this problem or one close to it. In mode `pinned`, throws UserError if no wisdom
// file has one.
std::optional<Picked> pick_known(const Task& task, Mode mode);

// Returns all measured points of a run as a table.
Table table_of(const Tuning& tuning);

} // namespace kiln::tune
