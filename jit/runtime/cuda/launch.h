// Launches functions on CUDA streams. Internal: kernels use it (kernel_code.h).
#pragma once

#include <kiln/jit/runtime/cuda/module.h>
#include <kiln/jit/runtime/stream.h>

namespace kiln::cuda {

struct Size3 {
  std::int64_t x = 1, y = 1, z = 1;
};

struct LaunchAttributes {
  Size3 cluster = {};       // blocks of a cluster; 1 x 1 x 1 means no clusters
  bool cooperative = false; // all blocks run at the same time, so that they may wait for each other
};

// Queues `grid` blocks of `block` threads with `shared_bytes` of dynamic shared memory each. `arguments` has
// one pointer to the value of each parameter; the values are copied before the call returns. `site` is the
// user's launch, for errors found now or later.
//
// UserError, with the numbers, for sizes that the device or the function does not support; nothing is
// launched then. TargetError if the driver returns an error or the device has failed before. An empty grid
// launches nothing. With KILN_DEBUG the call waits for the kernel, so that its errors are thrown here.
// Thread-safe.
void launch(Stream& stream, const Function& function, Size3 grid, Size3 block, std::int64_t shared_bytes,
            void** arguments, const LaunchAttributes& attributes, SourceLocation site);

} // namespace kiln::cuda
