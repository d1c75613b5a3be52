// Implements starting, reading from and killing worker processes.
#include <kiln/autotune/measure/worker_process.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/errno_text.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace kiln::tune {

namespace {

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

// Copies a descriptor to a number from `least` on. These are above the numbers that the worker's own get.
int copied_up(int fd, int least) {
  const int copied = fcntl(fd, F_DUPFD_CLOEXEC, least);
  if (copied < 0) cannot_start("fcntl", errno);
  return copied;
}
// Moves it there, in case this program has closed its standard descriptors.
int moved_up(int fd, int least) {
  const int moved = copied_up(fd, least);
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

// Returns the running child processes of a process and theirs, or none if the system does not list them.
std::vector<pid_t> descendants_of(pid_t id) {
  std::vector<pid_t> all;
  std::error_code ignored;
  const std::string tasks = "/proc/" + std::to_string(id) + "/task";
  for (std::filesystem::directory_iterator task(tasks, ignored), end; !ignored && task != end;
       task.increment(ignored)) {
    std::ifstream in(task->path() / "children");
    for (pid_t child; in >> child;) {
      all.push_back(child);
      const std::vector<pid_t> theirs = descendants_of(child);
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
  }
  return all;
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
                             const std::vector<std::string>& environment, const std::vector<int>& given) {
  Descriptors sockets, pipes, status;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.fds) != 0) cannot_start("socketpair", errno);
  if (pipe2(pipes.fds, O_CLOEXEC | O_NONBLOCK) != 0) cannot_start("pipe2", errno);
  if (pipe2(status.fds, O_CLOEXEC | O_NONBLOCK) != 0) cannot_start("pipe2", errno);
  const int end = first_given_descriptor + static_cast<int>(given.size());
  for (Descriptors* pair : {&sockets, &pipes, &status})
    pair->fds[1] = moved_up(pair->fds[1], end);
  fcntl(pipes.fds[1], F_SETFL, 0); // writes of the worker block
  std::vector<std::unique_ptr<Descriptors>> copies;
  for (int fd : given) {
    copies.push_back(std::make_unique<Descriptors>());
    copies.back()->fds[0] = copied_up(fd, end);
  }
  std::vector<std::string> arguments{command, "tune-worker", std::to_string(getpid()), folder};
  std::vector<std::string> variables = merged(environment);
  std::vector<char*> argv = pointers(arguments), envp = pointers(variables);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes.fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes.fds[1], 2);
  posix_spawn_file_actions_adddup2(&actions, sockets.fds[1], worker_socket);
  posix_spawn_file_actions_adddup2(&actions, status.fds[1], worker_status);
  for (std::size_t i = 0; i < given.size(); ++i)
    posix_spawn_file_actions_adddup2(&actions, copies[i]->fds[0],
                                     first_given_descriptor + static_cast<int>(i));
  posix_spawn_file_actions_addclosefrom_np(&actions, end);
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
  pid_t id = -1;
  const int error = posix_spawn(&id, command.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) cannot_start(command.c_str(), error);
  child_ = std::make_unique<Child>(id);
  status_ = status.take(0);
  socket_ = sockets.take(0);
  pipe_ = pipes.take(0);
}

WorkerProcess::~WorkerProcess() {
  kill();
  close(socket_);
  close(pipe_);
  close(status_);
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

// Takes the status that the supervisor has reported or, if the supervisor was killed too, its own.
void WorkerProcess::take_status() {
  const std::optional<int> own = child_->wait();
  int status = own.value_or(SIGKILL);
  int reported = 0;
  if (read(status_, &reported, sizeof reported) == static_cast<ssize_t>(sizeof reported)) status = reported;
  ended_ = true;
  read_errors();
  if (WIFSIGNALED(status)) signal_ = WTERMSIG(status);
  if (WIFEXITED(status)) exit_code_ = WEXITSTATUS(status);
}

void WorkerProcess::kill() {
  if (ended_) return;
  const std::vector<pid_t> descendants = descendants_of(id());
  child_->kill_group();
  for (pid_t process : descendants) // such as an assembler, which has its own group
    if (::kill(-process, SIGKILL) != 0) ::kill(process, SIGKILL);
  take_status();
  // The worker ends a moment after its supervisor, and then closes its end of the socket.
  constexpr int patience = 2000; // milliseconds
  pollfd closed{socket_, POLLRDHUP, 0};
  poll(&closed, 1, patience);
}

std::string WorkerProcess::ending() {
  // The process has closed its socket, so it is about to end or hangs while ending.
  constexpr int patience = 2000; // milliseconds
  pollfd reported{status_, POLLIN, 0};
  if (!ended_ && poll(&reported, 1, patience) > 0) take_status();
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
