// Tests modules from PTX and cubins, and the errors if the driver rejects them.
#include "cuda_test.h"

#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/cuda/ptx_version.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

// Sets KILN_KEEP_DIR to a folder of the test.
class KeepFolder {
public:
  KeepFolder() : scoped_(with(path)) {}
  ~KeepFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path = fs::temp_directory_path() / ("kiln-cuda-" + std::to_string(getpid()));

private:
  static Options with(const fs::path& path) {
    Options o = options();
    o.keep_dir = path.string();
    return o;
  }
  ScopedOptions scoped_;
};

std::string read(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

cuda::DeviceState& gpu() { return cuda::DeviceState::get(0); }

} // namespace

TEST_CASE("a module gives its functions and the assembler's facts about them") {
  FreshFake fresh;
  auto before = alive();
  {
    auto module = cuda::Module::load(gpu(), ptx("regs=64 maxthreads=512 shared=1024 local=16"), "add");
    cuda::Function f = module->function("add_one");
    CHECK(f.name() == std::string("add_one"));
    CHECK(f.info().registers == 64);
    CHECK(f.info().max_threads_per_block == 512);
    CHECK(f.info().static_shared_bytes == 1024);
    CHECK(f.info().local_bytes == 16);
    CHECK(&f.device() == &gpu());
    CHECK(f.blocks_per_multiprocessor(128, 0) == 16);
    module.reset(); // the function keeps the module alive
    CHECK(fake().live("modules") == before["modules"] + 1);
    CHECK(f.blocks_per_multiprocessor(1024, 0) == 2);
  }
  CHECK(alive() == before);
}

TEST_CASE("a missing function is a target error") {
  FreshFake fresh;
  auto module = cuda::Module::load(gpu(), ptx(), "add");
  CHECK(error_of<TargetError>([&] { module->function("add_two"); }) ==
        "cuda:0: the module of kernel \"add\" has no function add_two");
}

TEST_CASE("PTX becomes a cubin, which loads") {
  FreshFake fresh;
  auto before = alive();
  std::string cubin = cuda::assemble(gpu(), ptx("regs=40"), "add");
  CHECK(cubin.starts_with("\x7f"
                          "ELF"));
  CHECK(cuda::Module::load(gpu(), cubin, "add")->function("idle").info().registers == 40);
  CHECK(alive() == before);
}

TEST_CASE("PTX that does not assemble: the driver's log is in the error, and a repro folder is saved") {
  FreshFake fresh;
  KeepFolder keep;
  auto before = alive();
  std::string text = ptx("SYNTAX ERROR");
  std::string folder = (keep.path / "repro-add").string();
  std::string log = "ptxas application ptx input, line 4; error   : syntax error near 'SYNTAX'";
  std::string why = "CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed); the driver's log:\n" + log +
                    "\nthe PTX is saved in " + folder;
  CHECK(error_of<TargetError>([&] { cuda::Module::load(gpu(), text, "add"); }) ==
        "kernel \"add\" on cuda:0 (sm_90): cuModuleLoadDataEx: " + why);
  CHECK(read(fs::path(folder) / "kernel.ptx") == text);
  CHECK(read(fs::path(folder) / "log.txt") ==
        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)\n"
        "device: Fake GPU 0, sm_90, driver for CUDA 12.4\n"
        "try: ptxas -v kernel.ptx -o kernel.cubin with --gpu-name as .target says\n"
        "errors:\n" +
            log + "\ninformation:\n\n");
  // The next repro of this name gets another folder.
  CHECK(error_of<TargetError>([&] { cuda::assemble(gpu(), text, "add"); }) ==
        "kernel \"add\" on cuda:0 (sm_90): cuLinkComplete: " + why + "-1");
  CHECK(alive() == before);
}

TEST_CASE("a repro folder that cannot be created does not hide the error") {
  FreshFake fresh;
  Options o = options();
  o.keep_dir = "/proc/kiln";
  ScopedOptions scoped(o);
  CHECK(error_of<TargetError>([&] {
          cuda::Module::load(gpu(),
                             "\x7f"
                             "ELF of another kind",
                             "a b/c");
        }) == "kernel \"a b/c\" on cuda:0 (sm_90): cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (device "
              "kernel image is "
              "invalid); the driver's log is empty; the cubin is not saved: cannot make a folder in "
              "/proc/kiln (No such "
              "file or directory), check KILN_KEEP_DIR");
}

TEST_CASE("a cubin for another GPU is a target error") {
  FreshFake fresh;
  KeepFolder keep;
  CHECK(
      error_of<TargetError>([&] {
        cuda::Module::load(gpu(),
                           "\x7f"
                           "ELFFAKE sm_100a entry=f:1",
                           "f");
      }) ==
      "kernel \"f\" on cuda:0 (sm_90): cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is "
      "available for execution on the device); the driver's log is empty; the cubin is saved in " +
          (keep.path / "repro-f").string());
}

TEST_CASE("PTX newer than the driver is a user error with both versions") {
  FreshFake fresh;
  auto refused = [](const char* version) {
    return error_of<UserError>([&] { cuda::Module::load(gpu(), ptx("", version), "add"); });
  };
  std::string start = "kernel \"add\" on cuda:0: its PTX is of version ";
  CHECK(refused("8.7") ==
        start + "8.7, and the NVIDIA driver (CUDA 12.4) reads PTX up to 8.4; update the driver to "
                "one for CUDA 12.8 or newer");
  CHECK(refused("12.3") ==
        start + "12.3, and the NVIDIA driver (CUDA 12.4) reads PTX up to 8.4; update the driver");
  CHECK(error_of<UserError>([&] { cuda::assemble(gpu(), ptx("", "9.0"), "add"); }) ==
        start + "9.0, and the NVIDIA driver (CUDA 12.4) reads PTX up to 8.4; update the driver to one for "
                "CUDA 13.0 "
                "or newer");
  CHECK(refused("8.4") == "no error");
  // Here the driver itself reports the error.
  fake().set("ptx", 83);
  CHECK(refused("8.4") ==
        start + "8.4, which the NVIDIA driver (CUDA 12.4) does not read; update the driver");
}

TEST_CASE("which PTX versions a driver accepts") {
  CHECK(cuda::newest_ptx_of_driver(12000) == 80);
  CHECK(cuda::newest_ptx_of_driver(12060) == 85);
  CHECK(cuda::newest_ptx_of_driver(13000) == 90);
  CHECK(cuda::newest_ptx_of_driver(99000) == 0);
  CHECK(cuda::oldest_driver_for_ptx(78) == 12000);
  CHECK(cuda::oldest_driver_for_ptx(83) == 12030);
  CHECK(cuda::oldest_driver_for_ptx(86) == 12070);
  CHECK(cuda::oldest_driver_for_ptx(999) == 0);
  CHECK(cuda::ptx_version_of("//\n// Generated by LLVM\n\n.version 8.3\n.target sm_90a\n") == 83);
  CHECK(cuda::ptx_version_of("  .version\t7.8") == 78);
  CHECK(cuda::ptx_version_of(".version 10") == 0);
  CHECK(cuda::ptx_version_of(".version x.y") == 0);
  CHECK(cuda::ptx_version_of("no version") == 0);
  CHECK(cuda::ptx_version_of("") == 0);
  CHECK(cuda::ptx_version_text(83) == "8.3");
}
