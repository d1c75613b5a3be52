// Defines Device, which stands for what kernels run on: the CPU, an NVIDIA GPU, or an emulated GPU.
//
//   Device cpu = Device::cpu();
//   cpu.properties().num_threads;      // number of threads that run one launch
//   if (Device::cuda_count() > 0) use(Device::cuda(0));
//   use(Device::emulated("sm_80")); // a GPU in software, on every machine
//
// CUDA devices need the NVIDIA driver. The first call that needs a CUDA device opens it (see
// KILN_CUDA_LIBRARY in options.h). A CUDA device takes memory and start-up time only when the first memory or
// stream is created on it. After an error that the driver cannot recover from, such as an illegal address in
// a kernel, every call on that device throws the same TargetError; other devices keep working.
//
// Kernels, ops and assign run on GPUs of compute capability 8.0 or newer. Code is generated for sm_80 (for
// 8.x), sm_90a (9.0) and sm_100a (10.0); other GPUs run the code for sm_80, assembled for them. A program is
// one thread block of `num_warps` warps (an option of the config; default 4).
//
// An emulated GPU is used like a CUDA device: it has its own memory (Tensor::to, Buffer, copy), its streams
// are asynchronous, and kernels, ops and assign run on it with the configs of a GPU. Mistakes that it finds
// in a kernel become the error of the stream: a UserError with the whole report, which is thrown by
// synchronize(), by later launches on that stream until clear_error(), and with KILN_DEBUG=1 by the launch
// itself. The same seed gives the same execution and the same report. Programs run one after the other unless
// the option `resident` allows more.
//
// A Device is a small value (kind and index) that can be copied, compared and used as a key. All functions
// are thread-safe.
#pragma once

#include <kiln/dsl/api.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

KILN_API_BEGIN
namespace kiln {

enum class DeviceKind : std::uint8_t { Cpu, Cuda, Emulated };

// The properties of a device. Sizes are zero if the system does not report them.
struct DeviceProperties {
  std::string name;           // "AMD EPYC 9575F 64-Core Processor", "NVIDIA H200"
  std::string cpu;            // target CPU, by LLVM's name: "znver5"; KILN_CPU overrides it. GPUs: empty
  std::string isa;            // vector extensions, widest last: "avx2 fma avx512f avx512bf16". GPUs: "sm_90"
  int num_threads = 1;        // threads that run one launch, the launching thread included. GPUs: 1
  std::int64_t l1d_bytes = 0; // of one core. GPUs: 0
  std::int64_t l2_bytes = 0;  // of one core. GPUs: of the device
  std::int64_t l3_bytes = 0;  // shared by this core and others. GPUs: 0
  // Physical memory, or the container's limit if that is lower. GPUs: of the device.
  std::int64_t memory_bytes = 0;

  // The following members are zero for the CPU.
  int sm = 0;                       // compute capability: 90 means 9.0
  int multiprocessors = 0;          // number of streaming multiprocessors
  std::int64_t shared_bytes = 0;    // largest shared memory of one block
  int cuda_version = 0;             // CUDA version that the driver supports: 12040 means 12.4
  int multiprocessor_threads = 0;   // largest number of threads on one multiprocessor
  int multiprocessor_registers = 0; // of one multiprocessor; a register has 32 bits
  std::int64_t multiprocessor_shared_bytes = 0;
  std::int64_t clock_hz = 0;        // highest clock of the multiprocessors; 0 for an emulated GPU
  std::int64_t memory_clock_hz = 0; // with two transfers per clock; 0 for an emulated GPU
  int memory_bus_bits = 0;
};

// How an emulated GPU runs kernels: see Device::emulated.
struct EmulatorOptions {
  // The checks to make, separated by commas: "races" (accesses to the same bytes that nothing orders), "init"
  // (reads of memory that was never written), "bounds" (accesses outside of allocations, misaligned accesses,
  // wrong use of barriers; always on), "all" or "none". Races take the most time to check.
  std::string checks = "all";
  std::uint64_t seed = 0; // for the order in which warps run and asynchronous copies take effect
  int threads = 1;        // threads that run independent blocks; with "races" only one runs
  // How many programs are resident together: their warps run in turn, in time slices of random length, as on
  // one GPU that has room for so many blocks. Programs that wait for each other through memory need this:
  // with 1, a program runs to its end before the next one starts, and waiting for a later one is reported as
  // a deadlock. 1 to 65536.
  int resident = 1;
  bool counters = false; // count what kernels do: see counters_of() in emulated/counters.h
  // A launch that executes more warp instructions than this is reported as an endless loop.
  std::uint64_t instruction_budget = 2'000'000'000;
  int ordinal = 0; // 0 to 65535: distinguishes GPUs that are otherwise equal, as in a machine with several
  bool operator==(const EmulatorOptions&) const = default;

  // Returns these defaults, replaced by the values of KILN_EMULATE_CHECK, KILN_EMULATE_SEED and
  // KILN_EMULATE_THREADS where those are set. Throws UserError if one of them is not a number or out of
  // range.
  static EmulatorOptions from_environment();
};

// The limits of a launch on a device.
struct DeviceLimits {
  std::int64_t max_programs = 0;      // of one grid: the product of its extents
  std::int64_t max_scratch_bytes = 0; // for the tiles of one program. GPUs: shared memory of a block
};

// A device. A default-constructed Device is the CPU.
class Device {
public:
  Device() = default;
  static Device cpu() { return {}; }
  // Returns the CUDA device of this index. Throws UserError if there is no usable NVIDIA driver (the message
  // says what is missing) or no device of this index.
  static Device cuda(int index = 0, std::source_location here = std::source_location::current());
  // Returns the number of CUDA devices. It is 0 if cuda(0) would throw; `reason` then says why.
  static int cuda_count(std::string* reason = nullptr);
  // Returns an emulated GPU, which executes in software the PTX that a real GPU would run, and reports
  // mistakes in it. `arch` is "sm_80", "sm_90a", "sm_100a", or another architecture newer than sm_80, which
  // runs the PTX for sm_80. Each combination of architecture and options is one device, created by the first
  // call, with its own memory. Throws UserError for an unknown architecture or check.
  static Device emulated(std::string_view arch, std::source_location here = std::source_location::current());
  static Device emulated(std::string_view arch, const EmulatorOptions& options,
                         std::source_location here = std::source_location::current());
  // Returns the device of a name as to_string writes it: "cpu", "cuda:0" (also for "cuda"), "emulated:sm_80",
  // "emulated:sm_80,seed=7,check=init+bounds", "emulated:sm_80,ordinal=1". Throws UserError as the functions
  // above, and for an unknown name.
  static Device parse(std::string_view name, std::source_location here = std::source_location::current());

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::Cpu; }
  bool is_emulated() const { return kind_ == DeviceKind::Emulated; }
  const DeviceProperties& properties() const; // found by the first call and kept until the process ends
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
KILN_API_END
