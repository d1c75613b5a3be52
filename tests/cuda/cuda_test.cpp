// Selects the fake driver and starts processes for the tests of the CUDA runtime.
#include "cuda_test.h"

#include <kiln/jit/runtime/cuda/memory.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <sys/wait.h>

namespace kiln::test {

namespace {

namespace fs = std::filesystem;

// Sets variables before the first test, when no option has been read. Unless the environment names a driver,
// the program uses the fake driver, its assembler, and a new cache folder.
class Chosen {
public:
  Chosen() {
    setenv("KILN_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 0);
    setenv("KILN_PTXAS", "", 0);
    if (std::getenv("KILN_CACHE_DIR")) return;
    folder_ = fs::temp_directory_path() / ("kiln-cuda-tests-" + std::to_string(getpid()));
    setenv("KILN_CACHE_DIR", folder_.c_str(), 1);
  }
  ~Chosen() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

private:
  fs::path folder_;
};
[[maybe_unused]] const Chosen chosen;

Fake find_fake() {
  const char* library = std::getenv("KILN_CUDA_LIBRARY");
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(std::string("no fake driver: ") + library);
  auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(handle, name));
    if (!function)
      throw std::runtime_error(std::string(library) + " is not the fake driver: it lacks " + name);
  };
  Fake f{};
  find(f.set, "fake_cuda_set");
  find(f.fail, "fake_cuda_fail");
  find(f.hide, "fake_cuda_hide");
  find(f.reset, "fake_cuda_reset");
  find(f.live, "fake_cuda_live");
  find(f.calls, "fake_cuda_calls");
  find(f.launches, "fake_cuda_launches");
  find(f.swallow, "fake_cuda_swallow");
  find(f.execute, "fake_cuda_execute");
  find(f.damaged_guards, "fake_cuda_damaged_guards");
  return f;
}

} // namespace

const Fake& fake() {
  static const Fake f = find_fake();
  return f;
}

FakeLaunch Fake::last_launch() const {
  FakeLaunch launch{};
  launches(&launch, 1);
  return launch;
}

std::map<std::string, long long> alive() {
  for (int device : {0, 1}) // an allocator lives until the process ends, and has a stream
    cuda::DeviceState::get(device).allocator();
  Buffer::trim(); // blocks that earlier tests freed may still be in use
  std::map<std::string, long long> counts;
  for (const char* kind :
       {"modules", "streams", "events", "graphs", "execs", "links", "memory", "pinned", "bytes"})
    counts[kind] = fake().live(kind);
  counts["damaged guards"] = fake().damaged_guards();
  return counts;
}

std::string run_again(const std::string& test, const std::vector<std::string>& variables, int& code) {
  std::string command = "env";
  for (const auto& v : variables)
    command += " '" + v + "'";
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) throw std::runtime_error("no /proc/self/exe");
  command += " '" + std::string(self) + "' '" + test + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk;
  while (std::size_t n = fread(chunk.data(), 1, chunk.size(), pipe))
    output.append(chunk.data(), n);
  int status = pclose(pipe);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& x : values)
    x = static_cast<float>(random() % 100000);
  return values;
}

std::string ptx(const std::string& comment, const std::string& version) {
  return ".version " + version + "\n.target sm_80\n.address_size 64\n// " + comment +
         "\n.visible .entry add_one(.param .u64 p, .param .u64 n) { ret; }\n"
         ".visible .entry idle(.param .u64 x) { ret; }\n";
}

} // namespace kiln::test
