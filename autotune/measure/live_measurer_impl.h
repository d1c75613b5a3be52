// Declares the implementation of LiveMeasurer.
#pragma once

#include <kiln/autotune/measure/compile_queue.h>
#include <kiln/autotune/measure/suspect.h>
#include <kiln/autotune/measure/verify.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::tune {

class LiveMeasurer::Impl {
public:
  Impl(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options);

  void start();
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener);
  std::vector<Measurement> confirm(std::span<const Point> points);
  std::vector<Measurement> compile(std::span<const Point> points);
  std::size_t compilers() const { return static_cast<std::size_t>(options_.jobs); }
  double seconds_to_confirm(std::span<const Trial* const> finalists) const;

  const Measurement& reference() const { return reference_; }
  const std::string& checked() const { return checked_; }
  bool lost() const { return lost_; }
  bool started() const { return started_; }
  std::string suspicion(Failing how) const;
  Crew& crew() { return crew_; }

private:
  Message setup_message(Crew::Role role) const;

  // The process that runs candidates.
  Answer set_up_runner(double seconds);
  bool runs_reference() const; // TunedOptions::reference was running when the runner's setup ended
  bool runner_ready();         // false if the device is lost or the run is interrupted
  void lose(const std::string& error);
  double run_limit() const;
  void compare_with_interpreter();
  double left() const; // seconds left; infinite if there is no limit
  void allow_rest();
  void announce(const std::string& what) const;

  PendingCandidate make_candidate(const Config& config, bool may_fail) const;
  PendingCandidate make_trial(const Point& point); // already compiled if compile() did
  std::string draw_fault();
  void run(PendingCandidate& candidate);
  void note(const Measurement& m);
  std::vector<Twist> variations() const;
  bool is_known(const Point& point) const; // the fallback, if it is too slow to be measured twice

  // confirm.cpp
  struct Finalists;
  bool time_interleaved(Finalists& finalists);
  void verify_fastest(Finalists& finalists);
  enum class Verified : std::uint8_t { yes, no, interrupted };
  Verified verify_finalist(const PendingCandidate& candidate, Measurement& result);

  Workload workload_;
  BoundSpace& space_;
  Config fallback_;
  MeasureOptions options_;
  Clock::time_point begin_ = Clock::now();

  GivenContents given_;
  Crew crew_; // must outlive the processes
  std::unique_ptr<WorkerProcess> runner_;
  CompileQueue compilers_;
  bool started_ = false, lost_ = false;
  std::string lost_error_;
  std::string running_; // what the runner's setup has launched last; empty: only the default
  struct Compiled {
    Measurement result;
    std::string fault;
  };
  std::unordered_map<Point, Compiled, PointHash> compiled_; // compiled but not measured yet
  Message reference_message_;
  Measurement reference_;
  std::vector<Twist> variations_; // of the inputs on which a winner is verified
  std::string checked_;
  double setup_seconds_ = 0; // of the runner process, the reference's launches included
  double best_relative_ = 0, best_seconds_ = 0;
  std::uint64_t trials_ = 0;
  bool device_fault_ = false;
};

} // namespace kiln::tune
