// Runs the kernels of a test on the GPU of this machine, or with the fake driver in the interpreter.
//
//   TEST_CASE("...", "[gpu]") {
//     OnGpu gpu;
//     if (!gpu) return;                        // a warning said why
//     k.launch(gpu.stream, ...);
//
// `cuda_tests "[gpu]"` with KILN_CUDA_LIBRARY=libcuda.so.1 runs them on a GPU: the one that KILN_TEST_DEVICE
// names, or the first one.
#pragma once

#include "played.h"

#include <on_device.h>

#include <optional>

namespace kiln::test {

class OnGpu {
public:
  OnGpu();
  explicit operator bool() const { return available_; }
  Device device() const { return *device_; }
  bool is_fake() const { return played_.has_value(); }
  // The seed of the test's data: KILN_TEST_SEED, or a new one each time. Tests print it on failure.
  std::uint64_t seed() const { return seed_; }

private:
  std::uint64_t seed_;
  bool available_;
  std::optional<Played> played_;
  std::optional<Device> device_;
};

// Whether KILN_CUDA_LIBRARY names the fake driver.
bool driver_is_fake();

} // namespace kiln::test
