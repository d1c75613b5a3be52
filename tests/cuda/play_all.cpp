// Makes the tests of ops and the other tests with kernels use a CUDA device: the fake driver with interpreted
// kernels or, with KILN_CUDA_LIBRARY=libcuda.so.1, the GPU of this machine.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "gpu_test.h"

#include <optional>

namespace {

[[maybe_unused]] const bool chosen = [] {
  setenv("KILN_TEST_DEVICE", "cuda:0", 0);
  return true;
}();

std::optional<kiln::test::Played> played;

struct PlayAll : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    if (kiln::test::driver_is_fake()) played.emplace();
  }
  void testRunEnded(const Catch::TestRunStats&) override { played.reset(); }
};
CATCH_REGISTER_LISTENER(PlayAll)

} // namespace
