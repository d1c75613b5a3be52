// Starts and pins Kiln's own threads.
#include <kiln/jit/base/thread.h>

#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/futex.h>

#include <csignal>
#include <sched.h>

namespace kiln {

bool start_thread(pthread_t& handle, void* (*body)(void*), void* argument, const char* name) {
  // A new thread inherits the signal mask. With all signals blocked, they are delivered to the application's
  // threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool started = pthread_create(&handle, nullptr, body, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (started) pthread_setname_np(handle, name);
  return started;
}

void pin_thread(pthread_t handle, int cpu) {
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  if (!set) return;
  std::size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  pthread_setaffinity_np(handle, bytes, set);
  CPU_FREE(set);
}

void yield_to_wakers() {
  sched_param none{};
  if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none);
}

bool spinning_helps() {
  static const bool several = affinity_cpus().size() > 1;
  return several;
}

} // namespace kiln
