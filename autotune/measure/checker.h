// Compares what candidates compute with what the reference computes, on one set of inputs.
//
// Outputs are filled with one pattern before a launch, compared with the reference's, and with another
// pattern before a second one, so that what is not written cannot look right by chance; what is both read and
// written has its first contents before each. The bytes around all arrays and the inputs must be as before.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/compare.h>
#include <kiln/autotune/measure/loaded_candidate.h>

#include <functional>
#include <memory>
#include <vector>

namespace kiln::tune {

// The memory that a launch needs, and what is in it. UserError if measuring it takes more than the machine
// has, before any is taken.
struct Inputs {
  Inputs(const Situation& situation, const ir::Kernel& kernel, Values values = Values::usual);
  Inputs(const Inputs&) = delete; // others refer to it

  MemoryPlan plan;
  Contents contents;
};

class Checker {
public:
  // All of these must outlive it. Launches use memory of its own, between pages that fault on the CPU, or
  // `shared`, which has its inputs, where memory is short.
  Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference, Stream& stream,
          ArraySet* shared = nullptr);

  // Launches the reference twice and keeps its outputs. Throws what its launch does; UserError if it writes
  // where it must not. `again` is asked before the second launch with the seconds of the first; where it
  // refuses, what is not written is known by one pattern alone. How many launches there were, and the first's
  // seconds.
  struct Launched {
    int launches = 0;
    double seconds = 0;
  };
  Launched run_reference(const std::function<bool(double)>& again = {});
  // Two launches. Throws what they do.
  Verdict check(const LoadedCandidate& candidate, Strictness strictness = Strictness::all);

private:
  double launch(const LoadedCandidate& candidate, Pattern pattern); // its seconds
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
  std::vector<std::vector<unsigned char>> poison_[2]; // of each written block, empty for others
};

// ok, wrong_result or not_a_number.
Measurement outcome_of(const Verdict& verdict);

// Whether another copy of a launch's arrays is worth its memory.
bool has_room_apart(Device device, std::int64_t bytes);

} // namespace kiln::tune
