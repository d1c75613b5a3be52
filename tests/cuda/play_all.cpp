// The tests of ops and outside kernels on the fake driver's first device, their kernels interpreted.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "played.h"

#include <optional>

namespace {

[[maybe_unused]] const bool chosen = [] {
  setenv("KILN_TEST_DEVICE", "cuda:0", 1);
  return true;
}();

std::optional<kiln::test::Played> played;

struct PlayAll : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override { played.emplace(); }
  void testRunEnded(const Catch::TestRunStats&) override { played.reset(); }
};
CATCH_REGISTER_LISTENER(PlayAll)

} // namespace
