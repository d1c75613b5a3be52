// Checks and times candidates in a worker (see worker.h).
#pragma once

#include <kiln/autotune/measure/checker.h>
#include <kiln/autotune/measure/drift.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// Finds inputs for which the outputs of the reference can be compared: the usual ones, or else positive ones,
// on which logarithms and roots are numbers. `make` is called with the situation, which it must keep, and
// returns a checker whose reference has run.
void choose_inputs(Situation& situation, const std::function<const Checker&(const Situation&)>& make);

// Compares the device's outputs with the interpreter's and returns a description of what was compared. Throws
// UserError if they differ. It covers the whole problem if the interpreter needs about `seconds` for that;
// else the first programs of the grid, if programs do not depend on each other (they use no atomics and do
// not read the number of programs).
std::string interpret_check(const LoadedCandidate& candidate, const Situation& situation, double seconds);

// The state of the runner process. The constructor launches the reference and throws the errors of that
// launch. If `seconds` are not enough to launch the reference as often as timing requires, it is launched
// once.
class TrialRunner {
public:
  // Candidates are compared with `oracle` if it is given, and the reference is, too. `running` is called with
  // what is launched next: Situation::right, and then "the default" if that is something else.
  TrialRunner(Situation situation, LoadedCandidate reference, std::optional<LoadedCandidate> oracle,
              double seconds, const std::function<void(const std::string&)>& running);

  const Measurement& reference() const { return reference_result_; }
  const Situation& situation() const { return situation_; } // with the chosen kind of inputs
  // What outputs are compared with.
  const LoadedCandidate& right() const { return oracle_ ? *oracle_ : reference_; }
  // `stage` is called when the candidate is loaded. `best` is the best time so far as a multiple of the
  // reference's; 0: there is none.
  Measurement run(const LoadedCandidate& candidate, double best, const std::function<void()>& stage);
  // Checks and times candidates in alternation. `stage` is called with the number of each candidate before it
  // is checked, and with the number of candidates before they are timed. Ends with the first one that is not
  // ok, since it may have corrupted memory, and then returns fewer results.
  std::vector<Measurement> confirm(const std::vector<LoadedCandidate>& candidates, double seconds,
                                   const std::function<void(std::size_t)>& stage);

private:
  void set_up();
  void run_reference(double seconds, const std::function<void(const std::string&)>& running);
  // Finds out whether the reference needs the initial contents of ignored outputs.
  void look_at_ignored();
  void time_anchor();
  // Does not throw errors of the candidate; returns them as a status.
  Measurement check(const LoadedCandidate& candidate, const std::function<void()>& stage);
  // Launches a candidate again for about `seconds`, and makes the result one of a wrong config if it is wrong
  // once. The reference is left out.
  void look_for_races(const LoadedCandidate& candidate, Measurement& result, double seconds);
  // `reference_seconds` is the time of the reference measured next to it; 0: there is none.
  static void fill_in(Measurement& m, const Timing& timing, double reference_seconds);

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Situation situation_;
  LoadedCandidate reference_;
  std::optional<LoadedCandidate> oracle_;
  std::unique_ptr<Inputs> inputs_;
  Stream stream_;
  std::vector<ArraySet> timed_; // the array sets whose launches are timed
  std::unique_ptr<Checker> checker_;
  DriftAnchor anchor_;
  int since_anchor_ = 0; // number of trials
  Measurement reference_result_;
};

} // namespace kiln::tune
