// What a worker does with candidates: check and time them. See worker.h.
#pragma once

#include <kiln/autotune/measure/checker.h>
#include <kiln/autotune/measure/drift.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kiln::tune {

// Compares the device's outputs with the interpreter's. What was compared, in words; throws UserError where
// they differ.
// It looks at the whole problem where the interpreter needs about so many seconds for it, else at the first
// programs of the grid, if what one program writes does not depend on others (no atomics, no number of
// programs).
std::string interpret_check(const LoadedCandidate& candidate, const Situation& situation, double seconds);

// Of the process that runs. Throws what the reference's launch does. Where there are not the `seconds` to
// launch the reference so often that it can be timed, one launch is all that is known of it.
class TrialRunner {
public:
  TrialRunner(Situation situation, LoadedCandidate reference, double seconds);

  const Measurement& reference() const { return reference_result_; }
  // `stage` is called when the candidate is loaded. `best`: the best seconds so far, as a multiple of the
  // reference's; 0: there is none.
  Measurement run(const LoadedCandidate& candidate, double best, const std::function<void()>& stage);
  // `stage` is called with the number of each candidate before anything is done with it, and with how many
  // there are before they are timed. Ends with the first that is not ok, because it may have spoilt the
  // memory of all: then there are fewer results.
  std::vector<Measurement> confirm(const std::vector<LoadedCandidate>& candidates, double seconds,
                                   const std::function<void(std::size_t)>& stage);

private:
  void run_reference(double seconds);
  void time_anchor();
  // Throws nothing for what the candidate does: not ok where it is wrong.
  Measurement check(const LoadedCandidate& candidate, const std::function<void()>& stage);
  // `reference_seconds`: of the reference beside it; 0: there is none.
  static void fill_in(Measurement& m, const Timing& timing, double reference_seconds);

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Situation situation_;
  LoadedCandidate reference_;
  Inputs inputs_;
  Stream stream_;
  std::vector<ArraySet> timed_; // whose launches are timed
  std::unique_ptr<Checker> checker_;
  DriftAnchor anchor_;
  int since_anchor_ = 0; // trials
  Measurement reference_result_;
};

} // namespace kiln::tune
