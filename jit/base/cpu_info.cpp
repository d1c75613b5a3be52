// Reads the affinity mask and the CPU quota of the control group.
#include <kiln/jit/base/cpu_info.h>

#include <kiln/jit/base/options.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace kiln {
namespace {

// Reads a quota of cgroup version 2: "max 100000" or "50000 100000". The functions return 0 if there is no
// limit.
double read_v2(const std::string& path) {
  std::ifstream in(path);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double read_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The lowest limit of a group and all its parents, since each of them applies.
template <class Read> double lowest_limit(const std::string& mount, std::string group, Read read) {
  double lowest = 0;
  for (;;) {
    double limit = read(mount + group);
    if (limit > 0 && (lowest == 0 || limit < lowest)) lowest = limit;
    auto slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return lowest;
    group.resize(slash);
  }
}

} // namespace

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  // The kernel refuses masks that are shorter than its own.
  for (int size = 1024; size <= (1 << 20) && cpus.empty(); size *= 4) {
    cpu_set_t* set = CPU_ALLOC(size);
    if (!set) break;
    std::size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(getpid(), bytes, set) == 0)
      for (int cpu = 0; cpu < size; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
  }
  if (cpus.empty())
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu)
      cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

double cgroup_cpu_limit(const std::string& root, const std::string& self) {
  double lowest = 0;
  auto take = [&](double limit) {
    if (limit > 0 && (lowest == 0 || limit < lowest)) lowest = limit;
  };
  std::ifstream in(self);
  // Lines of "hierarchy:controllers:/group"; version 2 has hierarchy 0 and no controllers.
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      take(lowest_limit(root, group, [](const std::string& f) { return read_v2(f + "/cpu.max"); }));
      continue;
    }
    std::istringstream list(controllers);
    for (std::string c; std::getline(list, c, ',');)
      if (c == "cpu")
        for (const char* mount : {"/cpu", "/cpu,cpuacct"})
          take(lowest_limit(root + mount, group, read_v1));
  }
  return lowest;
}

ThreadBudget thread_budget() {
  if (int asked = options().num_threads) return {asked, false};
  int cpus = static_cast<int>(affinity_cpus().size());
  double limit = cgroup_cpu_limit();
  if (limit <= 0 || limit >= cpus) return {cpus, false};
  return {std::max(1, static_cast<int>(std::ceil(limit))), true};
}

} // namespace kiln
