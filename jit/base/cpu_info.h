// Finds how much of the machine's CPUs and caches this process may use. Internal: device.h is the public
// interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// The CPUs of the process's affinity mask, ascending; never empty.
std::vector<int> affinity_cpus();

// CPU time per wall-clock time that the control group grants, or 0 for no limit.
// `root` and `self` stand in for /sys/fs/cgroup and /proc/self/cgroup in tests.
double cgroup_cpu_limit(const std::string& root = "/sys/fs/cgroup",
                        const std::string& self = "/proc/self/cgroup");

// How many threads should share a launch, and whether a quota rather than the mask set the number.
struct ThreadBudget {
  int threads = 1;
  bool limited_by_quota = false;
};
ThreadBudget thread_budget();

} // namespace kiln
