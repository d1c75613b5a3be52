// Forks a worker from its supervisor, and waits for its end.
#include <kiln/autotune/measure/supervisor.h>

#include <kiln/autotune/measure/worker_process.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

volatile sig_atomic_t tuner_id = 0;

// The thread of the tuner that started this process has ended. If the whole tuner has ended, so must this
// process; the worker usually notices that first, and removes the tuner's folder.
void on_parent_signal(int) {
  if (getppid() != tuner_id) alarm(3);
}

[[noreturn]] void supervise(pid_t worker) {
  for (int fd : {0, 1, 2, worker_socket}) // so that they are closed when the worker ends
    close(fd);
  closefrom(first_given_descriptor);
  int status = 0;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  [[maybe_unused]] const ssize_t written = write(worker_status, &status, sizeof status);
  kill(0, SIGKILL); // the process group, with what the worker has left behind
  _exit(0);
}

} // namespace

void continue_supervised(int tuner) {
  tuner_id = tuner;
  std::signal(SIGUSR1, on_parent_signal);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() != tuner) return; // the tuner has ended; the worker notices that, and ends too
  const pid_t supervisor = getpid();
  const pid_t worker = fork();
  if (worker < 0) {
    std::perror("kiln: fork");
    _exit(1);
  }
  if (worker > 0) supervise(worker);
  std::signal(SIGUSR1, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  close(worker_status);
}

} // namespace kiln::tune
