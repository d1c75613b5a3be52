// Registers calls of ops as kernels that can be tuned.
#include <kiln/ops/tunable_call.h>

#include <kiln/ops/detail/call_task.h>

namespace kiln::ops {

// The ops have the spaces.
TunableCallRegistration::TunableCallRegistration(const TunableCall& call) {
  detail::TunableOp(call, nullptr);
}

} // namespace kiln::ops
