// One emulated GPU of the process: its memory, and the kernels it runs. Not for users: they see
// Device::emulated.
//
// There is one for each architecture and each set of options, made when it is first asked for and kept until
// the process ends. Its memory is the host's, at the host's addresses, but what the emulator does not know to
// be allocated there it reports as out of bounds. Commands are those of the CPU's queues; a lock gives them
// the emulator one after the other. Thread-safe.
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
  // The index of the device of these, made if there is none. UserError for an architecture or checks that are
  // not known.
  static int index_of(const std::string& arch, const EmulatorOptions& options);
  static DeviceState& get(int index);

  DeviceState(int index, const std::string& arch, const EmulatorOptions& options);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  int index() const { return index_; }
  const std::string& arch() const { return arch_; }
  const EmulatorOptions& options() const { return options_; }
  std::string name() const; // "emulated:sm_80", with the options that are not the environment's
  const DeviceProperties& properties() const { return properties_; }

  // Null if there is no memory. Each waits for the kernel that runs.
  void* allocate(std::uint64_t bytes);
  void free(void* memory) noexcept;
  // Runs `f` with the emulator, which nobody else uses meanwhile.
  template <class F> auto with_gpu(const F& f) {
    std::lock_guard lock(mutex_);
    return f(gpu_);
  }

  emulator::Counters& counters() { return counters_; } // of options().counters; inside with_gpu only

private:
  const int index_;
  const std::string arch_;
  const EmulatorOptions options_;
  DeviceProperties properties_;
  std::mutex mutex_;
  emulator::Counters counters_;
  emulator::Gpu gpu_;
};

// What follows the architecture in a device's name: ",seed=7,check=init+bounds", over the environment's.
EmulatorOptions parse_options(std::string_view text, std::source_location here);

// Of memory of any emulated devices, or of the host; what was not written stays so in the copy.
void copy(void* to, const void* from, std::uint64_t bytes);
void fill(void* to, unsigned char value, std::uint64_t bytes);

} // namespace kiln::emulated
