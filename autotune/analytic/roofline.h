// Predicts the time of a config with a roofline model that takes the shape of the launch into account.
//
// A launch takes as long as the busiest part of the device. Programs (or groups of programs that share a
// product) are distributed over threads or multiprocessors, and a partly filled last round takes as long as a
// full one. Within that, the times of arithmetic and of each level of the memory hierarchy overlap. Costs
// that do not shrink with a tile (packing, the tail of reductions, the epilogue, the launch itself) are
// added. The constants of CPUs were measured on a Zen 5; those of GPUs follow the reference figures of sm_80
// and sm_90 (see gpu_model.h).
#pragma once

#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/analytic/terms.h>

#include <string>

namespace kiln::tune {

struct Estimate {
  double seconds = 0;
  double compute = 0, memory = 0, cache = 0, programs = 0, launch = 0; // seconds of each part, before overlap
  double shared = 0; // seconds of a GPU's shared memory, before overlap
  double waste = 1;  // load of the busiest thread, relative to an equal share
  // A lower bound of the seconds of every config: the time of the useful arithmetic (if that is known) or of
  // the unique bytes, whichever is longer.
  double bound = 0;
  const char* limit = ""; // what takes longest: "arithmetic", "memory", "cache", "shared memory", "programs"
};

// Predicts the time of one launch from its work and the rates of the device.
Estimate estimate(const Terms& terms, const Machine& machine, DeviceKind kind);

} // namespace kiln::tune
