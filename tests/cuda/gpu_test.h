// Tests whose kernels run: on the machine's GPU, or on the fake driver by the interpreter.
//
//   TEST_CASE("...", "[gpu]") {
//     OnGpu gpu;
//     if (!gpu) return;                        // said why
//     k.launch(gpu.stream, ...);
//
// `cuda_tests "[gpu]"` with KILN_CUDA_LIBRARY=libcuda.so.1 runs them on a GPU, that of KILN_TEST_DEVICE or
// the first one.
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
  // The seed of the test's data, printed when it fails: KILN_TEST_SEED, or another each time.
  std::uint64_t seed() const { return seed_; }

private:
  std::uint64_t seed_;
  bool available_;
  std::optional<Played> played_;
  std::optional<Device> device_;
};

// Whether KILN_CUDA_LIBRARY names the fake.
bool driver_is_fake();

} // namespace kiln::test
