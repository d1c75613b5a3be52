// What a search may spend, and what it found.
#pragma once

#include <kiln/autotune/space/trial.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

struct Budget {
  int trials = 128;
  double seconds = 120; // confirming included; 0: no limit
  double spent = 0;     // of these, before the search begins
  int patience = 0;     // trials without 1 % of gain; 0: no limit
  double chance = 0.05; // stop when chance_of_better() falls below; 0: never
  int confirm = 8;      // finalists; 0: none
};

// Until when what is on its way at the end of so many seconds may go on: a trial, the default, confirming.
inline double with_overtime(double seconds) { return 1.1 * seconds; }

struct SearchResult {
  std::vector<Trial> trials;          // in the order measured
  std::vector<Trial> shared;          // that other processes measured meanwhile; not counted as trials
  std::vector<Measurement> confirmed; // of `finalists`
  std::vector<Point> finalists;       // best first as the trials had them
  std::optional<Point> best;          // nothing: no trial was ok
  Measurement best_result;
  // "trials", "seconds", "patience", "chance", "exhausted", "interrupted", "device lost"; of a whole run also
  // "one point": the space has no others
  std::string stopped_by;
  double seconds = 0, model_seconds = 0, measure_seconds = 0; // `seconds`: with what was spent before
  // Points that were compiled beside others and are no trials, since what the compiler told of all spoke for
  // others, or the search stopped before; known at its end.
  std::size_t compiled_only = 0;
  // That compilers took for them, and for what was compiled ahead of a stop or cut off by it.
  double compiled_only_seconds = 0;

  // Whether it was measured again at the end; of others one trial is known.
  bool is_confirmed(const Point& point) const {
    const auto end =
        finalists.begin() + static_cast<std::ptrdiff_t>(std::min(finalists.size(), confirmed.size()));
    return std::find(finalists.begin(), end, point) != end;
  }
};

// What other searches of the same question do, on this machine or others.
struct News {
  std::vector<Trial> trials;              // of others, since this was last asked for
  std::size_t searches = 1, own_rank = 0; // that go on now, this one among them, and its place
};
using Others = std::function<News()>; // asked before each batch but the first
// After each trial; false ends the search, which keeps what it has.
using Progress = std::function<bool(const SearchResult& so_far)>;

} // namespace kiln::tune
