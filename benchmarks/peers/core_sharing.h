// Detects whether the host of a virtual machine currently runs its first two CPUs on one physical core.
//
// Two virtual CPUs are threads of the host, which may schedule both on the two hardware threads of one core
// for milliseconds or seconds. Each then computes at half its speed, and a time on two threads becomes that
// on one. The guest sees no stolen time, but it can detect this: multiply-adds in registers slow down while
// the other CPU executes multiply-adds too.
#pragma once

#include <atomic>
#include <thread>

namespace benchmarks {

class CoreSharing {
public:
  // Starts a thread on the second CPU of the process's mask, which sleeps between checks. It starts none, and
  // now() is always false, if there is no second CPU or if the system lists the two as threads of one core.
  CoreSharing();
  ~CoreSharing();
  CoreSharing(const CoreSharing&) = delete;
  CoreSharing& operator=(const CoreSharing&) = delete;

  // Must be called on the first CPU; takes 0.1 ms.
  bool now();
  // The number of measurements that were repeated because the CPUs shared a core.
  int repeated = 0;

private:
  enum State : int { asleep, wanted, computing, stopped };
  void compute();

  std::atomic<int> state_{asleep};
  double alone_ = 0; // the shortest burst, in seconds, while the other CPU slept
  std::thread other_;
};

} // namespace benchmarks
