// A process that measures, seen from the one that started it.
#pragma once

#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/message.h>

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kiln::tune {

// `kiln tune-worker` with a socket as its descriptor 3 and a process group of its own. Destruction kills it.
class WorkerProcess {
public:
  // `environment` has "NAME=VALUE" that replace those of this process. TargetError if it cannot be started.
  WorkerProcess(const std::string& command, const std::string& folder,
                const std::vector<std::string>& environment);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool send(const Message& message); // false: it is gone
  // Reads what has come. False once it is gone and all that it sent was returned by next().
  bool pump();
  std::optional<Message> next() { return reader_.next(); }

  // Ends it with all that it started, and waits.
  void kill();
  // How it ended, in words: "killed by signal 11 (segmentation fault)", with the last line that it wrote to
  // stderr. Waits for the end.
  std::string ending();
  int signal() const { return signal_; } // that ended it; 0: none, or it still runs

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
  std::string errors_; // the last of stderr
};

} // namespace kiln::tune
