// How long a config should take: a roofline with the shape of a launch in it.
//
// A launch takes as long as its busiest part of the device: the programs (or groups of them that share a
// product) are dealt to the threads or multiprocessors, and the last round is as long as the others. Within
// that, arithmetic and each level of the memory hierarchy take their time, overlapped; what does not shrink
// with a tile (packing, the reduction's tail, the epilogue, the launch itself) is added. The constants are
// measured on a Zen 5 CPU, those of GPUs follow the reference figures of sm_80 and sm_90 (see gpu_model.h).
#pragma once

#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/analytic/terms.h>

#include <string>

namespace kiln::tune {

struct Estimate {
  double seconds = 0;
  double compute = 0, memory = 0, cache = 0, programs = 0, launch = 0; // seconds of each, before overlap
  double shared = 0;                                                   // the same, of a GPU's shared memory
  double waste = 1; // of the busiest thread's share over an equal share
  // Seconds that no config should beat: useful arithmetic (none where it is not known) or unique bytes.
  double bound = 0;
  const char* limit = ""; // "arithmetic", "memory", "cache", "shared memory", "programs"
};

Estimate estimate(const Terms& terms, const Machine& machine, DeviceKind kind);

} // namespace kiln::tune
