// Implements `kiln devices`: describes the devices that kernels can run on.
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cli/support/text.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/runtime/device.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

namespace kiln::cli {

namespace {

// The architectures that code is generated for. Others run the code for sm_80.
constexpr std::array emulated_architectures{"sm_80", "sm_90a", "sm_100a"};

std::string cache_text(std::int64_t bytes) {
  return bytes ? bytes_text(static_cast<double>(bytes)) : "unknown";
}

std::string clock_text(std::int64_t hz) { return hz ? count_text(static_cast<double>(hz), "Hz") : "unknown"; }

void print_text() {
  const DeviceProperties& cpu = Device::cpu().properties();
  const cpu::Target& target = cpu::host_target();
  fmt::print("cpu: {}\n", cpu.name);
  fmt::print("  target   {}, {}-byte vectors\n", target.cpu, target.vector_bytes);
  fmt::print("  isa      {}\n", cpu.isa);
  fmt::print("  threads  {}\n", cpu.num_threads);
  fmt::print("  caches   L1d {}, L2 {} per core; L3 {} shared\n", cache_text(cpu.l1d_bytes),
             cache_text(cpu.l2_bytes), cache_text(cpu.l3_bytes));
  fmt::print("  streams  results of {} or more bypass the caches\n",
             cache_text(cpu::tuning::reused_bytes(cpu.l3_bytes)));
  fmt::print("  memory   {}\n", cache_text(cpu.memory_bytes));
  std::string reason;
  int count = Device::cuda_count(&reason);
  if (count == 0) fmt::print("cuda: not usable: {}\n", reason);
  for (int i = 0; i < count; ++i) {
    const DeviceProperties& gpu = Device::cuda(i).properties();
    fmt::print("cuda:{}: {}\n", i, gpu.name);
    fmt::print("  target   sm_{}, {} multiprocessors\n", gpu.sm, gpu.multiprocessors);
    fmt::print("  memory   {}; L2 {}; {} shared per block\n", cache_text(gpu.memory_bytes),
               cache_text(gpu.l2_bytes), cache_text(gpu.shared_bytes));
    fmt::print("  clocks   {}; memory {}, {} bits wide\n", clock_text(gpu.clock_hz),
               clock_text(gpu.memory_clock_hz), gpu.memory_bus_bits);
    fmt::print("  each SM  {} threads, {} registers, {} shared\n", gpu.multiprocessor_threads,
               gpu.multiprocessor_registers, cache_text(gpu.multiprocessor_shared_bytes));
    fmt::print("  driver   CUDA {}.{}\n", gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10);
  }
  for (const char* arch : emulated_architectures) {
    const Device gpu = Device::emulated(arch, EmulatorOptions{});
    fmt::print("emulated:{}: a GPU in software, {} shared per block\n", arch,
               cache_text(gpu.properties().shared_bytes));
  }
}

nlohmann::ordered_json cuda_json() {
  std::string reason;
  int count = Device::cuda_count(&reason);
  if (count == 0) return {{"available", false}, {"reason", reason}};
  auto devices = nlohmann::ordered_json::array();
  for (int i = 0; i < count; ++i) {
    const DeviceProperties& gpu = Device::cuda(i).properties();
    devices.push_back({{"name", gpu.name},
                       {"sm", gpu.sm},
                       {"multiprocessors", gpu.multiprocessors},
                       {"memory_bytes", gpu.memory_bytes},
                       {"l2_bytes", gpu.l2_bytes},
                       {"shared_bytes", gpu.shared_bytes},
                       {"multiprocessor_threads", gpu.multiprocessor_threads},
                       {"multiprocessor_registers", gpu.multiprocessor_registers},
                       {"multiprocessor_shared_bytes", gpu.multiprocessor_shared_bytes},
                       {"clock_hz", gpu.clock_hz},
                       {"memory_clock_hz", gpu.memory_clock_hz},
                       {"memory_bus_bits", gpu.memory_bus_bits},
                       {"cuda_version", gpu.cuda_version}});
  }
  return {{"available", true}, {"devices", devices}};
}

void print_json() {
  const DeviceProperties& cpu = Device::cpu().properties();
  const cpu::Target& target = cpu::host_target();
  nlohmann::ordered_json json = {{"cpu",
                                  {{"name", cpu.name},
                                   {"target", target.cpu},
                                   {"vector_bytes", target.vector_bytes},
                                   {"isa", cpu.isa},
                                   {"threads", cpu.num_threads},
                                   {"l1d_bytes", cpu.l1d_bytes},
                                   {"l2_bytes", cpu.l2_bytes},
                                   {"l3_bytes", cpu.l3_bytes},
                                   {"reused_bytes", cpu::tuning::reused_bytes(cpu.l3_bytes)},
                                   {"memory_bytes", cpu.memory_bytes}}},
                                 {"cuda", cuda_json()},
                                 {"emulated", emulated_architectures}};
  fmt::print("{}\n", json.dump(2));
}

int run_devices(int argc, char** argv) {
  CLI::App app("Lists the devices that kernels can run on.", "kiln devices");
  bool json = false;
  app.add_flag("--json", json, "print JSON");
  if (auto code = parse(app, argc, argv)) return *code;
  json ? print_json() : print_text();
  return 0;
}

const CommandRegistration devices_command({"devices", "lists the devices that kernels can run on",
                                           run_devices});

} // namespace
} // namespace kiln::cli
