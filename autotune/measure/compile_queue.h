// Compiles candidates in parallel, in processes that may crash or hang.
#pragma once

#include <kiln/autotune/measure/crew.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::tune {

// A candidate on its way through the compiler and runner processes.
struct PendingCandidate {
  Message message; // ir, config, grid, fault
  Measurement result;
  bool compiled = false; // compiling has finished or failed
  bool done = false;     // nothing remains to be measured
};

// Returns the result of a candidate whose process gave none.
Measurement result_of_end(const Answer& answer, bool compiling);

class CompileQueue {
public:
  // `limit`: the most seconds for one candidate; 0: three times the 90th percentile. `setup` is sent to each
  // new process.
  CompileQueue(Crew& crew, int jobs, double limit) : crew_(crew), limit_(limit), compilers_(jobs) {}
  void set_up_with(Message setup) { setup_ = std::move(setup); }

  // Compiles all candidates that are neither compiled nor done. Calls `meanwhile` between waits. Ends early
  // if the crew is stopped or the device is lost.
  void compile(std::vector<PendingCandidate>& candidates, const std::function<void()>& meanwhile);
  // Why the device can no longer be opened; empty if it can.
  const std::string& lost() const { return lost_; }

  // The most seconds for the next candidate.
  double limit() const;
  void note(double seconds) { times_.push_back(seconds); }

private:
  struct Compiler {
    std::unique_ptr<WorkerProcess> process;
    PendingCandidate* job = nullptr;
    bool setting_up = false;
    Clock::time_point begin, deadline;
  };
  void start(Compiler& compiler, PendingCandidate& candidate);
  void take_messages(Compiler& compiler);
  void finish(Compiler& compiler, Measurement result);

  Crew& crew_;
  double limit_;
  Message setup_;
  std::vector<Compiler> compilers_;
  std::vector<double> times_;
  std::string lost_;
};

} // namespace kiln::tune
