// What a worker does with candidates: load, check, time. See worker.h.
#pragma once

#include <kiln/autotune/measure/compare.h>
#include <kiln/autotune/measure/message.h>
#include <kiln/autotune/measure/timing.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kiln::tune {

// What all trials of a tuner have in common.
struct Situation {
  Device device;
  std::vector<Argument> arguments;
  std::uint64_t seed = 0;
  double tolerance = 0; // 0: by the dtypes
  TimingPlan timing;
};

// A candidate out of a message.
struct LoadedCandidate {
  std::unique_ptr<IrKernel> kernel;
  Config config;
  std::optional<Grid> grid;
  std::string fault; // "" or what goes wrong on purpose
  Candidate ready() const { return {kernel.get(), config, grid}; }
};
LoadedCandidate load_candidate(const Message& message, const Situation& situation);

// "registers", "scratch_bytes", ... of compiled code.
std::map<std::string, double> facts_of(const CompiledKernel& code);

// Where blocks might lie, for what looks at addresses' alignment and no further.
std::vector<std::uint64_t> imagined_words(const MemoryPlan& plan, const std::vector<Argument>& arguments);

// What went wrong, as a status and one line. Of the exception that is being handled.
Measurement failure(Status otherwise);

// Compiles it into the cache folder, or loads it from there.
Measurement compile(const LoadedCandidate& candidate, const Situation& situation);

// Compares the device's outputs with the interpreter's. What was compared, in words; throws UserError where
// they differ.
// It looks at the whole problem where the interpreter needs about a second for it, else at the first programs
// of the grid, if what one program writes does not depend on others (no atomics, no number of programs).
std::string interpret_check(const LoadedCandidate& candidate, const Situation& situation);

// Of the process that runs. Throws what the reference's launch does.
class TrialRunner {
public:
  TrialRunner(Situation situation, LoadedCandidate reference);

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
  void run_reference();
  void time_anchor();
  // Throws nothing for what the candidate does: not ok where it is wrong.
  Measurement check(const LoadedCandidate& candidate, const std::function<void()>& stage);
  Verdict checked_launch(const LoadedCandidate& candidate, Pattern pattern);
  void prepare(ArraySet& set, Pattern pattern);
  void fill_in(Measurement& m, const Timing& timing) const;

  Situation situation_;
  LoadedCandidate reference_;
  MemoryPlan plan_;
  Contents contents_;
  Stream stream_;
  std::unique_ptr<ArraySet> checked_; // the launches that are checked
  std::vector<ArraySet> timed_;       // those that are timed; the same, if memory is short
  std::vector<ReferenceOutput> outputs_;
  std::vector<std::vector<unsigned char>> patterns_[2]; // of each written block, empty for others
  double anchor_seconds_ = 0;                           // of the reference, lately
  int since_anchor_ = 0;                                // trials
  Measurement reference_result_;
};

} // namespace kiln::tune
