// Implements `kiln bench`, which times one config in this process and compares it with the device's limits.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/measure/timing.h>
#include <kiln/autotune/run/task.h>

#include <map>
#include <string>

namespace kiln::tune {

struct BenchOptions {
  bool cold = true;   // inputs come from memory, else from the caches if they fit
  double seconds = 1; // the most seconds of timing
  std::uint64_t seed = 0;
};

struct Bench {
  Config config; // the part of the config that is for the kernel
  Timing timing;
  Terms terms;
  Estimate estimate;
  std::map<std::string, double> facts; // about the compiled code: "code_bytes", "registers", ...
  double compile_seconds = 0;          // to compile the code, or to load it from the cache folder

  // A rate, and the device's best rate for the same work.
  struct Share {
    double rate = 0, peak = 0;
    const char* what = ""; // name of the peak: "products", "copy from memory"
  };
  Share arithmetic, memory;
  double bound_share = 0; // the analytic bound as a fraction of the time
};

// Returns the first legal seed with the changes of `changes` to knobs or to the kernel's sizes. Throws
// UserError for a name that neither has.
Config config_for(const Task& task, const std::string& changes);
// Launches the kernel in this process, so that a faulty config affects it. The results are not checked.
Bench bench(const Task& task, const Config& config, const Machine& machine, const BenchOptions& options = {});

} // namespace kiln::tune
