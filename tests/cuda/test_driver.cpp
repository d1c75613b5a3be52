// Tests opening the driver: absent, too old, incomplete, or failing.
#include "cuda_test.h"

#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {
const std::string library = FAKE_CUDA_LIBRARY;
const std::string instead = ", or use Device::cpu()";

std::string reason() { return cuda::probe(library).reason; }
} // namespace

TEST_CASE("all functions of a usable driver are found") {
  FreshFake fresh;
  cuda::Probe found = cuda::probe(library);
  REQUIRE(found.reason == "");
  REQUIRE(found.driver);
  CHECK(found.driver->version == 12040);
  CHECK(found.driver->device_count == 32);
  CHECK(found.driver->cuMemAlloc);
  CHECK(found.driver->cuLaunchKernelEx);
  CHECK(found.driver->describe(cuda::Result::OutOfMemory) == "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  CHECK(found.driver->describe(static_cast<cuda::Result>(12345)) == "error 12345");
}

TEST_CASE("a driver without cuGetProcAddress is found by its symbols, optional ones absent") {
  cuda::Probe found = cuda::probe(FAKE_CUDA_OLD_LIBRARY);
  REQUIRE(found.reason == "");
  CHECK(found.driver->cuMemAlloc);
  CHECK_FALSE(found.driver->cuLaunchKernelEx);
  CHECK_FALSE(found.driver->cuMemPoolCreate);
}

TEST_CASE("an absent driver") {
  cuda::Probe found = cuda::probe("/nowhere/libcuda.so.1");
  CHECK_FALSE(found.driver);
  CHECK(
      found.reason ==
      "no NVIDIA driver: cannot open /nowhere/libcuda.so.1 (/nowhere/libcuda.so.1: cannot open shared object "
      "file: No such file or directory); install a driver for CUDA 12.0 or newer, or name its library in "
      "KILN_CUDA_LIBRARY, or use Device::cpu()");
}

TEST_CASE("a library that is not a driver") {
  cuda::Probe found = cuda::probe("libc.so.6");
  CHECK(found.reason ==
        "libc.so.6 is not an NVIDIA driver that reports its version; reinstall the driver" + instead);
}

TEST_CASE("the error for a driver that is too old names the versions found and needed") {
  FreshFake fresh;
  fake().set("driver_version", 11080);
  CHECK(reason() == library +
                        " is an NVIDIA driver for CUDA 11.8, and Kiln needs CUDA 12.0; update the driver" +
                        instead);
}

TEST_CASE("a driver that lacks a function") {
  FreshFake fresh;
  fake().hide("cuMemcpyAsync");
  CHECK(reason() == library +
                        " is an NVIDIA driver for CUDA 12.4 that lacks cuMemcpyAsync; reinstall the driver" +
                        instead);
}

TEST_CASE("a driver that lacks an optional function is usable") {
  FreshFake fresh;
  fake().hide("cuLaunchKernelEx");
  cuda::Probe found = cuda::probe(library);
  REQUIRE(found.driver);
  CHECK_FALSE(found.driver->cuLaunchKernelEx);
}

TEST_CASE("the error of a driver that fails in cuInit says why and what to do") {
  struct Case {
    cuda::Result result;
    std::string text;
  };
  const Case cases[] = {
      {cuda::Result::Unknown,
       "CUDA_ERROR_UNKNOWN (unknown error); look at `nvidia-smi` and the system's log"},
      {cuda::Result::NoDevice, "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected); look at "
                               "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES"},
      {cuda::Result::StubLibrary, "CUDA_ERROR_STUB_LIBRARY (CUDA driver is a stub library); this is the "
                                  "toolkit's stub for linking; remove its folder from LD_LIBRARY_PATH"},
      {cuda::Result::SystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported "
                                           "display driver / cuda driver combination); the "
                                           "driver's library and the kernel's module are of different "
                                           "versions; restart the machine or reload the "
                                           "module"},
      {cuda::Result::SystemNotReady,
       "CUDA_ERROR_SYSTEM_NOT_READY (system not yet initialized); the system is not "
       "ready; start nvidia-fabricmanager, then try again"},
      {cuda::Result::CompatNotSupportedOnDevice,
       "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (forward compatibility was attempted on non supported HW); "
       "the "
       "forward compatibility library does not support this GPU; remove it from LD_LIBRARY_PATH"},
  };
  for (const Case& c : cases) {
    FreshFake fresh;
    fake().fail("cuInit", 1, static_cast<int>(c.result));
    CHECK(reason() == library + " cannot be initialised: " + c.text + instead);
  }
}

TEST_CASE("a driver that fails after cuInit, or has no device") {
  FreshFake fresh;
  fake().fail("cuDeviceGetCount", 1, 999);
  CHECK(reason() == library +
                        " cannot count its devices: CUDA_ERROR_UNKNOWN (unknown error); look at `nvidia-smi` "
                        "and the system's log" +
                        instead);
  fake().fail("cuDriverGetVersion", 1, 3);
  CHECK(reason() ==
        library + " is not an NVIDIA driver that reports its version; reinstall the driver" + instead);
}

TEST_CASE("many threads that need the driver at once open it once") {
  FreshFake fresh;
  std::vector<std::thread> threads;
  std::vector<const cuda::Driver*> found(8);
  for (auto& f : found)
    threads.emplace_back([&f] { f = &cuda::driver(); });
  for (auto& t : threads)
    t.join();
  for (auto* f : found)
    CHECK(f == found[0]);
  CHECK(cuda::available());
  CHECK(cuda::available().reason == "");
}

// --- In another process, which has no driver ---------------------------------------------------------------

TEST_CASE("Device::cuda without a driver", "[.absent]") {
  std::string why =
      "no NVIDIA driver: cannot open /nowhere/libcuda.so (/nowhere/libcuda.so: cannot open shared "
      "object file: No such file or directory); install a driver for CUDA 12.0 or newer, or name "
      "its library in KILN_CUDA_LIBRARY, or use Device::cpu()";
  std::string reason;
  CHECK(Device::cuda_count(&reason) == 0);
  CHECK(reason == why);
  CHECK(error_of<UserError>([] { Device::cuda(1); }) == KILN_HERE(0) + ": Device::cuda(1): " + why);
  CHECK(error_of<UserError>([] { cuda::driver(); }) == why);
  // The CPU still works.
  std::vector<float> x(10, 1.0f), y(10);
  Stream stream;
  copy(stream, y.data(), x.data(), 40);
  stream.synchronize();
  CHECK(x == y);
  Buffer::trim();
}

TEST_CASE("a program without a driver gets errors and can continue") {
  int code = 0;
  std::string output = run_again("[.absent]", {"KILN_CUDA_LIBRARY=/nowhere/libcuda.so"}, code);
  INFO(output);
  CHECK(code == 0);
  CHECK(output.find("1 test case") != std::string::npos);
}
