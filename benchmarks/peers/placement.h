// Which CPUs the threads of a comparison run on.
#pragma once

#include <vector>

namespace benchmarks {

// The caller runs on the first CPU of the process's mask, others where they are told.
// An unpinned thread that the system wakes on the caller's CPU shares it for milliseconds while another CPU
// idles, which makes two-threaded numbers bimodal; it happens to every library.
class Placement {
public:
  Placement();
  // Pins the threads that were started since the last call to CPUs of their own, the caller's left out.
  void pin_new_threads();
  // Counts the threads that are there as not ours to pin.
  void leave_present_threads();
  static void pin_caller();
  static void unpin_caller();
  static std::vector<int> cpus(); // of the process, whoever has pinned what since
  static void pin_this_thread(int cpu);

private:
  std::vector<int> known_;
};

} // namespace benchmarks
