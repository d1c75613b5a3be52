// Compares a burst of multiply-adds alone with one during which the other CPU computes too.
#include "core_sharing.h"

#include "placement.h"

#include <samples/machine_limits.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace benchmarks {
namespace {

// Takes much longer than reading the clock, and much less than the time between interrupts.
double burst() {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    samples::limits::fma_avx2(2000);
  else
#endif
    samples::limits::fma_generic(2000);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double least_of(int bursts) {
  double least = burst();
  for (int i = 1; i < bursts; ++i)
    least = std::min(least, burst());
  return least;
}

// The hardware threads of a CPU's core, as Linux lists them: "0" or "0,4" or "0-1".
std::string siblings(int cpu) {
  std::string text;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list") >>
      text;
  return text;
}

} // namespace

CoreSharing::CoreSharing() {
  const auto cpus = Placement::cpus();
  if (cpus.size() < 2) return;
  if (std::string first = siblings(cpus[0]); !first.empty() && first == siblings(cpus[1])) return;
  alone_ = least_of(200);
  other_ = std::thread([this, cpu = cpus[1]] {
    Placement::pin_this_thread(cpu);
    compute();
  });
}

CoreSharing::~CoreSharing() {
  if (!other_.joinable()) return;
  state_.store(stopped);
  state_.notify_all();
  other_.join();
}

void CoreSharing::compute() {
  for (;;) {
    state_.wait(asleep);
    if (int state = wanted; state_.compare_exchange_strong(state, computing))
      while (state_.load() == computing)
        burst();
    if (state_.load() == stopped) return;
  }
}

bool CoreSharing::now() {
  if (!other_.joinable()) return false;
  constexpr double slower = 1.4; // sharing a core gives 2, and a lower clock frequency less than this
  state_.store(wanted);
  state_.notify_all();
  while (state_.load() == wanted) {
  }
  const double together = least_of(4);
  state_.store(asleep);
  return together > slower * alone_;
}

} // namespace benchmarks
