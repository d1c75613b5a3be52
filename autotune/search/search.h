// The loop of a search: proposals, measurements, and when to stop.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

class Measurer {
public:
  // Hears of each measurement, in order, as soon as there is one; false: that is enough.
  using Listener = std::function<bool(const Measurement&)>;

  virtual ~Measurer() = default;
  // One for each point, in order. Never throws for what a point does wrong. Fewer where it was interrupted,
  // or the listener has enough: those of the first points.
  virtual std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener = {}) = 0;
  // How many it compiles side by side without running them; 0: it cannot compile alone.
  virtual std::size_t compilers() const { return 0; }
  // What the compiler tells of each point, in order, or how it fails; none of them is run. A point that is
  // measured later is not compiled again. Fewer where it was interrupted, or the device is lost.
  virtual std::vector<Measurement> compile(std::span<const Point>) { return {}; }
  // Seconds that all compilers worked so far, whatever became of it; 0: it is not known.
  virtual double compiler_seconds() const { return 0; }
  // The finalists again, interleaved and more exactly. None where it was interrupted, or the time was up.
  virtual std::vector<Measurement> confirm(std::span<const Point> points) = 0;
  // How long that takes, as far as their trials tell; 0: no time to speak of.
  virtual double seconds_to_confirm(std::span<const Trial* const>) const { return 0; }
  // measure() and compile() end after so many seconds from now, whatever is on the way.
  virtual void allow(double) {}
};

// With `others`, searches of one question share its points: each measures some of what its strategy proposes,
// and learns of what the others measured, which it measures again only to confirm it. The strategy must be
// one that uses siblings.
SearchResult search(Strategy& strategy, Measurer& measurer, const Budget& budget,
                    const Progress& progress = {}, const Others& others = {});

} // namespace kiln::tune
