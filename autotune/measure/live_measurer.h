// Measures configs on a device, in separate processes.
//
//   tune::LiveMeasurer measurer(workload, space, fallback, {.jobs = 2});
//   auto result = tune::search(*strategy, measurer, budget);
//
// Candidates are compiled by `jobs` parallel processes and run by one more; each is a `kiln tune-worker`. See
// worker.h for how candidates are checked and timed. If a candidate crashes, hangs, exhausts memory or writes
// where it must not, its process ends and is replaced, which costs one trial. Unchecked code never runs in
// this process.
//
// The reference is the output of the fallback config. It is compared once with the interpreter of tile IR: on
// the whole problem if that takes about a second, else on the first programs of the grid, else not at all;
// see checked().
//
// The fastest finalist is compared with the reference on three more sets of inputs: with some NaN and
// infinities, with some zeros and subnormal numbers, and on slightly smaller arrays. If it is wrong on one of
// them, it is not the winner.
//
// The command `kiln` is taken from KILN_COMMAND, else this program is used if it is the command, else it is
// searched for next to the library and this program (./kiln, ../bin/kiln), then on PATH.
//
// Not thread-safe, except for interrupt(), which signal handlers may call.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/search/search.h>

#include <memory>

namespace kiln::tune {

// Faults that tests inject with this probability per trial: "crash", "hang", "wrong", "nan",
// "out of memory", "compile error", "compile crash", "compile hang", "noise", "guard", "input", "device",
// "race" (only the outputs of the third launch and later ones are wrong).
struct Faults {
  double probability = 0;
  std::vector<std::string> kinds;
};

struct MeasureOptions {
  int jobs = 0;                 // compiling processes; 0: as many as there are threads, at most 16
  int threads = 0;              // threads of a CPU kernel; 0: the default (KILN_NUM_THREADS, or all)
  bool cold_cache = false;      // inputs and outputs are not in the caches
  double least_seconds = 0.02;  // least time for timing a candidate that is neither hopeless nor close
  double most_seconds = 0.3;    // most time, for a candidate that is close to the best
  double confirm_seconds = 0.5; // for each finalist
  double drop = 1.5;            // candidates slower than this times the best after three samples are dropped
  double tolerance = 0;         // relative error of float outputs; 0: determined for each element
  std::uint64_t seed = 0;       // of the random inputs
  double compile_limit = 0;     // seconds; 0: three times the 90th percentile, at least 10
  double run_limit = 0;         // seconds; 0: determined by the problem and the best so far, at least 5
  double first_limit = 120;     // seconds for the fallback, when nothing is known yet
  double seconds = 0;           // for everything from construction on, confirming included; 0: no limit
  bool check_reference = true;  // compare it with the interpreter
  Faults faults = {};
  // Called before slow steps that are not trials, with "measuring the default" and the like.
  std::function<void(const std::string&)> announce = {};
};

class LiveMeasurer final : public Measurer {
public:
  // Starts no process yet. `space` must outlive this object.
  LiveMeasurer(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options = {});
  static int jobs_of(const MeasureOptions& options); // the number of compiling processes
  ~LiveMeasurer() override;                          // ends the processes and removes their folder

  // Starts the processes and measures the fallback; otherwise the first measure() does. Throws UserError if
  // the command is not found or belongs to another build, or if the fallback does not run or differs from the
  // interpreter; TargetError if the system cannot create processes. If the fallback takes most of the
  // available time, it is launched only once; if even one launch does not finish in time, nothing is
  // measured.
  void start();
  const Measurement& fallback() const; // valid after start()
  // Returns the part of the result that was compared with the interpreter: "the whole problem", "programs 1 x
  // 2 of 16 x 16", "nothing: ...".
  const std::string& checked() const;

  // If the fallback was not measured: names the argument whose made-up contents are the probable cause, and
  // says how to give real ones. Empty if there is none.
  std::string suspicion() const;

  // Returns fewer results than points, those of the first ones, if it is interrupted or the listener returns
  // false.
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener = {}) override;
  // Candidates that could not be compared on all inputs in time are not confirmed.
  std::vector<Measurement> confirm(std::span<const Point> points) override;
  double seconds_to_confirm(std::span<const Trial* const> finalists) const override;
  void allow(double seconds) override;
  std::size_t compilers() const override;
  double compiler_seconds() const override;
  // Compiled code is kept in the tuner's folder until it is measured.
  std::vector<Measurement> compile(std::span<const Point> points) override;

  // Ends what is running; measure() and confirm() return at once from then on. Async-signal-safe.
  void interrupt() noexcept;
  bool interrupted() const noexcept;
  bool device_lost() const;
  bool started() const; // the fallback has been measured

  struct Totals {
    int processes = 0; // started
    int killed = 0;    // at their deadline
    int crashed = 0;
    double compile_seconds = 0, run_seconds = 0; // waited for processes
  };
  Totals totals() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace kiln::tune
