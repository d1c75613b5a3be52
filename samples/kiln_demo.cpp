// Runs all samples and compares them with the limits of a device: build/bin/kiln_demo [DEVICE]
//
// Runs the samples and the Llama block, each as a separate program, on the CPU or on a GPU ("cuda:0"),
// and prints how close each comes to the measured limits of the device.
#include "machine_limits.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

// Returns the exit code; -1 if the program cannot be run.
int run(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string folder_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Returns whether the sample succeeded, or was skipped because there is no Python or NumPy.
bool run_numpy() {
  // If the first python3 on PATH has no NumPy, uses the system's, for which apt installs NumPy.
  bool first_has_it = run({"sh", "-c", "python3 -c 'import numpy' 2>/dev/null"}) == 0;
  int code = run({first_has_it ? "python3" : "/usr/bin/python3", KILN_SAMPLES_DIR "/07_numpy.py"});
  if (code == -1 || code == 127) std::printf("07_numpy: skipped, because there is no python3 here\n");
  return code == 0 || code == 77 || code == -1 || code == 127;
}

// Measures the limits of the device, and prints them with its name.
samples::MachineLimits introduce(kiln::Device device) {
  const auto& p = device.properties();
  samples::MachineLimits limits = samples::measure_limits(device);
  std::printf("Kiln %s on %s, ", kiln::version(), p.name.c_str());
  if (device.is_cpu())
    std::printf("%d threads (%s)\nmeasured limits: copy %.1f GB/s (read + written), FMA peak %.0f GFLOP/s in "
                "f32\n\n",
                p.num_threads, p.isa.c_str(), limits.copy_gbs, limits.fma_gflops);
  else
    std::printf("%d multiprocessors (%s)\nmeasured limit: copy %.1f GB/s (read + written)\n\n",
                p.multiprocessors, p.isa.c_str(), limits.copy_gbs);
  std::fflush(stdout);
  return limits;
}

} // namespace

int main(int argc, char** argv) {
  kiln::Device device;
  samples::MachineLimits limits;
  try {
    if (argc > 1) device = kiln::Device::parse(argv[1]);
    limits = introduce(device);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  setenv("KILN_SAMPLES_DEVICE", kiln::to_string(device).c_str(), 1);
  setenv("KILN_SAMPLES_LIMITS",
         (std::to_string(limits.copy_gbs) + " " + std::to_string(limits.fma_gflops)).c_str(), 1);

  std::string bin = folder_of(argv[0]);
  setenv("KILN_LIBRARY", (bin + "/../lib/libkiln.so").c_str(), 0);
  int failures = 0;
  for (const char* name : {"01_vector_add", "02_fused_expression", "03_softmax", "04_layernorm", "05_matmul"})
    failures += run({bin + "/" + name}) != 0;
  // In the bundle, which has no sources, the photograph is in share/.
  std::string photograph = bin + "/../share/samples/data/camera.png";
  if (access(photograph.c_str(), R_OK) != 0) photograph = KILN_SAMPLES_DIR "/data/camera.png";
  // The folder of an unpacked bundle may be read-only.
  std::string output = bin;
  if (access(bin.c_str(), W_OK) != 0) {
    output = (std::filesystem::temp_directory_path() / "kiln-demo-XXXXXX").string();
    if (!mkdtemp(output.data())) output = std::filesystem::temp_directory_path().string();
  }
  failures += run({bin + "/06_stencil", photograph, output + "/sharpened.png"}) != 0;
  if (device.is_cpu()) failures += !run_numpy();
  failures += run({bin + "/llama_block"}) != 0;
  if (device.is_cpu()) failures += run({bin + "/llama_block", "--tp", "2"}) != 0;

  if (failures) std::printf("\n%d of these failed\n", failures);
  return failures ? 1 : 0;
}
