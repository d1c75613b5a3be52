// The loop of a search: proposals, measurements, and when to stop.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

class Measurer {
public:
  virtual ~Measurer() = default;
  // One for each point, in order. Never throws for what a point does wrong. Fewer where it was interrupted:
  // those of the first points.
  virtual std::vector<Measurement> measure(std::span<const Point> points) = 0;
  // The finalists again, interleaved and more exactly. None where it was interrupted.
  virtual std::vector<Measurement> confirm(std::span<const Point> points) = 0;
};

struct Budget {
  int trials = 128;
  double seconds = 120; // 0: no limit
  int patience = 0;     // trials without 1 % of gain; 0: no limit
  double chance = 0.05; // stop when chance_of_better() falls below; 0: never
  int confirm = 8;      // finalists; 0: none
};

struct SearchResult {
  std::vector<Trial> trials;          // in the order measured
  std::vector<Measurement> confirmed; // of `finalists`
  std::vector<Point> finalists;       // best first as the trials had them
  std::optional<Point> best;          // nothing: no trial was ok
  Measurement best_result;
  std::string
      stopped_by; // "trials", "seconds", "patience", "chance", "exhausted", "interrupted", "device lost"
  double seconds = 0, model_seconds = 0, measure_seconds = 0;
};

// After each batch; false ends the search, which keeps what it has.
using Progress = std::function<bool(const SearchResult& so_far)>;
SearchResult search(Strategy& strategy, Measurer& measurer, const Budget& budget,
                    const Progress& progress = {});

} // namespace kiln::tune
