// Declares the search loop, and Measurer, the interface of objects that measure points.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

class Measurer {
public:
  // Called with each measurement, in order, as soon as it is available; returns false to end measuring.
  using Listener = std::function<bool(const Measurement&)>;

  virtual ~Measurer() = default;
  // Returns one measurement per point, in order. Never throws because of a point. Returns fewer, for the
  // first points, if it is interrupted or the listener returns false.
  virtual std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener = {}) = 0;
  // Returns how many points it compiles in parallel without running them; 0: it cannot compile alone.
  virtual std::size_t compilers() const { return 0; }
  // Compiles points without running them, and returns the facts about each, or its failure, in order. These
  // points are not compiled again when they are measured later. Returns fewer if it is interrupted or the
  // device is lost.
  virtual std::vector<Measurement> compile(std::span<const Point>) { return {}; }
  // Returns the time that all compilers have worked so far, whether or not the results were used; 0: unknown.
  virtual double compiler_seconds() const { return 0; }
  // Measures the finalists again, interleaved and more precisely. Returns nothing if interrupted or out of
  // time.
  virtual std::vector<Measurement> confirm(std::span<const Point> points) = 0;
  // Estimates the time for that from the finalists' trials; 0: negligible.
  virtual double seconds_to_confirm(std::span<const Trial* const>) const { return 0; }
  // measure() and compile() end after `seconds` from now, even in the middle of a trial.
  virtual void allow(double) {}
};

// With `others`, several searches for one key share the work: each measures a part of what its strategy
// proposes, and learns from the others' trials, which it measures again only to confirm them. The strategy
// must use siblings.
SearchResult search(Strategy& strategy, Measurer& measurer, const Budget& budget,
                    const Progress& progress = {}, const Others& others = {});

} // namespace kiln::tune
