// What `kiln bench` does: times one config of a tunable kernel in this process, and compares it with what the
// device can do.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/measure/timing.h>
#include <kiln/autotune/run/task.h>

#include <map>
#include <string>

namespace kiln::tune {

struct BenchOptions {
  bool cold = true;   // inputs come from memory, else from the caches as far as they fit
  double seconds = 1; // at most, of timing
  std::uint64_t seed = 0;
};

struct Bench {
  Config config; // what of it is the kernel's
  Timing timing;
  Terms terms;
  Estimate estimate;
  std::map<std::string, double> facts; // of the compiled code: "code_bytes", "registers", ...
  double compile_seconds = 0;          // or to load it from the cache folder

  // A rate, and the device's own for the same work.
  struct Share {
    double rate = 0, peak = 0;
    const char* what = ""; // the peak's name: "f32 products", "copy from memory"
  };
  Share arithmetic, memory;
  double bound_share = 0; // of the time: what the roofline leaves
};

// The first seed that is legal, with the values that `changes` gives to knobs or the kernel's sizes.
// UserError for a name that neither has.
Config config_for(const Task& task, const std::string& changes);
// Launches the kernel: what is wrong with the config goes wrong here. Nothing looks at the results.
Bench bench(const Task& task, const Config& config, const Machine& machine, const BenchOptions& options = {});

} // namespace kiln::tune
