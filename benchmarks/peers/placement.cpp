// Sets the CPU masks of threads of this process.
#include "placement.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sched.h>

namespace benchmarks {
namespace {

const cpu_set_t& process_mask() {
  static const cpu_set_t mask = [] {
    cpu_set_t m;
    CPU_ZERO(&m);
    sched_getaffinity(0, sizeof m, &m);
    return m;
  }();
  return mask;
}

void pin(int thread, int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(thread, sizeof one, &one); // if it fails, times are noisier
}

std::vector<int> threads_of_this_process() {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  return threads;
}

} // namespace

Placement::Placement() {
  process_mask();
  leave_present_threads();
}

void Placement::leave_present_threads() { known_ = threads_of_this_process(); }

void Placement::pin_new_threads() {
  auto all = cpus();
  std::size_t next = 1;
  for (int thread : threads_of_this_process())
    if (std::find(known_.begin(), known_.end(), thread) == known_.end() && all.size() > 1) {
      pin(thread, all[next]);
      next = next + 1 < all.size() ? next + 1 : 1;
    }
  leave_present_threads();
}

void Placement::pin_caller() { pin_this_thread(cpus().front()); }
void Placement::unpin_caller() { sched_setaffinity(0, sizeof(cpu_set_t), &process_mask()); }

std::vector<int> Placement::cpus() {
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &process_mask())) all.push_back(cpu);
  return all;
}

void Placement::pin_this_thread(int cpu) { pin(0, cpu); }

} // namespace benchmarks
