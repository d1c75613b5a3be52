// Declares Machine, the peak rates of a device (bandwidth, flops, launch overhead), which the analytic model
// uses. Kiln measures them once with its own kernels, and stores them in a file.
#pragma once

#include <kiln/autotune/stop.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/device.h>

#include <filesystem>
#include <string>

namespace kiln::tune {

// Times are in seconds, bandwidths in bytes per second, and arithmetic rates in operations per second. Each
// rate is that of all threads of the device together.
struct Machine {
  int threads = 1;                      // threads that share a launch; GPUs: multiprocessors
  double launch = 1e-6;                 // time of an empty launch
  double program = 5e-8;                // time of one more empty program on one thread
  double memory = 2e10;                 // bandwidth of memory, reads and writes together
  double last_cache = 5e10;             // bandwidth of the L3; GPUs: of the L2
  double private_cache = 2e11;          // bandwidth of the L2 of all cores; GPUs: of shared memory
  double last_cache_bytes = 16 << 20;   // size of the L3 for all threads; GPUs: of the L2
  double private_cache_bytes = 1 << 20; // size of the L2 of all cores; GPUs: of shared memory
  double f32 = 1e11, f64 = 5e10, bf16 = 1e11, i8 = 1e11; // rates of dots
  double elementwise = 2e10;                             // rate of elementwise code
  double l1_bytes = 64 << 10;                            // size of the L1 of all cores
  // GPUs: registers, bytes of shared memory and warps that fit on one multiprocessor.
  double registers = 0, shared_bytes = 0, warps = 0;
  bool measured = false; // even so, some rates of a GPU may be assumed: see measured.h

  // The rate of dots whose factors have this dtype.
  double dot_rate(DType factors) const;
};

// Returns the rates that follow from the attributes of the device, without a measurement (see assumed.h).
Machine assumed_machine(Device device);
// Returns the rates of a device. Reads them from `folder`, or else measures them, which takes about two
// seconds, and writes them there. A folder that cannot be written is not an error.
//
// The rates are assumed ones, which are not stored, in four cases: the device is an emulated GPU; the folder
// lacks the device and `may_measure` is false; the measured rates are implausible (see measured.h); or `stop`
// ended the measurement.
Machine machine_of(Device device, const std::filesystem::path& folder, bool may_measure = true,
                   const Stop& stop = {});

// Makes the next call of machine_of measure again. Call this after something ran faster than the rates allow,
// which means that other programs slowed the machine down while it was measured.
void forget_machine(Device device, const std::filesystem::path& folder);

} // namespace kiln::tune
