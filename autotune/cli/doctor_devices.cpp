// Checks GPUs, their driver and assembler, and whether kernels run.
#include <kiln/autotune/cli/doctor.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/jit/runtime/tensor.h>

#include <fmt/format.h>

#include <fstream>
#include <numeric>

namespace kiln::doctor {

namespace {

constexpr int least_sm = 80;

KILN_DIM(BN);

// Looks for a display controller of NVIDIA on the PCI bus, or the device nodes of a driver.
bool has_nvidia_hardware(const System& system) {
  std::error_code none;
  if (std::filesystem::exists(system.dev / "nvidiactl", none)) return true;
  for (const auto& device : std::filesystem::directory_iterator(system.sys / "bus/pci/devices", none)) {
    std::string vendor, kind;
    std::ifstream(device.path() / "vendor") >> vendor;
    std::ifstream(device.path() / "class") >> kind;
    if (vendor == "0x10de" && kind.starts_with("0x03")) return true;
  }
  return false;
}

} // namespace

Findings check_cuda(const System& system) {
  std::string reason;
  const int count = Device::cuda_count(&reason);
  if (count == 0) {
    if (!options().cuda_library.empty())
      return {
          {"cuda", Verdict::broken, reason, "correct KILN_CUDA_LIBRARY, or unset it to use libcuda.so.1"}};
    if (has_nvidia_hardware(system))
      return {{"cuda", Verdict::broken, "there is an NVIDIA GPU, but it cannot be used: " + reason,
               "install NVIDIA's driver, or give the container access to it (docker run --gpus all)"}};
    return {{"cuda", Verdict::ok, "no GPU: " + reason.substr(0, reason.find(';')), ""}};
  }
  Findings findings;
  for (int i = 0; i < count; ++i) {
    const DeviceProperties& gpu = Device::cuda(i).properties();
    Finding finding{fmt::format("cuda:{}", i), Verdict::ok,
                    fmt::format("{}, sm_{}, driver for CUDA {}.{}", gpu.name, gpu.sm, gpu.cuda_version / 1000,
                                gpu.cuda_version % 1000 / 10),
                    ""};
    if (gpu.sm < least_sm) {
      finding.verdict = Verdict::warning;
      finding.mend = "kernels need compute capability 8.0 or newer; use another GPU, or the CPU";
    }
    findings.push_back(finding);
  }
  return findings;
}

Findings check_ptxas() {
  if (const std::string& version = gpu::ptxas_version(); !version.empty())
    return {{"ptxas", Verdict::ok, version + ", " + gpu::ptxas_path(), ""}};
  const auto& given = environment_options().ptxas;
  if (given && !given->empty())
    return {{"ptxas", Verdict::broken, fmt::format("KILN_PTXAS is '{}', which does not run", *given),
             "set it to the path of NVIDIA's ptxas, or unset it"}};
  if (!gpu::ptxas_path().empty())
    return {{"ptxas", Verdict::broken, gpu::ptxas_path() + " does not run", "reinstall the CUDA toolkit"}};
  return {{"ptxas", Verdict::ok,
           "none: the GPU driver assembles kernels, and register counts are not reported", ""}};
}

Findings check_kernel(Device device) {
  static const auto test = kernel("doctor", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load() * 2.0f + 1.0f);
  });
  const std::string topic = "kernel on " + to_string(device);
  constexpr std::int64_t n = 1000; // not a multiple of the tile size 256
  auto x = Tensor<float, 1>::empty({n}), out = Tensor<float, 1>::empty({n});
  std::iota(x.begin(), x.end(), 0.0f);
  out.fill(-1);
  auto there = x.to(device), result = out.to(device);
  Stream stream(device);
  test.launch(stream, {BN = 256}, there, result);
  stream.synchronize();
  out = result.to(Device::cpu());
  for (std::int64_t i = 0; i < n; ++i)
    if (const float right = 2 * x.data()[i] + 1; out.data()[i] != right)
      return {{topic, Verdict::broken,
               fmt::format("element {} is {}, but should be {}", i, out.data()[i], right),
               "report this, with the output of kiln devices"}};
  return {{topic, Verdict::ok, "compiles, runs and computes the right result", ""}};
}

} // namespace kiln::doctor
