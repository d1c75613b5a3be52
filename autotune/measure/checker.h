// Checks a candidate's outputs against those of the reference, on one set of inputs.
//
// Outputs are filled with a pattern before a launch and compared with the reference's. This is repeated with
// a second pattern, so that an element that is not written cannot be right by chance. Blocks that are both
// read and written get their initial contents before each launch. The bytes around all arrays and the inputs
// must not change.
//
// How far a right output may be from the reference's is found by launching the reference, with rounding
// errors (noise.h), on perturbed inputs (motion.h). Outputs whose rows get their places from atomic counters
// (appended.h) are sorted before they are compared.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/compare.h>
#include <kiln/autotune/measure/compared_output.h>
#include <kiln/autotune/measure/inputs.h>
#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/autotune/measure/perturb.h>
#include <kiln/autotune/measure/sorted.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kiln::tune {

constexpr int perturbed_runs = 4; // of the reference

class Checker {
public:
  // All arguments must outlive the checker. Launches use separate memory, on the CPU between pages that
  // fault; if memory is short, they use `shared`, which has the inputs.
  Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference, Stream& stream,
          ArraySet* shared = nullptr);

  // Launches the reference twice, and up to `most` times on perturbed inputs, and keeps its outputs. Throws
  // the errors of its launch, and UserError if it writes where it must not. `again` is called with the
  // seconds of the first launch before each other one; if it returns false, there is none. With one launch,
  // elements that are not written are recognised by one pattern only. Returns the number of launches and the
  // seconds of the first one.
  struct Launched {
    int launches = 0;
    double seconds = 0;
  };
  Launched run_reference(const std::function<bool(double)>& again = {}, int most = perturbed_runs);
  // Launches the candidate twice and compares; if Situation::keeps_ignored, three times, where ignored outputs
  // hold what the launch before has left there. Throws the errors of its launches. Outputs that a function of the
  // user compares are left out on special inputs (Values), which such functions rarely expect.
  struct Checked {
    Verdict verdict;
    std::vector<OutputComparison> outputs; // as far as they were compared
  };
  Checked check(const LoadedCandidate& candidate, Strictness strictness = Strictness::all);
  // Launches the reference, and returns the contents before a next launch: those of this one with what it has
  // left in `blocks`.
  Contents left_by_reference(const std::vector<bool>& blocks);
  // Launches the reference on more perturbed inputs, as far as that takes little time, so that elements that
  // moved too little by chance move. check() does so before it refuses a candidate. Returns false if that was
  // done before or is impossible.
  bool refine();
  // Launches a candidate that was found right again and again, as far as it takes at most `seconds` in total,
  // and compares each time, since races may be rare. Throws the errors of its launches.
  Verdict repeat(const LoadedCandidate& candidate, double seconds);
  bool has_ignored() const; // whether some output is not compared

  // Returns what can be compared of each output: an entry for each that is not ignored.
  std::vector<OutputComparison> comparable() const;
  // Returns why an output cannot be compared at all, with its parameter and what to do; empty if each can be.
  // `by_values` is set if other values of the inputs may help.
  std::string incomparable(bool* by_values = nullptr) const;

  // For a caller that has values of its own: the outputs, the reference's values and how to compare with
  // them.
  const std::vector<ComparedOutput>& compared_outputs() const { return how_; }
  const ReferenceOutput& reference_output(std::size_t block) const { return outputs_[block]; }
  Allowance allowance_for(const LoadedCandidate& candidate, const ComparedOutput& output) const;
  const std::vector<unsigned char>& poison_of(std::size_t block, Pattern pattern) const {
    return poison_[static_cast<int>(pattern)][block];
  }
  // Sorts the contents of the blocks, of which `poison` had those that are written before the launch.
  void sort(RowSorter::Blocks& blocks, Pattern pattern) const;

private:
  // Returns the seconds. Blocks in `kept` are neither restored nor filled before.
  double launch(const LoadedCandidate& candidate, Pattern pattern, const std::vector<bool>& kept = {});
  // The same with the inputs that are there.
  double launch_as_it_is(const LoadedCandidate& candidate, Pattern pattern, const std::vector<bool>& kept);
  Checked check_launch(const LoadedCandidate& candidate, Pattern pattern, Strictness strictness,
                       const std::vector<bool>& kept);
  Checked check_launches(const LoadedCandidate& candidate, Strictness strictness);
  double launch_perturbed(double distance, Direction direction, std::uint64_t seed, Pattern pattern);
  // Launches the reference on perturbed inputs. An element is unwritten if it keeps both patterns.
  struct Moved {
    RowSorter::Blocks values;
    std::vector<std::vector<bool>> unwritten; // by block; empty: all elements are written
    double seconds = 0;                       // of the launches
  };
  Moved run_perturbed(double distance, Direction direction, std::uint64_t seed);
  // Returns the contents of the written blocks after a launch, sorted; others are empty.
  RowSorter::Blocks read_back(Pattern pattern);
  void keep_first(std::size_t block, std::vector<unsigned char> values);
  void keep_second(std::size_t block, const std::vector<unsigned char>& values);
  void move(const std::function<bool(double)>& again, Launched& launched, int most);
  void find_jumps();
  void find_roundings();
  bool rounds_once(std::size_t block) const;
  const ReferenceOutput& launched(std::size_t block) const;
  Motion::Run run_of(std::size_t block, const Moved& moved) const;
  void make_noisy();
  RowSorter::Blocks call_host(Pattern pattern) const;
  void ask_host();
  bool is_compared(std::size_t block) const; // at least one output is there and not ignored
  Verdict ask_to_compare(const ComparedOutput& output, const std::vector<unsigned char>& values) const;
  Verdict check_output(const LoadedCandidate& candidate, const ComparedOutput& output,
                       const std::vector<unsigned char>& values, Pattern pattern,
                       Strictness strictness) const;
  // Checks that the elements of a written block that belong to no output are as before the launch.
  Verdict check_rest(std::size_t block, const std::vector<unsigned char>& values, Pattern pattern) const;
  bool reads_unlike_reference(const LoadedCandidate& candidate, std::size_t block) const;

  const Situation& situation_;
  const Inputs& inputs_;
  const LoadedCandidate& reference_;
  Stream& stream_;
  std::unique_ptr<ArraySet> own_;
  ArraySet& set_;
  LoadedCandidate noisy_; // the reference with rounding errors (noise.h); its kernel may be null
  RowSorter sorter_;
  std::vector<ComparedOutput> how_;
  std::vector<ReferenceOutput> outputs_;                 // by block
  std::vector<std::vector<bool>> rest_;                  // by block: the elements that belong to no output
  double checking_seconds_ = 0;                          // of the last launch in check(), compared
  double rounding_ = 0, rounding_inside_ = 0;            // of the reference (perturb.h)
  int depth_ = 2;                                        // of the reference (rounding_depth.h)
  double sums_ = 1;                                      // see Allowance
  std::vector<std::optional<std::vector<bool>>> moving_; // by block: the elements that are perturbed
  bool refined_ = false;
  std::vector<ReferenceOutput> launched_; // by block: what the reference wrote, if a function replaced it
  std::vector<std::vector<bool>> kept_;   // by block: the elements that kept the pattern of the last launch
  std::vector<std::vector<unsigned char>> poison_[2]; // per written block; empty for other blocks
};

// Converts a verdict to a measurement that is ok, wrong_result or not_a_number.
Measurement outcome_of(const Verdict& verdict);

} // namespace kiln::tune
