// Checks a candidate's outputs against those of the reference, on one set of inputs.
//
// Outputs are filled with a pattern before a launch and compared with the reference's. This is repeated with
// a second pattern, so that an element that is not written cannot be right by chance. Blocks that are both
// read and written get their initial contents before each launch. The bytes around all arrays and the inputs
// must not change.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/compare.h>
#include <kiln/autotune/measure/loaded_candidate.h>

#include <functional>
#include <memory>
#include <vector>

namespace kiln::tune {

// The memory plan of a launch and its contents. Throws UserError before allocating if measuring takes more
// memory than the machine has.
struct Inputs {
  Inputs(const Situation& situation, const ir::Kernel& kernel, Values values = Values::usual);
  Inputs(const Inputs&) = delete; // other objects refer to it

  MemoryPlan plan;
  Contents contents;
};

class Checker {
public:
  // All arguments must outlive the checker. Launches use separate memory, on the CPU between pages that
  // fault; if memory is short, they use `shared`, which has the inputs.
  Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference, Stream& stream,
          ArraySet* shared = nullptr);

  // Launches the reference twice and keeps its outputs. Throws the errors of its launch, and UserError if it
  // writes where it must not. `again` is called with the seconds of the first launch; if it returns false,
  // there is no second launch, and elements that are not written are recognised by one pattern only. Returns
  // the number of launches and the seconds of the first one.
  struct Launched {
    int launches = 0;
    double seconds = 0;
  };
  Launched run_reference(const std::function<bool(double)>& again = {});
  // Launches the candidate twice and compares. Throws the errors of its launches.
  Verdict check(const LoadedCandidate& candidate, Strictness strictness = Strictness::all);

private:
  double launch(const LoadedCandidate& candidate, Pattern pattern); // returns the seconds
  std::vector<unsigned char> output(std::size_t block);
  Verdict check_output(const LoadedCandidate& candidate, std::size_t block, Pattern pattern,
                       Strictness strictness);
  const std::vector<unsigned char>& poison_of(std::size_t block, Pattern pattern) const {
    return poison_[static_cast<int>(pattern)][block];
  }

  const Situation& situation_;
  const Inputs& inputs_;
  const LoadedCandidate& reference_;
  Stream& stream_;
  std::unique_ptr<ArraySet> own_;
  ArraySet& set_;
  std::vector<ReferenceOutput> outputs_;
  std::vector<std::vector<unsigned char>> poison_[2]; // per written block; empty for other blocks
};

// Converts a verdict to a measurement that is ok, wrong_result or not_a_number.
Measurement outcome_of(const Verdict& verdict);

// Returns whether there is enough memory for another copy of a launch's arrays.
bool has_room_apart(Device device, std::int64_t bytes);

} // namespace kiln::tune
