// Measures configs on a device, in processes of their own.
//
//   tune::LiveMeasurer measurer(workload, space, fallback, {.jobs = 2});
//   auto result = tune::search(*strategy, measurer, budget);
//
// Candidates are compiled by `jobs` processes side by side and run by one more, `kiln tune-worker` each; see
// worker.h for what is checked and how it is timed. Whatever a candidate does (crash, hang, use up memory,
// write where it must not) ends a process that is started anew, and costs that one trial; nothing that was
// not checked ever runs in this process.
//
// The reference is the output of the fallback config. It is compared once with the interpreter of tile IR: on
// the whole problem where that takes about a second, else on the first programs of the grid, else not at all;
// see checked().
//
// The fastest finalist is compared with the reference on three more sets of inputs: some NaN and infinite,
// some zero or subnormal, and on arrays that are a little smaller; one that is wrong there is not the winner.
//
// The command `kiln` is looked for where KILN_COMMAND says, then as this program, then beside the library and
// this program (./kiln, ../bin/kiln), then on PATH.
//
// Not thread-safe but for interrupt(), which a signal handler may call.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/search/search.h>

#include <memory>

namespace kiln::tune {

// What tests make go wrong on purpose, with this probability a trial: "crash", "hang", "wrong", "nan",
// "out of memory", "compile error", "compile crash", "compile hang", "noise", "guard", "input", "device".
struct Faults {
  double probability = 0;
  std::vector<std::string> kinds;
};

struct MeasureOptions {
  int jobs = 0;                 // processes that compile; 0: as many as there are threads, at most 16
  int threads = 0;              // that run a CPU kernel; 0: as ever (KILN_NUM_THREADS, or all)
  bool cold_cache = false;      // inputs and outputs are not in the caches
  double least_seconds = 0.02;  // of launches timed for a candidate that is neither hopeless nor close
  double most_seconds = 0.3;    // and for one that is close to the best
  double confirm_seconds = 0.5; // for each finalist
  double drop = 1.5;            // more than this times the best after three samples: hopeless
  double tolerance = 0;         // relative error of outputs; 0: by the dtypes
  std::uint64_t seed = 0;       // of the inputs
  double compile_limit = 0;     // seconds; 0: three times what most took, at least 10
  double run_limit = 0;         // seconds; 0: by the size of the problem and the best so far, at least 5
  double first_limit = 120;     // seconds for the fallback, before anything is known
  double seconds = 0;           // for all that it does from its making on, confirming included; 0: no limit
  bool check_reference = true;  // compare it with the interpreter
  Faults faults = {};
  // Hears of what takes a while and is no trial: "measuring the default".
  std::function<void(const std::string&)> announce = {};
};

class LiveMeasurer final : public Measurer {
public:
  // Nothing is started yet. `space` must outlive this.
  LiveMeasurer(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options = {});
  static int jobs_of(const MeasureOptions& options); // processes that will compile
  ~LiveMeasurer() override;                          // ends the processes and removes their folder

  // Starts the processes and measures the fallback; the first measure() does it otherwise. UserError if the
  // command is not found or of another build, if the fallback does not run or gives another result than the
  // interpreter; TargetError if the system has no processes left. Of a fallback that takes most of the time
  // there is, one launch is all that is known; where not even that ends in it, nothing is measured.
  void start();
  const Measurement& fallback() const; // once started
  // What was compared with the interpreter: "the whole problem", "programs 1 x 2 of 16 x 16", "nothing: ...".
  const std::string& checked() const;

  // Fewer results than points where it was interrupted, or the listener has enough: those of the first ones.
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener = {}) override;
  // Those that could not be compared on all inputs before the time was up are not confirmed either.
  std::vector<Measurement> confirm(std::span<const Point> points) override;
  double seconds_to_confirm(std::span<const Trial* const> finalists) const override;
  void allow(double seconds) override;
  std::size_t compilers() const override;
  double compiler_seconds() const override;
  // The code waits in the tuner's folder until it is measured.
  std::vector<Measurement> compile(std::span<const Point> points) override;

  // Ends what is running now; measure() and confirm() return at once from then on. Async-signal-safe.
  void interrupt() noexcept;
  bool interrupted() const noexcept;
  bool device_lost() const;
  bool started() const; // the fallback is measured

  struct Totals {
    int processes = 0; // started
    int killed = 0;    // at their deadline
    int crashed = 0;
    double compile_seconds = 0, run_seconds = 0; // waited for
  };
  Totals totals() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace kiln::tune
