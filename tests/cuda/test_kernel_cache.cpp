// Tests which cubins of the kernel cache are found by which machine. Each step is a separate process.
#include "cuda_test.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

KILN_DIM(BN);

class CacheFolder {
public:
  CacheFolder() { fs::remove_all(path); }
  ~CacheFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path = fs::temp_directory_path() / ("kiln-cubins-" + std::to_string(getpid()));
  std::string variable() const { return "KILN_CACHE_DIR=" + path.string(); }
};

// The ptxas of this machine, which this program and its children use only on request. Empty if there is
// none.
std::string find_ptxas() {
  const char* path = std::getenv("PATH");
  std::string folders = std::string(path ? path : "") + ":/usr/local/cuda/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    std::size_t end = std::min(folders.find(':', at), folders.size());
    std::string candidate = folders.substr(at, end - at) + "/ptxas";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

std::string number(const std::string& output, const std::string& key) {
  auto at = output.find(key + "=");
  if (at == std::string::npos) return "none";
  at += key.size() + 1;
  return output.substr(at, output.find_first_of(" \n", at) - at);
}

const auto halve = kernel("halve", [](View<float, 1> x, Scalar<bool> really, Scalar<std::int16_t> times) {
  auto [i] = program_tile(x, BN);
  x.tile(i).store(where(really, x.tile(i).load() / cast<float>(times), 0.0f));
});

// The result of one process: what it compiled, what it found, and how often the driver assembled.
struct Step {
  std::string compiled, found, linked, output;
};
Step step(const CacheFolder& folder, std::vector<std::string> variables,
          const std::string& test = "[.one_launch]") {
  variables.push_back(folder.variable());
  int code = 0;
  Step s;
  s.output = run_again(test, variables, code);
  INFO(s.output);
  CHECK(code == 0);
  s.compiled = number(s.output, "compiled"), s.found = number(s.output, "found");
  s.linked = number(s.output, "linked");
  return s;
}

} // namespace

TEST_CASE("one launch, and what it compiled", "[.one_launch]") {
  Device device = Device::cuda(0);
  Stream stream(device);
  auto x = Tensor<float, 1>::zeros(device, {100});
  halve.launch(stream, {BN = 64}, x, true, std::int16_t{2});
  stream.synchronize();
  FakeLaunch l = fake().last_launch();
  CHECK(l.kernel == std::string("halve"));
  CHECK(l.argument_count == 7); // pointer, extent, stride, two scalars, the grid's extent, the overlap
  CHECK(l.arguments[0] == reinterpret_cast<std::uintptr_t>(x.data()));
  CHECK(l.arguments[1] == 100);
  CHECK(l.arguments[2] == 1);
  CHECK(l.arguments[3] == 1); // one byte, as the image declares
  CHECK(l.arguments[4] == 2);
  CHECK(l.arguments[5] == 2);
  CHECK(l.arguments[6] == 0);
  CHECK(l.block[0] == 128);
  auto statistics = compile_statistics();
  std::printf("compiled=%d found=%d linked=%d\n", static_cast<int>(statistics.compiled),
              static_cast<int>(statistics.disk_hits), static_cast<int>(fake().calls("cuLinkComplete")));
}

TEST_CASE("a second process loads the cubin that the first one's driver made") {
  CacheFolder folder;
  Step first = step(folder, {"KILN_PTXAS="});
  CHECK((first.compiled == "1" && first.found == "0" && first.linked == "1"));
  Step second = step(folder, {"KILN_PTXAS="});
  CHECK((second.compiled == "0" && second.found == "1" && second.linked == "0"));
  // Another driver may assemble in another way, and another GPU needs other code.
  Step newer = step(folder, {"KILN_PTXAS=", "FAKE_CUDA=driver_version=12050;ptx=85"});
  CHECK((newer.compiled == "1" && newer.linked == "1"));
  Step other = step(folder, {"KILN_PTXAS=", "FAKE_CUDA=sm=86"});
  CHECK((other.compiled == "1" && other.linked == "1"));
  Step debugging = step(folder, {"KILN_PTXAS=", "KILN_DEBUG=1"});
  CHECK((debugging.compiled == "1" && debugging.linked == "1"));
  Step again = step(folder, {"KILN_PTXAS="});
  CHECK((again.compiled == "0" && again.found == "1"));
}

TEST_CASE("cubins from one machine's ptxas are used on a machine without ptxas") {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) {
    WARN("skipped: no ptxas");
    return;
  }
  CacheFolder folder;
  Step first = step(folder, {"KILN_PTXAS=" + ptxas});
  CHECK((first.compiled == "1" && first.linked == "0"));
  Step second = step(folder, {"KILN_PTXAS=" + ptxas});
  CHECK((second.compiled == "0" && second.found == "1" && second.linked == "0"));
  // Any driver loads it, and none needs to assemble.
  Step without = step(folder, {"KILN_PTXAS=", "FAKE_CUDA=driver_version=12050"});
  CHECK((without.compiled == "0" && without.found == "1" && without.linked == "0"));
  // A driver that is too old for the cubin assembles for itself, and its result is found from then on.
  Step old = step(folder, {"KILN_PTXAS=", "FAKE_CUDA=fail=cuModuleLoadDataEx:1:200"});
  CHECK((old.compiled == "1" && old.linked == "1"));
  CHECK(old.output.find("a cached kernel is compiled again: kernel \"halve\" on cuda:0 (sm_90): "
                        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE") != std::string::npos);
  Step still_old = step(folder, {"KILN_PTXAS=", "FAKE_CUDA=fail=cuModuleLoadDataEx:1:200"});
  CHECK((still_old.compiled == "0" && still_old.found == "1" && still_old.linked == "0"));
}

TEST_CASE("if ptxas fails, the driver assembles, with one warning") {
  const std::string ptxas = find_ptxas();
  CacheFolder folder;
  // A ptxas that only reports its version.
  fs::create_directories(folder.path);
  fs::permissions(folder.path, fs::perms::owner_all);
  const fs::path script = folder.path / "ptxas";
  std::ofstream(script)
      << "#!/bin/sh\n[ \"$1\" = --version ] && echo V1.2.3 && exit 0\necho no such target\nexit 1\n";
  fs::permissions(script, fs::perms::owner_all);
  Step broken = step(folder, {"KILN_PTXAS=" + script.string()});
  CHECK((broken.compiled == "1" && broken.linked == "1"));
  CHECK(broken.output.find(
            "ptxas 1.2.3 does not assemble kernels for sm_90a, so the driver assembles them: no such "
            "target") != std::string::npos);
  Step second = step(folder, {"KILN_PTXAS=" + script.string()});
  CHECK((second.compiled == "0" && second.found == "1"));
  if (ptxas.empty()) {
    WARN("skipped in part: no ptxas");
    return;
  }
  // A ptxas whose cubins the driver does not load. The second image that the driver sees is its own.
  CacheFolder other;
  Step refused = step(other, {"KILN_PTXAS=" + ptxas, "FAKE_CUDA=fail=cuModuleLoadDataEx:1:200"});
  CHECK((refused.compiled == "1" && refused.linked == "1"));
  CHECK(refused.output.find("the driver does not load what ptxas") != std::string::npos);
}

TEST_CASE("a ptxas that does not end is killed with its children, and the driver assembles") {
  CacheFolder folder;
  fs::create_directories(folder.path);
  fs::permissions(folder.path, fs::perms::owner_all);
  const fs::path script = folder.path / "ptxas", started = folder.path / "started";
  std::ofstream(script)
      << "#!/bin/sh\n[ \"$1\" = --version ] && echo V1.2.3 && exit 0\nsleep 600 &\necho $! > " +
             started.string() + "\nwait\n";
  fs::permissions(script, fs::perms::owner_all);
  Step hung = step(folder, {"KILN_PTXAS=" + script.string(), "KILN_PTXAS_TIMEOUT=1"});
  CHECK((hung.compiled == "1" && hung.linked == "1"));
  CHECK(hung.output.find("ptxas 1.2.3 does not assemble kernels for sm_90a, so the driver assembles them: " +
                         script.string() +
                         " did not end within 1 s and was killed; KILN_PTXAS_TIMEOUT sets how long it may "
                         "take") != std::string::npos);
  pid_t sleeper = 0;
  std::ifstream(started) >> sleeper;
  REQUIRE(sleeper > 0);
  // Its parent is dead, so the process that adopts it collects it: soon, or never if that process does not.
  auto runs = [&] {
    std::ifstream stat("/proc/" + std::to_string(sleeper) + "/stat");
    std::string number, name, state;
    return (stat >> number >> name >> state) && state != "Z";
  };
  for (int i = 0; i < 500 && runs(); ++i)
    usleep(10'000);
  CHECK_FALSE(runs());
}

TEST_CASE("one kernel compiled ahead", "[.one_precompile]") {
  if (const char* arch = std::getenv("TEST_ARCH")) halve.precompile(arch, {BN = 64, num_stages = 2});
}

TEST_CASE("a launch finds kernels that were compiled ahead without a GPU") {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) {
    WARN("skipped: no ptxas");
    return;
  }
  CacheFolder folder;
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"})
    step(folder, {"KILN_PTXAS=" + ptxas, "KILN_CUDA_LIBRARY=none.so", std::string("TEST_ARCH=") + arch},
         "[.one_precompile]");
  for (const char* device : {"sm=80", "sm=86", "sm=89", "sm=90", "sm=100"}) {
    INFO(device);
    Step there =
        step(folder, {"KILN_PTXAS=", "KILN_COMPILE_POLICY=forbid", std::string("FAKE_CUDA=") + device});
    CHECK((there.compiled == "0" && there.found == "1" && there.linked == "0"));
  }
  Step here = step(folder, {"KILN_PTXAS=" + ptxas, "KILN_COMPILE_POLICY=forbid"});
  CHECK((here.compiled == "0" && here.found == "1"));
}

TEST_CASE("compiling ahead needs ptxas, a folder, and a known architecture") {
  const std::string made = KILN_HERE(1);
  const auto k = kernel("ahead", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(1.0f);
  });
  // This program has no ptxas.
  CHECK(error_of<UserError>([&] { k.precompile("sm_90a", {BN = 64}); }) ==
        made + ": kernel ahead: compiling for a GPU that is not here needs ptxas: there is no ptxas here; "
               "install the CUDA toolkit, or name one with KILN_PTXAS");
  CHECK(
      error_of<UserError>([&] { k.precompile("sm_90a", {BN = 0}); }).starts_with(made + ": kernel ahead: "));
  for (const char* arch : {"sm_90", "sm_100", "sm_80a"})
    CHECK(error_of<UserError>([&] { k.precompile(arch, {BN = 64}); }) ==
          made + ": kernel ahead: Kiln knows the GPU architectures sm_80, sm_90a and sm_100a, not \"" + arch +
              "\"");
}
