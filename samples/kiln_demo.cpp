// build/bin/kiln_demo
//
// Runs the samples, each a program of its own, then the real job, and says how close each comes to what this
// machine can do.
#include "machine_limits.h"

#include <string>

#include <spawn.h>
#include <sys/wait.h>

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

} // namespace

int main(int, char** argv) {
  const auto& cpu = kiln::Device::cpu().properties();
  std::printf("Kiln %s on %s, %d threads (%s)\n", kiln::version(), cpu.name.c_str(), cpu.num_threads,
              cpu.isa.c_str());
  samples::MachineLimits limits = samples::measure_limits();
  std::printf("measured limits: copy %.1f GB/s (read + written), FMA peak %.0f GFLOP/s in f32\n\n",
              limits.copy_gbs, limits.fma_gflops);
  std::fflush(stdout);
  setenv("KILN_SAMPLES_LIMITS",
         (std::to_string(limits.copy_gbs) + " " + std::to_string(limits.fma_gflops)).c_str(), 1);

  std::string bin = folder_of(argv[0]);
  setenv("KILN_LIBRARY", (bin + "/../lib/libkiln.so").c_str(), 0);
  int failures = 0;
  for (const char* name : {"01_vector_add", "02_fused_expression", "03_softmax", "04_layernorm", "05_matmul"})
    failures += run({bin + "/" + name}) != 0;
  failures += run({bin + "/06_stencil", KILN_SAMPLES_DIR "/data/camera.png", bin + "/sharpened.png"}) != 0;
  // The system's Python, where apt puts NumPy, if the first one has none.
  std::string numpy = KILN_SAMPLES_DIR "/07_numpy.py";
  bool first_has_it = run({"sh", "-c", "python3 -c 'import numpy' 2>/dev/null"}) == 0;
  int code = run({first_has_it ? "python3" : "/usr/bin/python3", numpy});
  if (code == -1 || code == 127) std::printf("07_numpy: skipped, because there is no python3 here\n");
  failures += code != 0 && code != 77 && code != -1 && code != 127;
  failures += run({bin + "/llama_mlp"}) != 0;

  if (failures) std::printf("\n%d of these went wrong\n", failures);
  return failures ? 1 : 0;
}
