// Compiles candidates side by side, in processes that may crash or hang.
#pragma once

#include <kiln/autotune/measure/crew.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::tune {

// A candidate on its way through the processes.
struct PendingCandidate {
  Message message; // ir, config, grid, fault
  Measurement result;
  bool compiled = false; // or failed
  bool done = false;     // nothing more is to be measured
};

// What came of one whose process gave no result.
Measurement result_of_end(const Answer& answer, bool compiling);

class CompileQueue {
public:
  // `limit`: seconds that one may take; 0: three times what most took. `setup` is sent to each new process.
  CompileQueue(Crew& crew, int jobs, double limit) : crew_(crew), limit_(limit), compilers_(jobs) {}
  void set_up_with(Message setup) { setup_ = std::move(setup); }

  // All that are neither compiled nor done. Calls `meanwhile` between any two things that it waits for. Ends
  // early where the crew is stopped, or when the device is lost.
  void compile(std::vector<PendingCandidate>& candidates, const std::function<void()>& meanwhile);
  // Why the device cannot be opened any more; empty: it can.
  const std::string& lost() const { return lost_; }

  // Seconds that the next one may take.
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
