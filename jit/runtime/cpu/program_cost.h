// How long one program of a kernel takes, roughly: enough to choose where a launch runs. Not for users.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <vector>

namespace kiln {

// A heuristic: elements times a price per operation, loops by their trip count where the arguments tell it.
// The prices are nanoseconds an element of vector code on one core; off by a factor of three is expected.
class CostModel {
public:
  static CostModel of(const ir::Kernel& lowered);

  // Nanoseconds of one program with these arguments; infinite if a loop's length is not known before it runs.
  double program_ns(const std::uint64_t* arguments) const {
    double ns = fixed_ns_;
    for (const Term& t : terms_)
      ns += t.ns * static_cast<double>(static_cast<std::int64_t>(arguments[t.word]));
    return ns;
  }

private:
  struct Term { // a loop over an extent or a scalar argument
    int word;
    double ns;
  };
  class Estimator;
  double fixed_ns_ = 0;
  std::vector<Term> terms_;
};

} // namespace kiln
