// The devices that kernels run on.
//
//   Device cpu = Device::cpu();
//   cpu.properties().num_threads;      // threads that share one launch
//
// A Device is a cheap value (a kind and an index): copy it, compare it, use it as a key.
// Every function is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace kiln {

enum class DeviceKind : std::uint8_t { Cpu, Cuda, Emulated };

// Sizes are zero where the system does not tell them.
struct DeviceProperties {
  std::string name;              // "AMD EPYC 9575F 64-Core Processor"
  std::string cpu;               // the target CPU as LLVM names it, "znver5"; KILN_CPU overrides it
  std::string isa;               // its vector extensions, widest last: "avx2 fma avx512f avx512bf16"
  int num_threads = 1;           // that share one launch, the launching thread included
  std::int64_t l1d_bytes = 0;    // of one core
  std::int64_t l2_bytes = 0;     // of one core
  std::int64_t l3_bytes = 0;     // shared by the cores beside this one
  std::int64_t memory_bytes = 0; // physical memory, or the container's limit if that is lower
};

struct DeviceLimits {
  std::int64_t max_programs = 0;      // in one grid, all axes multiplied
  std::int64_t max_scratch_bytes = 0; // that one program may need for its tiles
};

class Device {
public:
  // The CPU.
  Device() = default;
  static Device cpu() { return {}; }
  // Throws UserError where this build has no such back end.
  static Device cuda(int index = 0, std::source_location here = std::source_location::current());
  static Device emulated(std::string_view arch, std::source_location here = std::source_location::current());

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::Cpu; }
  const DeviceProperties& properties() const; // found once, kept for the life of the process
  DeviceLimits limits() const;
  bool operator==(const Device&) const = default;

private:
  DeviceKind kind_ = DeviceKind::Cpu;
  std::int32_t index_ = 0;
};

std::string to_string(Device device); // "cpu", "cuda:0"

} // namespace kiln

template <> struct std::hash<kiln::Device> {
  std::size_t operator()(kiln::Device d) const noexcept {
    return (static_cast<std::size_t>(d.kind()) << 32) ^ static_cast<std::uint32_t>(d.index());
  }
};
