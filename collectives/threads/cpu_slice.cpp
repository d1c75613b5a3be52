// Divides the CPUs of the process among its ranks.
#include <kiln/collectives/threads/cpu_slice.h>

#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/runtime/device.h>

#include <algorithm>
#include <pthread.h>
#include <sched.h>
#include <vector>

namespace kiln::collectives {
namespace {

const std::vector<int>& cpus_of_process() {
  static const auto* cpus = new std::vector<int>(affinity_cpus());
  return *cpus;
}

struct Share {
  int begin, end;
  int count() const { return end - begin; }
};
Share share_of(int count, int rank, int ranks) { return {count * rank / ranks, count * (rank + 1) / ranks}; }

// The number of threads of a rank's pool. Binds the calling thread to its CPUs, if every rank has some and no
// quota limits the process.
int bind(int rank, int ranks) {
  const ThreadBudget budget = thread_budget();
  const std::vector<int>& cpus = cpus_of_process();
  const Share threads = share_of(budget.threads, rank, ranks),
              own = share_of(static_cast<int>(cpus.size()), rank, ranks);
  if (static_cast<std::size_t>(ranks) <= cpus.size() && !budget.limited_by_quota) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = own.begin; i < own.end; ++i)
      CPU_SET(static_cast<unsigned>(cpus[static_cast<std::size_t>(i)]), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); // a refusal costs speed only
  }
  return std::max(1, std::min(threads.count(), std::max(own.count(), 1)));
}

} // namespace

CpuSlice::CpuSlice(int rank, int ranks)
    : pool_(bind(rank, ranks), thread_budget().limited_by_quota ? Pinning::Off : Pinning::On), scope_(pool_) {
}

void CpuSlice::prepare() {
  cpus_of_process();
  ThreadPool::shared();
}

} // namespace kiln::collectives
