// Pins the threads of a comparison to CPUs.
#pragma once

#include <vector>

namespace benchmarks {

// The caller runs on the first CPU of the process's mask, and the threads of the libraries on the others.
// If threads were not pinned, the system would sometimes wake one on the caller's CPU and let both share it
// for milliseconds while another CPU idles. That makes times on two threads bimodal for every library.
class Placement {
public:
  Placement();
  // Pins the threads that were started since the last call, to CPUs other than the caller's.
  void pin_new_threads();
  // Excludes the threads that exist now from pinning.
  void leave_present_threads();
  static void pin_caller();
  static void unpin_caller();
  static std::vector<int> cpus(); // of the process when it started, independent of later pinning
  static void pin_this_thread(int cpu);

private:
  std::vector<int> known_;
};

} // namespace benchmarks
