// The devices that kernels run on.
//
//   Device cpu = Device::cpu();
//   cpu.properties().num_threads;      // threads that share one launch
//   if (Device::cuda_count() > 0) use(Device::cuda(0));
//   use(Device::emulated("sm_80")); // a GPU in software, on every machine
//
// CUDA devices need the NVIDIA driver, which is looked for when the first of these functions asks for one;
// see KILN_CUDA_LIBRARY in options.h. A CUDA device costs memory and time only when memory or a stream is
// made on it. After a sticky error (a kernel's illegal address, a failed assert in one) every call on that
// CUDA device throws the TargetError that says so; the process and its other devices go on.
//
// Kernels, ops and assign run on GPUs of compute capability 8.0 and newer. Code is made for sm_80 (8.x),
// sm_90a (9.0) and sm_100a (10.0); other GPUs run that for sm_80, assembled for them. A program is one thread
// block, of `num_warps` warps as its config says (default 4).
//
// An emulated GPU is used like a CUDA device: it has memory of its own (Tensor::to, Buffer, copy), streams
// are asynchronous, and kernels, ops and assign launch on it, with the configs of a GPU. What it finds wrong
// in a kernel becomes the error of the stream: a UserError with the whole report, thrown by synchronize() and
// by later launches on that stream until clear_error(), and with KILN_DEBUG=1 by the launch itself. The same
// seed gives the same run and the same report.
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
  std::string name;    // "AMD EPYC 9575F 64-Core Processor", "NVIDIA H200"
  std::string cpu;     // the target CPU as LLVM names it, "znver5"; KILN_CPU overrides it. CUDA: empty
  std::string isa;     // its vector extensions, widest last: "avx2 fma avx512f avx512bf16". CUDA: "sm_90"
  int num_threads = 1; // that share one launch, the launching thread included. CUDA: 1
  std::int64_t l1d_bytes = 0; // of one core. CUDA: 0
  std::int64_t l2_bytes = 0;  // of one core. CUDA: of the device
  std::int64_t l3_bytes = 0;  // shared by the cores beside this one. CUDA: 0
  std::int64_t memory_bytes =
      0; // physical memory, or the container's limit if that is lower. CUDA: of the device

  // Of CUDA devices and emulated ones; zero for others.
  int sm = 0;                       // compute capability, 90 for 9.0
  int multiprocessors = 0;          // streaming multiprocessors
  std::int64_t shared_bytes = 0;    // shared memory that one block may have
  int cuda_version = 0;             // that the driver supports, 12040 for 12.4
  int multiprocessor_threads = 0;   // that one has room for
  int multiprocessor_registers = 0; // of 32 bits
  std::int64_t multiprocessor_shared_bytes = 0;
  std::int64_t clock_hz = 0;        // the multiprocessors' highest; an emulated GPU has none
  std::int64_t memory_clock_hz = 0; // two transfers each; an emulated GPU has none
  int memory_bus_bits = 0;
};

// How an emulated GPU runs kernels: see Device::emulated.
struct EmulatorOptions {
  // A comma list of what it looks for: "races" (accesses that nothing orders), "init" (reads of memory that
  // nothing wrote), "bounds" (accesses outside of allocations, misaligned ones, barriers; always on), "all"
  // or "none". Races cost the most time.
  std::string checks = "all";
  std::uint64_t seed = 0; // of the order in which warps run and asynchronous copies land
  int threads = 1;        // that run blocks, of kernels whose blocks are independent; not with "races"
  bool counters = false;  // count what kernels do: see emulated/counters.h
  // What one launch may execute, in instructions of warps, before it counts as an endless loop.
  std::uint64_t instruction_budget = 2'000'000'000;
  bool operator==(const EmulatorOptions&) const = default;

  // These, where KILN_EMULATE_CHECK, KILN_EMULATE_SEED and KILN_EMULATE_THREADS do not say otherwise.
  // UserError for values that are not understood.
  static EmulatorOptions from_environment();
};

struct DeviceLimits {
  std::int64_t max_programs = 0;      // in one grid, all axes multiplied
  std::int64_t max_scratch_bytes = 0; // that one program may need for its tiles. CUDA: its shared memory
};

class Device {
public:
  // The CPU.
  Device() = default;
  static Device cpu() { return {}; }
  // UserError if there is no NVIDIA driver that Kiln can use, saying what is missing, or no device of this
  // index.
  static Device cuda(int index = 0, std::source_location here = std::source_location::current());
  // How many there are; 0 where cuda(0) would throw, and `reason` then says why.
  static int cuda_count(std::string* reason = nullptr);
  // A GPU in software that executes the PTX that a real one would get, and reports what is wrong with it:
  // "sm_80", "sm_90a", "sm_100a", or another architecture from sm_80 on, whose PTX is that for sm_80. Each
  // architecture with each set of options is one device, made by the first call, with memory of its own.
  // UserError for an architecture or checks that are not known.
  static Device emulated(std::string_view arch, std::source_location here = std::source_location::current());
  static Device emulated(std::string_view arch, const EmulatorOptions& options,
                         std::source_location here = std::source_location::current());
  // What to_string made: "cpu", "cuda:0", "emulated:sm_80", "emulated:sm_80,seed=7,check=init+bounds"; "cuda"
  // is the first. UserError as above, and for other names.
  static Device parse(std::string_view name, std::source_location here = std::source_location::current());

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::Cpu; }
  bool is_emulated() const { return kind_ == DeviceKind::Emulated; }
  const DeviceProperties& properties() const; // found once, kept for the life of the process
  DeviceLimits limits() const;
  bool operator==(const Device&) const = default;

private:
  DeviceKind kind_ = DeviceKind::Cpu;
  std::int32_t index_ = 0;
};

std::string to_string(Device device); // "cpu", "cuda:0", "emulated:sm_80"

} // namespace kiln

template <> struct std::hash<kiln::Device> {
  std::size_t operator()(kiln::Device d) const noexcept {
    return (static_cast<std::size_t>(d.kind()) << 32) ^ static_cast<std::uint32_t>(d.index());
  }
};
