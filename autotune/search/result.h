// Defines the budget of a search and its result.
#pragma once

#include <kiln/autotune/space/trial.h>
#include <kiln/dsl/api.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

// The limits of a search. The first one that is reached ends it.
struct Budget {
  int trials = 128;
  double seconds = 120; // includes the time for confirming; 0: no limit
  double spent = 0;     // seconds that were used before the search began
  int patience = 0;     // ends after this many trials without a gain of 1 %; 0: no limit
  double chance = 0.05; // ends when chance_of_better() falls below this; 0: never
  int confirm = 8;      // number of finalists; 0: none
};

// Returns the time in seconds at which a search with a limit of `seconds` ends even the work in progress: a
// trial, the measurement of the default, or confirming, if it was running when the limit was reached.
inline double with_overtime(double seconds) { return 1.1 * seconds; }

// The outcome of a search.
struct SearchResult {
  std::vector<Trial> trials;          // in the order of measurement
  std::vector<Trial> shared;          // measured by other processes at the same time; not counted as trials
  std::vector<Measurement> confirmed; // the second measurements of `finalists`
  std::vector<Point> finalists;       // in the order of their trials, best first
  std::optional<Point> best;          // empty if no trial was ok
  Measurement best_result;
  // "trials", "seconds", "patience", "chance", "exhausted", "interrupted" or "device lost"; for a whole run
  // also "one point", if the space has only one point.
  std::string stopped_by;
  double seconds = 0, model_seconds = 0, measure_seconds = 0; // `seconds` includes Budget::spent
  // The number of points that were compiled but never run, because the facts that the compiler reported
  // favoured other points, or because the search ended first. It is set when the search ends.
  std::size_t compiled_only = 0;
  // The compile time of those points, and of points that were still being compiled when the search ended.
  double compiled_only_seconds = 0;

  // There was no time to verify a faster config, so that the best is the first seed, with which outputs are
  // compared. Set for whole runs, not for searches.
  bool fell_back = false;

  // Returns whether the point was measured again at the end; other points have only one trial.
  bool is_confirmed(const Point& point) const {
    const auto end =
        finalists.begin() + static_cast<std::ptrdiff_t>(std::min(finalists.size(), confirmed.size()));
    return std::find(finalists.begin(), end, point) != end;
  }
};

// Progress of other searches for the same key, on this machine or others.
struct News {
  std::vector<Trial> trials;              // trials of others since the last call
  std::size_t searches = 1, own_rank = 0; // running searches, including this one, and its index
};
using Others = std::function<News()>; // called before each batch except the first
// Called after each trial. If it returns false, the search ends and keeps its results so far.
using Progress = std::function<bool(const SearchResult& so_far)>;

} // namespace kiln::tune
KILN_API_END
