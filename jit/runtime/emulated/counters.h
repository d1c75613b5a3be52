// Declares counters_of(), which returns counts of what kernels did on an emulated device.
//
//   Device gpu = Device::emulated("sm_80", {.counters = true});
//   ... launches on it, and synchronize ...
//   DeviceCounters counters = counters_of(gpu);
//   std::puts(counters.text().c_str());                  // tables for each kernel and line of its source
//   counters.kernels.front().all.sectors_per_request();  // numbers: jit/emulator/counts.h
//
// Thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/emulator/counts.h>
#include <kiln/jit/runtime/device.h>

#include <source_location>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln {

struct DeviceCounters {
  std::vector<emulator::KernelCounts> kernels; // in the order of first launches
  std::string text() const { return emulator::text_of(kernels); }
  std::string json() const { return emulator::json_of(kernels); }
};

// counters_of returns the counts of all launches that have finished since the device was created or the
// counts were cleared; clear_counters sets them to zero. Both wait for the kernel that runs on the device.
// They throw UserError unless `device` is an emulated device with EmulatorOptions::counters.
DeviceCounters counters_of(Device device, std::source_location here = std::source_location::current());
void clear_counters(Device device, std::source_location here = std::source_location::current());

} // namespace kiln
KILN_API_END
