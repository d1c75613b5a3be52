// Finds the device that the tests' kernels run on.
#include "gpu_test.h"
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/driver.h>

#include <cstdlib>
#include <dlfcn.h>

namespace kiln::test {

bool driver_is_fake() {
  static const bool fake = [] {
    void* library = dlopen(std::getenv("KILN_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    return library && dlsym(library, "fake_cuda_set");
  }();
  return fake;
}

OnGpu::OnGpu() : seed_(fresh_seed()), available_(cuda::available().usable) {
  if (!available_) {
    WARN("skipped: " << cuda::available().reason);
    return;
  }
  if (driver_is_fake()) played_.emplace();
  const char* given = std::getenv("KILN_TEST_DEVICE");
  device_ = given && std::string_view(given) != "cpu" ? Device::parse(given) : Device::cuda(0);
}

} // namespace kiln::test
