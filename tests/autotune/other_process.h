// Runs code in a separate process, for tests of how a process ends.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kiln::test {

// Returns the exit code of a process, or -1 if a signal ended it or it was killed because it ran too long.
inline int exit_code_of(pid_t process, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  for (bool killed = false; waitpid(process, &status, killed ? 0 : WNOHANG) == 0;)
    if (std::chrono::steady_clock::now() > end)
      killed = true, kill(process, SIGKILL);
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Runs a test case of this program, which is hidden by its tag, in another process and returns its exit code.
inline int exit_code_of_test(const std::string& tag, double seconds) {
  const pid_t process = fork();
  if (process == 0) {
    execl("/proc/self/exe", "tests", tag.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  return exit_code_of(process, seconds);
}

} // namespace kiln::test
