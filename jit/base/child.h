// Waits for a child process without depending on what the program does with its children.
//
// A program may ignore SIGCHLD, and its other code may wait for all children at once. Then a child's exit
// status is lost, and its number may soon belong to another process. So a child of Kiln reports its status
// through a pipe, and this class only removes the child from the process table.
#pragma once

#include <optional>

#include <sys/types.h>

namespace kiln {

class Child {
public:
  // Takes a child that was just started.
  explicit Child(pid_t id);
  ~Child(); // does not wait
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  // Sends SIGKILL to its process group, which it must have been given when it was started. Does nothing once
  // it has ended.
  void kill_group() const noexcept;
  // Waits until it has ended. Returns its status, as waitpid does, or nothing if other code has taken that or
  // the program ignores SIGCHLD.
  std::optional<int> wait() noexcept;

private:
  bool has_ended() const noexcept;

  pid_t id_;
  int descriptor_; // -1: the system has no descriptors for processes, or it was gone already
  bool gone_ = false;
};

} // namespace kiln
