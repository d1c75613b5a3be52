// Starts and controls a worker process from the tuner's side.
#pragma once

#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/message.h>
#include <kiln/jit/base/child.h>

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kiln::tune {

// The descriptors of a worker: its socket, the pipe through which its supervisor reports its end
// (supervisor.h), and the memory of given contents.
inline constexpr int worker_socket = 3, worker_status = 4, first_given_descriptor = 5;

// A `kiln tune-worker` process with its own process group. The destructor kills it.
class WorkerProcess {
public:
  // The "NAME=VALUE" texts in `environment` replace variables of this process. The descriptors `given` become
  // the worker's descriptors from first_given_descriptor on. Throws TargetError if the process cannot be
  // started.
  WorkerProcess(const std::string& command, const std::string& folder,
                const std::vector<std::string>& environment, const std::vector<int>& given);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool send(const Message& message); // false if the process is gone
  // Reads what has arrived. Returns false once the process is gone; next() may still return messages.
  bool pump();
  std::optional<Message> next() { return reader_.next(); }

  // Kills the process and everything that it started, and waits for its end.
  void kill();
  // Waits for the end and describes it: "killed by signal 11 (segmentation fault)", with the last line of its
  // stderr.
  std::string ending();
  int signal() const { return signal_; } // the signal that ended it; 0 if none did or it still runs

  pid_t id() const { return child_->id(); }
  int socket() const { return socket_; }
  int errors() const { return pipe_; }

private:
  void take_status();
  void read_errors();

  std::unique_ptr<Child> child_;
  int socket_ = -1, pipe_ = -1, status_ = -1;
  bool ended_ = false;
  int exit_code_ = 0, signal_ = 0;
  MessageReader reader_;
  std::string errors_; // the last part of stderr
};

} // namespace kiln::tune
