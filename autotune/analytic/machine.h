// What a device can do at best, measured once by kernels of Kiln's own and kept beside the records.
#pragma once

#include <kiln/autotune/stop.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/device.h>

#include <filesystem>
#include <string>

namespace kiln::tune {

// Seconds, bytes a second and operations a second, of all of the device's threads together.
struct Machine {
  int threads = 1;                                // that share a launch; a GPU's: multiprocessors
  double launch = 1e-6;                           // an empty launch
  double program = 5e-8;                          // one more empty program on one thread
  double memory = 2e10;                           // copied bytes, from memory
  double last_cache = 5e10, private_cache = 2e11; // from the shared cache, from each core's own; a GPU's: L2,
                                                  // and its shared memory
  double last_cache_bytes = 16 << 20, private_cache_bytes = 1 << 20; // all threads' together
  double f32 = 1e11, f64 = 5e10, bf16 = 1e11, i8 = 1e11;             // of dots, flops
  double elementwise = 2e10;                                         // flops of elementwise code
  double first_cache_bytes = 64 << 10;                               // all threads' together
  // GPUs: of one multiprocessor.
  double registers = 0, shared_bytes = 0, warps = 0;
  bool measured = false; // a GPU: some of the rates may be assumed nevertheless, see measured.h

  double dot_rate(DType factors) const;
};

// From the device's attributes alone: see assumed.h.
Machine assumed_machine(Device device);
// From `folder`, or measured now in about two seconds and written there; a folder that cannot be written is
// no error. An emulated GPU is assumed, and so is a device that is not in the folder if nothing is to be
// measured, none of its rates is to be believed (see measured.h), or `stop` said so before the end; then
// nothing is kept.
Machine machine_of(Device device, const std::filesystem::path& folder, bool may_measure = true,
                   const Stop& stop = {});

// Where something ran faster than was thought possible, because other programs slowed the machine while it
// was measured: the next call of machine_of measures it again.
void forget_machine(Device device, const std::filesystem::path& folder);

} // namespace kiln::tune
