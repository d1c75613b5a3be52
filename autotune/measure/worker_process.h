// Starts and controls a worker process from the tuner's side.
#pragma once

#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/message.h>

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kiln::tune {

// A `kiln tune-worker` process with a socket as its descriptor 3 and its own process group. The destructor
// kills it.
class WorkerProcess {
public:
  // The "NAME=VALUE" texts in `environment` replace variables of this process. Throws TargetError if the
  // process cannot be started.
  WorkerProcess(const std::string& command, const std::string& folder,
                const std::vector<std::string>& environment);
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

  pid_t id() const { return id_; }
  int socket() const { return socket_; }
  int errors() const { return pipe_; }

private:
  void reap();
  void read_errors();

  pid_t id_ = -1;
  int socket_ = -1, pipe_ = -1;
  bool reaped_ = false;
  int exit_code_ = 0, signal_ = 0;
  MessageReader reader_;
  std::string errors_; // the last part of stderr
};

} // namespace kiln::tune
