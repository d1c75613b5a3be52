// The threads that share the program instances of one launch.
//
//   struct Work { float* x; };
//   Work work{x};
//   ThreadPool::shared().parallel_for(n, [](void* context, std::int64_t begin, std::int64_t end,
//                                           int worker) noexcept {
//     auto* x = static_cast<Work*>(context)->x;
//     for (std::int64_t i = begin; i < end; ++i) x[i] *= 2;
//   }, &work);
//
// The caller takes part, so a pool of n threads starts n - 1 workers, on the first call that can use
// them. Chunks are handed out one by one, so programs of unequal cost balance. An idle worker spins for
// tens of microseconds and then sleeps. Nothing allocates.
//
// Workers are pinned to distinct CPUs of the process's affinity mask, and the caller's CPU is left
// free: a worker that the kernel wakes on the caller's CPU shares it for milliseconds while another idles
// (measured: 256^3 matmuls three times slower). If the caller is found on a worker's CPU later, the two
// trade. Workers are not pinned where a CPU quota, not the mask, limits the pool.
//
// Thread-safe: calls from several threads share the workers, and a call from inside a chunk is one more
// caller; each caller works through its own chunks whether or not a worker comes, so nothing deadlocks.
// In a child after fork() the workers start anew when they are first needed.
#pragma once

#include <cstdint>
#include <memory>

namespace kiln {

// Runs the items from `begin` to `end`. `worker` is from 0 to size() - 1, and no two threads have the
// same one within one parallel_for (concurrent calls do share numbers). Must not throw.
using ParallelFn = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker) noexcept;

enum class Pinning : std::uint8_t { Off, On };

class ThreadPool {
public:
  explicit ThreadPool(int threads, Pinning pinning = Pinning::On);
  ~ThreadPool(); // no call may be in progress
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The pool of the CPU device; its size is Device::cpu().properties().num_threads.
  static ThreadPool& shared();

  // Threads that take part in a call, the caller included.
  int size() const;

  // Calls `fn` on ranges that cover 0 to n once, each at most `grain` long where several threads take
  // part; grain 0 picks one (about 32 chunks a thread). Returns when all have run, and what they wrote
  // is visible to the caller. A range that fits one grain runs inline without waking anyone: give
  // cheap programs a large grain. n is at most 2^62; n <= 0 does nothing.
  void parallel_for(std::int64_t n, ParallelFn fn, void* context, std::int64_t grain = 0) noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace kiln
