// Defines CpuSlice, the CPUs of one of the ranks that are threads of this process.
#pragma once

#include <kiln/jit/runtime/cpu/thread_pool.h>

namespace kiln::collectives {

// While it exists, the calling thread, and those that it starts, are bound to the CPUs of a rank, and kernels
// on streams that it makes run on a thread pool of that size.
class CpuSlice {
public:
  CpuSlice(int rank, int ranks);
  // Lets the library find out how many CPUs the process has; a thread that is bound would find its own.
  static void prepare();

private:
  ThreadPool pool_;
  PoolScope scope_;
};

} // namespace kiln::collectives
