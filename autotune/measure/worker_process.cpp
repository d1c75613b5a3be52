// Implements starting, reading from and killing worker processes.
#include <kiln/autotune/measure/worker_process.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/errno_text.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace kiln::tune {

namespace {

constexpr int worker_socket = 3;
constexpr std::size_t kept_errors = 4096;

[[noreturn]] void cannot_start(const char* call, int error) {
  throw TargetError(std::string("a measuring process cannot be started: ") + call + ": " + errno_text(error));
}

class Descriptors { // closes descriptors that were not taken
public:
  Descriptors() = default;
  ~Descriptors() {
    for (int fd : fds)
      if (fd >= 0) close(fd);
  }
  int take(int i) { return std::exchange(fds[i], -1); }
  int fds[2] = {-1, -1};
};

// Moves a descriptor above the numbers that the worker's own get, in case this program has closed its
// standard ones.
int moved_up(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  if (moved < 0) cannot_start("fcntl", errno);
  close(fd);
  return moved;
}

std::vector<std::string> merged(const std::vector<std::string>& changes) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool replaced = std::any_of(changes.begin(), changes.end(),
                                      [&](const std::string& c) { return c.starts_with(name); });
    if (!replaced) all.emplace_back(text);
  }
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> p;
  for (std::string& text : texts)
    p.push_back(text.data());
  p.push_back(nullptr);
  return p;
}

// Returns the running child processes of a process, or none if the system does not list them.
std::vector<pid_t> children_of(pid_t id) {
  std::vector<pid_t> children;
  std::error_code ignored;
  const std::string tasks = "/proc/" + std::to_string(id) + "/task";
  for (std::filesystem::directory_iterator task(tasks, ignored), end; !ignored && task != end;
       task.increment(ignored)) {
    std::ifstream in(task->path() / "children");
    for (pid_t child; in >> child;)
      children.push_back(child);
  }
  return children;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\n\r ");
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

} // namespace

WorkerProcess::WorkerProcess(const std::string& command, const std::string& folder,
                             const std::vector<std::string>& environment) {
  Descriptors sockets, pipes;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.fds) != 0) cannot_start("socketpair", errno);
  if (pipe2(pipes.fds, O_CLOEXEC | O_NONBLOCK) != 0) cannot_start("pipe2", errno);
  sockets.fds[1] = moved_up(sockets.fds[1]);
  pipes.fds[1] = moved_up(pipes.fds[1]);
  fcntl(pipes.fds[1], F_SETFL, 0); // writes of the worker block
  std::vector<std::string> arguments{command, "tune-worker", std::to_string(getpid()), folder};
  std::vector<std::string> variables = merged(environment);
  std::vector<char*> argv = pointers(arguments), envp = pointers(variables);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes.fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes.fds[1], 2);
  posix_spawn_file_actions_adddup2(&actions, sockets.fds[1], worker_socket);
  posix_spawn_file_actions_addclosefrom_np(&actions, worker_socket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The worker gets its own group, so that it can be killed with its children, and so that Ctrl-C in a
  // terminal reaches only this process.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int error = posix_spawn(&id_, command.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) cannot_start(command.c_str(), error);
  socket_ = sockets.take(0);
  pipe_ = pipes.take(0);
}

WorkerProcess::~WorkerProcess() {
  kill();
  close(socket_);
  close(pipe_);
}

bool WorkerProcess::send(const Message& message) {
  constexpr double patience = 10; // an idle worker reads at once
  return send_message(socket_, message, patience);
}

void WorkerProcess::read_errors() {
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(pipe_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    errors_.append(buffer, static_cast<std::size_t>(count));
    if (errors_.size() > 2 * kept_errors) errors_.erase(0, errors_.size() - kept_errors);
  }
}

bool WorkerProcess::pump() {
  read_errors();
  char buffer[65536];
  for (;;) {
    const ssize_t count = recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) {
      reader_.add(buffer, static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return !reader_.broken();
    return false;
  }
}

void WorkerProcess::reap() {
  if (reaped_) return;
  int status = 0;
  while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  read_errors();
  if (WIFSIGNALED(status)) signal_ = WTERMSIG(status);
  if (WIFEXITED(status)) exit_code_ = WEXITSTATUS(status);
}

void WorkerProcess::kill() {
  if (reaped_) return;
  const std::vector<pid_t> children = children_of(id_);
  // The group exists once the process has created it; before that there is only the process.
  ::kill(-id_, SIGKILL);
  ::kill(id_, SIGKILL);
  for (pid_t child : children) // such as an assembler, which has its own group
    if (::kill(-child, SIGKILL) != 0) ::kill(child, SIGKILL);
  reap();
}

std::string WorkerProcess::ending() {
  // The process has closed its socket, so it is about to end or hangs while ending.
  for (int i = 0; i < 100 && !reaped_; ++i) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == id_) {
      ::kill(-id_, SIGKILL); // kills what it left behind
      reap();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  kill();
  std::string text;
  if (signal_) {
    std::string what = sigdescr_np(signal_) ? sigdescr_np(signal_) : "unknown";
    std::transform(what.begin(), what.end(), what.begin(), [](unsigned char c) { return std::tolower(c); });
    text = "killed by signal " + std::to_string(signal_) + " (" + what + ")";
  } else {
    text = "ended with exit code " + std::to_string(exit_code_);
  }
  const std::string words = last_line(errors_);
  return words.empty() ? text : text + ": " + words;
}

} // namespace kiln::tune
