// Compares two configs of a kernel as a search does, in this process.
#pragma once

#include "measured.h"
#include "verdict_case_list.h"

#include <kiln/autotune/measure/checker.h>
#include <kiln/autotune/measure/trial_runner.h>
#include <kiln/autotune/measure/verify.h>

#include <utility>
#include <vector>

namespace kiln::test {

// The verdict on a kernel with {other}, next to `right` with {seed}. `wrong` is either the same kernel or one
// that computes something else.
class Compared {
public:
  Compared(std::vector<Argument> arguments, Config seed, Config other, std::uint64_t random = 1)
      : seed_(std::move(seed)), other_(std::move(other)) {
    situation_.arguments = std::move(arguments);
    situation_.seed = random;
  }

  // Without `runs` the reference is launched once.
  template <class R, class C>
  tune::Checker::Checked check(const R& right, const C& candidate, int runs = tune::perturbed_runs) {
    const tune::LoadedCandidate reference = load(right, seed_), loaded = load(candidate, other_);
    const tune::Inputs inputs(situation_, reference.kernel->recorded());
    Stream stream;
    tune::Checker checker(situation_, inputs, reference, stream);
    checker.run_reference([=](double) { return runs > 0; }, runs);
    REQUIRE(checker.incomparable() == "");
    return checker.check(loaded);
  }
  // Returns the error, or an empty text.
  template <class R, class C>
  std::string error(const R& right, const C& candidate, int runs = tune::perturbed_runs) {
    const tune::Verdict v = check(right, candidate, runs).verdict;
    return v.kind == tune::Verdict::Kind::right ? "" : v.error;
  }
  // Returns the error of a verification as a winner, or an empty text.
  template <class R, class C> std::string verified(tune::Twist twist, const R& right, const C& candidate) {
    const tune::Verification v =
        tune::verify(load(candidate, other_), load(right, seed_), situation_, twist, 10, [] {});
    return v.skipped.empty() ? v.result.error : "skipped: " + v.skipped;
  }
  tune::Situation& situation() { return situation_; }
  // Returns what is said if the seed differs from the interpreter.
  template <class R> std::string interpreted(const R& right, double seconds = 0.2) {
    try {
      tune::interpret_check(load(right, seed_), situation_, seconds);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }

private:
  template <class K> tune::LoadedCandidate load(const K& k, const Config& config) {
    return tune::load_candidate({{"ir", ir::print(*k.record(config))}, {"config", config.to_string()}},
                                situation_);
  }
  tune::Situation situation_;
  Config seed_, other_;
};

} // namespace kiln::test
