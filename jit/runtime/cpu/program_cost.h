// Estimates the time of one program of a kernel, well enough to choose where a launch runs. Internal.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <vector>

namespace kiln {

// A heuristic: the number of elements times a price per operation. Loops count by their trip count if the
// arguments determine it. Prices are nanoseconds per element of vector code on one core. Errors of a factor
// of three are expected.
class CostModel {
public:
  static CostModel of(const ir::Kernel& lowered);

  // Nanoseconds of one program with these arguments. Infinite if a loop's trip count is unknown before it
  // runs.
  double program_ns(const std::uint64_t* arguments) const {
    double ns = fixed_ns_;
    for (const Term& t : terms_) {
      const auto trips = static_cast<std::int64_t>(arguments[t.word]);
      if (trips > 0) ns += t.ns * static_cast<double>(trips); // infinity times 0 would be NaN
    }
    return ns;
  }

private:
  struct Term { // a loop whose trip count is an extent or a scalar argument
    int word;
    double ns;
  };
  class Estimator;
  double fixed_ns_ = 0;
  std::vector<Term> terms_;
};

} // namespace kiln
