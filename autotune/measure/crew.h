// The processes that work for one tuner: how they are started, listened to, interrupted and ended.
#pragma once

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/measure/work_folder.h>
#include <kiln/autotune/measure/worker_process.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// What came of a request.
struct Answer {
  enum class Kind : std::uint8_t { message, ended, late, interrupted } kind = Kind::message;
  Message message;
  std::string error; // of a process that ended
  int signal = 0;

  bool says_stage() const { return kind == Kind::message && message.contains("stage"); }
  // A text of the message; another one where it has none.
  std::string text(const char* name, const char* otherwise) const;
};

constexpr double hello_seconds = 60; // to be loaded, on a machine that is busy

// Not thread-safe but for interrupt().
class Crew {
public:
  enum class Role : std::uint8_t { compile, run };

  // `threads` that run a CPU kernel; 0: as ever.
  explicit Crew(int threads);
  ~Crew(); // after its processes: removes their folder
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Finds the command and makes the folder that the processes share. UserError if there is none; TargetError
  // if it cannot be made.
  void open();
  std::unique_ptr<WorkerProcess> start(Role role);
  // Waits until it is loaded. UserError if it does not start, or is of another build.
  void check_hello(WorkerProcess& process);
  // Sends it this, and waits for the first answer.
  Answer request(WorkerProcess& process, const Message& message, double seconds);
  // The next message of it.
  Answer await(WorkerProcess& process, double seconds);
  // Waits for something from any of them. False if there is nothing to wait for any more.
  bool wait(const std::vector<WorkerProcess*>& processes, Clock::time_point deadline) const;
  // Of one that is gone.
  Answer ended(WorkerProcess& process);
  void kill(std::unique_ptr<WorkerProcess>& process);

  void interrupt() noexcept; // async-signal-safe
  bool interrupted() const noexcept { return interrupted_.load(); }
  // After so many seconds from now everything stops as if it were interrupted, until it is allowed more.
  void allow(double seconds);
  bool stopped() const noexcept { return interrupted() || Clock::now() >= until_; }

  LiveMeasurer::Totals totals;

private:
  int threads_;
  int wake_ = -1;
  std::atomic<bool> interrupted_{false};
  Clock::time_point until_ = Clock::time_point::max();
  std::string command_;
  std::optional<WorkFolder> folder_;
};

} // namespace kiln::tune
