// Whether the host of a virtual machine runs its first two CPUs on one core just now.
//
// Two virtual CPUs are threads of the host, which may run both on the two hardware threads of one core: for
// milliseconds or seconds, seemingly from a wake-up to the next. Each then computes at half its speed, in
// whoever's code, and a number on two threads becomes that on one. The guest is told nothing (no time counts
// as stolen), but it can look: multiply-adds in registers slow down while the other CPU does the same.
#pragma once

#include <atomic>
#include <thread>

namespace benchmarks {

class CoreSharing {
public:
  // Starts a thread on the second CPU of the process's mask, which sleeps between looks. Without such a CPU,
  // and where the system says that the two are threads of one core at all times, there is nothing to see.
  CoreSharing();
  ~CoreSharing();
  CoreSharing(const CoreSharing&) = delete;
  CoreSharing& operator=(const CoreSharing&) = delete;

  // From the first CPU; takes 0.1 ms.
  bool now();
  // Turns that were run again for it.
  int repeated_turns = 0;

private:
  enum State : int { asleep, wanted, computing, stopped };
  void compute();

  std::atomic<int> state_{asleep};
  double alone_ = 0; // the least seconds of a burst while the other CPU slept
  std::thread other_;
};

} // namespace benchmarks
