// A whole tuning run of one task: what is known is looked up, the space is searched on the device, every
// trial is recorded, and the confirmed winner becomes the database's config.
#pragma once

#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/search/search.h>
#include <kiln/autotune/task.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::tune {

enum class Effort : std::uint8_t { quick, full, most };
inline constexpr Effort quick = Effort::quick, full = Effort::full; // 32 trials or 20 s; 128 or 120 s
inline constexpr Effort most = Effort::most;                        // 512 trials or 15 minutes

struct TuneOptions {
  Effort effort = Effort::full;
  int trials = 0;     // 0: as the effort says
  double seconds = 0; // 0: as the effort says
  int jobs = 0;       // compiler processes; 0: by the CPUs there are
  std::string strategy = "learned";
  std::uint64_t seed = 0;
  bool cold = true;           // inputs come from memory, as after other work; else from the caches
  bool record = true;         // in the database
  bool deterministic = false; // only configs that add up in the seed's order
  Progress progress;
};

Budget budget_of(const TuneOptions& options);

struct Tuning {
  std::shared_ptr<const Task> task;
  std::shared_ptr<BoundSpace> space;
  std::shared_ptr<Prior> prior;
  Machine machine;
  SearchResult search;
  std::string strategy;
  std::optional<Point> fallback, analytic; // the seed, and what the model chose without measuring
  double bound = 0;                        // seconds that no config beats, by the analytic model
  std::size_t sibling_records = 0;
  int bad_records = 0; // lines of the database that could not be read
  double worker_seconds = 0;

  bool found() const { return search.best.has_value(); }
  Config config() const; // the winner's; UserError if there is none, with what went wrong
  const Measurement* of(const Point& point) const; // null: not measured
};

// UserError if no config is legal, or none worked.
Tuning tune(const Task& task, const TuneOptions& options);

} // namespace kiln::tune
