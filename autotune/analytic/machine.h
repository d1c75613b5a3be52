// Describes the best rates of a device; Kiln's own kernels measure them once, and a file stores them.
#pragma once

#include <kiln/autotune/stop.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/device.h>

#include <filesystem>
#include <string>

namespace kiln::tune {

// Seconds, bytes per second and operations per second, for all threads of the device together.
struct Machine {
  int threads = 1;                      // threads that share a launch; GPUs: multiprocessors
  double launch = 1e-6;                 // an empty launch
  double program = 5e-8;                // one more empty program on one thread
  double memory = 2e10;                 // copied bytes, from memory
  double last_cache = 5e10;             // bytes from the L3; GPUs: from the L2
  double private_cache = 2e11;          // bytes from each core's L2; GPUs: from shared memory
  double last_cache_bytes = 16 << 20;   // of all threads together
  double private_cache_bytes = 1 << 20; // of all threads together
  double f32 = 1e11, f64 = 5e10, bf16 = 1e11, i8 = 1e11; // flops of dots
  double elementwise = 2e10;                             // flops of elementwise code
  double l1_bytes = 64 << 10;                            // of all threads together
  // GPUs: resources of one multiprocessor.
  double registers = 0, shared_bytes = 0, warps = 0;
  bool measured = false; // some rates of a GPU may be assumed nevertheless, see measured.h

  double dot_rate(DType factors) const;
};

// Derives the rates from the device's attributes alone (assumed.h).
Machine assumed_machine(Device device);
// Reads the rates from `folder`, or measures them in about two seconds and writes them there; a folder that
// cannot be written is not an error. Returns assumed rates for an emulated GPU; also if the folder lacks the
// device and measuring is not allowed, yields no plausible rate (see measured.h), or is ended by `stop`.
// Assumed rates are not stored.
Machine machine_of(Device device, const std::filesystem::path& folder, bool may_measure = true,
                   const Stop& stop = {});

// Makes the next call of machine_of measure again. Call it if something ran faster than the rates allow,
// because other programs slowed the machine down while it was measured.
void forget_machine(Device device, const std::filesystem::path& folder);

} // namespace kiln::tune
