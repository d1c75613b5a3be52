// Defines ThreadPool, whose threads execute the programs of a launch in parallel.
//
//   struct Work { float* x; };
//   Work work{x};
//   ThreadPool::shared().parallel_for(n, [](void* context, std::int64_t begin, std::int64_t end,
//                                           int worker) noexcept {
//     auto* x = static_cast<Work*>(context)->x;
//     for (std::int64_t i = begin; i < end; ++i) x[i] *= 2;
//   }, &work);
//
// The calling thread takes part, so a pool of n threads has n - 1 workers, which the first call that can use
// them starts. Chunks are assigned one at a time, which balances programs of unequal cost. An idle worker
// spins for tens of microseconds and then sleeps. Calls do not allocate.
//
// Workers are pinned to distinct CPUs of the process's affinity mask, and one CPU is left for the caller.
// Without pinning, a worker that the operating system wakes on the caller's CPU shares it for milliseconds
// while another CPU is idle (measured: 256x256x256 products take three times as long). If the caller later
// runs on a worker's CPU, that worker moves to the free CPU. Workers are not pinned if the size of the pool
// is limited by a CPU quota rather than by the affinity mask.
//
// Thread-safe: concurrent calls share the workers, and a chunk may itself call parallel_for. Each caller
// works through its own chunks even if no worker joins, so calls cannot deadlock. In a child after fork(),
// workers are started again when they are first needed.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>
#include <memory>

KILN_API_BEGIN
namespace kiln {

// Runs the items from `begin` to `end` (exclusive). `worker` is from 0 to size() - 1, and differs between the
// threads of one parallel_for (not between concurrent calls). Must not throw.
using ParallelFn = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker) noexcept;

// Whether workers are pinned to CPUs, as described above.
enum class Pinning : std::uint8_t { Off, On };

class ThreadPool {
public:
  // Makes a pool of `threads` threads, but at least one, the caller included.
  explicit ThreadPool(int threads, Pinning pinning = Pinning::On);
  ~ThreadPool(); // no call may be in progress
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns the pool of the CPU device, which has Device::cpu().properties().num_threads threads.
  static ThreadPool& shared();
  // Returns the pool of the innermost PoolScope of the calling thread, or else shared().
  static ThreadPool& current();

  // The number of threads that take part in a call, the caller included.
  int size() const;

  // Calls `fn` on ranges that together cover 0 to n once, each of at most `grain` items if several threads
  // take part. A grain of 0 gives about 32 chunks per thread. Returns when all ranges have run; the caller
  // sees everything that they wrote. If n is at most `grain`, `fn` runs on the calling thread, so give cheap
  // programs a large grain. n must be at most 2^62; if n <= 0, nothing runs.
  void parallel_for(std::int64_t n, ParallelFn fn, void* context, std::int64_t grain = 0) noexcept;

private:
  struct KILN_INTERNAL State;
  std::unique_ptr<State> state_;
};

// While it exists, the calling thread computes with another pool: streams on the CPU that it makes run their
// kernels there, and Device::cpu().properties().num_threads, which configs depend on, is the size of that pool.
// For programs that divide the CPUs, such as ranks in one process. The pool must outlive those streams.
class PoolScope {
public:
  explicit PoolScope(ThreadPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

private:
  ThreadPool* outer_;
};

namespace detail {
// The pool of the innermost scope; null outside of scopes.
ThreadPool* scoped_pool();
// Makes a pool the current one, or none if it is null, and returns the one before.
ThreadPool* exchange_scoped_pool(ThreadPool* pool);
} // namespace detail

} // namespace kiln
KILN_API_END
