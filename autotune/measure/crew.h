// Starts, listens to, interrupts and ends the processes that work for one tuner.
#pragma once

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/measure/work_folder.h>
#include <kiln/autotune/measure/worker_process.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// The outcome of a request to a process.
struct Answer {
  enum class Kind : std::uint8_t { message, ended, late, interrupted } kind = Kind::message;
  Message message;
  std::string error; // of a process that has ended
  int signal = 0;

  bool says_stage() const { return kind == Kind::message && message.contains("stage"); }
  // Returns a text field of the message, or `otherwise` if it has none.
  std::string text(const char* name, const char* otherwise) const;
};

constexpr double hello_seconds = 60; // time limit for loading a process on a busy machine

// Not thread-safe, except for interrupt().
class Crew {
public:
  enum class Role : std::uint8_t { compile, run };

  // `threads` is the number of threads that run a CPU kernel; 0: the default. Each process inherits the
  // memory `given`.
  Crew(int threads, GivenContents given);
  ~Crew(); // removes the folder of the processes, which must have ended
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Finds the command and creates the folder that the processes share. Throws UserError if there is no
  // command, and TargetError if the folder cannot be created.
  void open();
  std::unique_ptr<WorkerProcess> start(Role role);
  // Waits until the process is loaded. Throws UserError if it does not start or belongs to another build.
  void check_hello(WorkerProcess& process);
  // Sends a message and waits for the first answer.
  Answer request(WorkerProcess& process, const Message& message, double seconds);
  // Sets the function that answers the questions of processes: messages with `ask`.
  void answer_questions(std::function<Message(const Message&)> answer) { answer_ = std::move(answer); }
  // Waits for the next message of the process, and answers its questions meanwhile.
  Answer await(WorkerProcess& process, double seconds);
  // Waits for input from any of the processes. Returns false if the deadline has passed or the crew is
  // stopped.
  bool wait(const std::vector<WorkerProcess*>& processes, Clock::time_point deadline) const;
  // Describes a process that has ended.
  Answer ended(WorkerProcess& process);
  void kill(std::unique_ptr<WorkerProcess>& process);

  void interrupt() noexcept; // async-signal-safe
  bool interrupted() const noexcept { return interrupted_.load(); }
  // After `seconds` from now everything stops as if it were interrupted, until allow() is called again.
  void allow(double seconds);
  bool stopped() const noexcept { return interrupted() || Clock::now() >= until_; }

  LiveMeasurer::Totals totals;

private:
  std::function<Message(const Message&)> answer_;
  int threads_;
  GivenContents given_;
  int wake_ = -1;
  std::atomic<bool> interrupted_{false};
  Clock::time_point until_ = Clock::time_point::max();
  std::string command_;
  std::optional<WorkFolder> folder_;
};

} // namespace kiln::tune
