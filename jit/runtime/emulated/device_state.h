// Holds an emulated GPU: its options, memory and emulator. Internal: Device::emulated is the public
// interface.
//
// There is one object for each architecture with each set of options. It is created when first needed and
// kept until the process ends. The memory is memory of the host at the host's addresses; accesses outside of
// the emulator's own allocations are reported as out of bounds. Commands go through command queues like the
// CPU's, and a lock lets one command at a time use the emulator. Thread-safe.
#pragma once

#include <kiln/jit/emulator/counters.h>
#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/emulated/opened.h>

#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>

namespace kiln::emulated {

class DeviceState {
public:
  // The index of the device with this architecture and options, which is created if necessary. UserError for
  // an unknown architecture or check.
  static int index_of(const std::string& arch, const EmulatorOptions& options);
  static DeviceState& get(int index);

  DeviceState(int index, const std::string& arch, const EmulatorOptions& options);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  int index() const { return index_; }
  const std::string& arch() const { return arch_; }
  const EmulatorOptions& options() const { return options_; }
  std::string name() const; // "emulated:sm_80", followed by the options that differ from the environment's
  const DeviceProperties& properties() const { return properties_; }

  // allocate returns null if there is no memory. Both wait for the kernel that runs.
  void* allocate(std::uint64_t bytes);
  void free(void* memory) noexcept;
  // Calls `f` with the emulator while no other thread uses it.
  template <class F> auto with_gpu(const F& f) {
    std::lock_guard lock(mutex_);
    return f(gpu_);
  }

  // Updated if options().counters; use only inside with_gpu.
  emulator::Counters& counters() { return counters_; }

private:
  const int index_;
  const std::string arch_;
  const EmulatorOptions options_;
  DeviceProperties properties_;
  std::mutex mutex_;
  emulator::Counters counters_;
  emulator::Gpu gpu_;
};

// Parses what follows the architecture in a device's name, such as ",seed=7,check=init+bounds". Other options
// are those of the environment.
EmulatorOptions parse_options(std::string_view text, std::source_location here);

// Copy and fill memory of any emulated device or of the host. Bytes that were never written still count as
// unwritten in the copy.
void copy(void* to, const void* from, std::uint64_t bytes);
void fill(void* to, unsigned char value, std::uint64_t bytes);

} // namespace kiln::emulated
