// Finds the properties and limits of devices, and parses and prints their names.
#include <kiln/jit/runtime/device.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/base/parse_size.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/jit/runtime/cuda/device_state.h>
#include <kiln/jit/runtime/emulated/device_state.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <fstream>
#include <llvm/ADT/StringRef.h>
#include <llvm/TargetParser/Host.h>
#include <map>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace kiln {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::int64_t cache_bytes(int level) {
  std::string cpu = "/sys/devices/system/cpu/cpu" + std::to_string(affinity_cpus().front()) + "/cache/index";
  for (int i = 0; i < 8; ++i) {
    std::string folder = cpu + std::to_string(i);
    if (read_line(folder + "/level") != std::to_string(level)) continue;
    if (read_line(folder + "/type") == "Instruction") continue;
    return static_cast<std::int64_t>(parse_size(read_line(folder + "/size")).value_or(0));
  }
  return 0;
}

std::string model_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown CPU";
}

// The vector extensions that affect how kernels are compiled, narrowest first.
constexpr const char* vector_extensions[] = {"sse4.2",     "avx",      "avx2",     "fma",        "avxvnni",
                                             "avx512f",    "avx512bw", "avx512vl", "avx512vnni", "avx512bf16",
                                             "avx512fp16", "amx-tile", "amx-bf16", "neon",       "bf16",
                                             "i8mm",       "sve",      "sve2"};

std::string isa_of_host() {
  const auto features = cpu::host_features();
  std::string isa;
  for (const char* extension : vector_extensions) {
    auto found = features.find(extension);
    if (found == features.end() || !found->second) continue;
    if (!isa.empty()) isa += ' ';
    isa += extension;
  }
  return isa;
}

std::int64_t memory_bytes() {
  std::int64_t bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = std::strtoll(read_line(file).c_str(), nullptr, 10);
    if (limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

DeviceProperties find_cpu() {
  DeviceProperties p;
  p.name = model_name();
  const std::string& chosen = environment_options().cpu;
  p.cpu = chosen.empty() ? llvm::sys::getHostCPUName().str() : chosen;
  p.isa = isa_of_host();
  p.num_threads = thread_budget().threads;
  p.l1d_bytes = cache_bytes(1);
  p.l2_bytes = cache_bytes(2);
  p.l3_bytes = cache_bytes(3);
  p.memory_bytes = memory_bytes();
  return p;
}

DeviceProperties find_cuda(int index) {
  const cuda::DeviceState& device = cuda::DeviceState::get(index);
  const cuda::Properties& found = device.properties();
  DeviceProperties p;
  p.name = found.name;
  p.isa = "sm_" + std::to_string(found.sm);
  p.l2_bytes = found.l2_bytes;
  p.memory_bytes = found.memory_bytes;
  p.sm = found.sm;
  p.multiprocessors = found.multiprocessors;
  p.shared_bytes = found.shared_bytes_optin;
  p.cuda_version = device.driver().version;
  p.multiprocessor_threads = found.multiprocessor_threads;
  p.multiprocessor_registers = found.multiprocessor_registers;
  p.multiprocessor_shared_bytes = found.multiprocessor_shared_bytes;
  p.clock_hz = found.clock_hz;
  p.memory_clock_hz = found.memory_clock_hz;
  p.memory_bus_bits = found.memory_bus_bits;
  return p;
}

const DeviceProperties& cuda_properties(int index) {
  static std::mutex mutex;
  static auto* known = new std::deque<std::unique_ptr<const DeviceProperties>>;
  std::lock_guard lock(mutex);
  auto i = static_cast<std::size_t>(index);
  if (known->size() <= i) known->resize(i + 1);
  auto& slot = (*known)[i];
  if (!slot) slot = std::make_unique<const DeviceProperties>(find_cuda(index));
  return *slot;
}

// The CPU for launches on a pool of other size.
const DeviceProperties& cpu_properties_with(const DeviceProperties& cpu, int threads) {
  static std::mutex mutex;
  static auto* known = new std::map<int, DeviceProperties>; // never destroyed: callers keep references
  std::lock_guard lock(mutex);
  auto at = known->find(threads);
  if (at == known->end()) {
    at = known->emplace(threads, cpu).first;
    at->second.num_threads = threads;
  }
  return at->second;
}

} // namespace

Device Device::cuda(int index, std::source_location here) {
  std::string call = "Device::cuda(" + std::to_string(index) + "): ";
  std::string reason;
  int count = cuda_count(&reason);
  if (count == 0) throw UserError(here, call + reason);
  if (index < 0 || index >= count)
    throw UserError(here,
                    call + "there " +
                        (count == 1 ? "is 1 CUDA device, of index 0"
                                    : "are " + std::to_string(count) + " CUDA devices, of indices 0 to " +
                                          std::to_string(count - 1)) +
                        "; use one of them");
  Device device;
  device.kind_ = DeviceKind::Cuda;
  device.index_ = index;
  return device;
}

int Device::cuda_count(std::string* reason) {
  const cuda::Availability& found = cuda::available();
  if (reason) *reason = found.reason;
  return found ? cuda::driver().device_count : 0;
}

Device Device::emulated(std::string_view arch, std::source_location here) {
  return emulated(arch, EmulatorOptions::from_environment(), here);
}

Device Device::emulated(std::string_view arch, const EmulatorOptions& options, std::source_location here) {
  Device device;
  device.kind_ = DeviceKind::Emulated;
  try {
    device.index_ = emulated::DeviceState::index_of(std::string(arch), options);
  } catch (const UserError& e) {
    throw UserError(here, "Device::emulated(\"" + std::string(arch) + "\"): " + e.what());
  }
  return device;
}

Device Device::parse(std::string_view name, std::source_location here) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda(0, here);
  constexpr std::string_view cuda_prefix = "cuda:", emulated_prefix = "emulated:";
  if (name.starts_with(emulated_prefix)) {
    const std::string_view rest = name.substr(emulated_prefix.size());
    const std::string_view arch = rest.substr(0, rest.find(','));
    return emulated(arch, emulated::parse_options(rest.substr(arch.size()), here), here);
  }
  if (name.starts_with(cuda_prefix)) {
    int index = 0;
    const char *begin = name.data() + cuda_prefix.size(), *end = name.data() + name.size();
    auto [rest, error] = std::from_chars(begin, end, index);
    if (error == std::errc{} && rest == end) return cuda(index, here);
  }
  throw UserError(here, "\"" + std::string(name) +
                            "\" is no device; use \"cpu\", \"cuda:0\" or \"emulated:sm_80\"");
}

const DeviceProperties& Device::properties() const {
  if (kind_ == DeviceKind::Cuda) return cuda_properties(index_);
  if (kind_ == DeviceKind::Emulated) return emulated::DeviceState::get(index_).properties();
  static const auto* cpu = new DeviceProperties(find_cpu());
  const ThreadPool* pool = detail::scoped_pool();
  return pool && pool->size() != cpu->num_threads ? cpu_properties_with(*cpu, pool->size()) : *cpu;
}

DeviceLimits Device::limits() const {
  if (kind_ == DeviceKind::Cuda) // all programs become blocks along x, the only axis that takes so many
    return {.max_programs = cuda::DeviceState::get(index_).properties().max_grid[0],
            .max_scratch_bytes = properties().shared_bytes};
  if (kind_ == DeviceKind::Emulated)
    return {.max_programs = 0x7fffffff, .max_scratch_bytes = properties().shared_bytes};
  return {.max_programs = std::int64_t{1} << 62, .max_scratch_bytes = std::int64_t{256} << 20};
}

std::string to_string(Device device) {
  switch (device.kind()) {
  case DeviceKind::Cuda: return "cuda:" + std::to_string(device.index());
  case DeviceKind::Emulated: return emulated::DeviceState::get(device.index()).name();
  case DeviceKind::Cpu: break;
  }
  return "cpu";
}

} // namespace kiln
