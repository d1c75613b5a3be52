// Prepares the environment of the processes that measure.
#include "environment.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace benchmarks {

void clear_environment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable; ++variable) {
    std::string_view name(*variable, std::strcspn(*variable, "="));
    for (std::string_view prefix : {"OPENBLAS_", "GOTO_", "BLIS_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_",
                                    "ONEDNN_", "ATEN_", "TORCH_"})
      if (name.starts_with(prefix)) names.emplace_back(name);
  }
  for (const std::string& name : names)
    unsetenv(name.c_str());
}

void set_threads(int threads) {
  for (const char* name : {"KILN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"})
    setenv(name, std::to_string(threads).c_str(), 1);
}

void find_python() {
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  auto python = program.parent_path().parent_path() / "pytorch" / "bin" / "python";
  if (!error && std::filesystem::exists(python, error)) setenv("KILN_PYTHON", python.c_str(), 0);
}

} // namespace benchmarks
