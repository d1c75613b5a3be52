// Waits for a child process through a descriptor, which never refers to another process.
#include <kiln/jit/base/child.h>

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln {

namespace {

std::optional<int> status_of(const siginfo_t& info) {
  if (info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xFF) << 8;
  return info.si_status & 0x7F;
}

} // namespace

Child::Child(pid_t id) : id_(id), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, id, 0))) {
  gone_ = descriptor_ < 0 && errno == ESRCH;
}

Child::~Child() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Child::has_ended() const noexcept {
  if (gone_ || descriptor_ < 0) return gone_;
  pollfd ended{descriptor_, POLLIN, 0};
  return poll(&ended, 1, 0) > 0;
}

void Child::kill_group() const noexcept {
  if (has_ended()) return;
  // The group exists once the process has created it; before that there is only the process.
  ::kill(-id_, SIGKILL);
  ::kill(id_, SIGKILL);
}

std::optional<int> Child::wait() noexcept {
  if (gone_) return std::nullopt;
  gone_ = true;
  siginfo_t info{};
  const bool by_descriptor = descriptor_ >= 0;
  const idtype_t type = by_descriptor ? static_cast<idtype_t>(P_PIDFD) : P_PID;
  const auto which = static_cast<id_t>(by_descriptor ? descriptor_ : id_);
  while (waitid(type, which, &info, WEXITED) != 0)
    if (errno != EINTR) return std::nullopt;
  return status_of(info);
}

} // namespace kiln
