// Decides whether an output of a candidate is right, by comparing it with that of the reference.
#pragma once

#include <kiln/autotune/measure/motion.h>
#include <kiln/autotune/space/trial.h>
#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

// An output of the reference: its values, which elements it did not write, and how far they move.
struct ReferenceOutput {
  DType dtype = DType::F32;
  std::vector<unsigned char> values;
  std::vector<bool> unwritten; // by element; empty: all elements are written or had contents before
  Motion motion;
};

// How far a right output may be from the reference's.
struct Allowance {
  double rounding = 0x1p-23; // that of the inputs' perturbation (perturb.h)
  double factor = 20;        // by which an element's difference may exceed its spread
  double sums = 1;           // the square root of the number of terms of an element
  // Declared by the user; they replace what is computed from the above if one of the two is positive.
  double relative = 0, absolute = 0;
  double share = 0; // declared share of elements that may differ by more; 0: determined by the jumps
};

struct Verdict {
  enum class Kind : std::uint8_t { right, wrong, not_a_number } kind = Kind::right;
  std::string error; // one line; empty if right
  OutputComparison compared;
};

enum class Strictness : std::uint8_t {
  all,
  numbers, // elements that are NaN or infinite in either output are not compared
};

// `values` is the memory after a launch, `poisoned` its pattern before the launch (empty: it had the same
// contents as for the reference). The output is right if
// 1. exactly the elements that the reference does not write still hold the pattern;
// 2. NaN and infinities are where the reference has them;
// 3. each finite element r differs by at most the sum of `factor` times its spread, a few rounding errors of
//    |r|, whose number grows with `sums`, and 1.5 units in the last place of the output's dtype. Where an
//    element's own spread is smaller than the median spread of elements of its magnitude, the median counts,
//    up to a multiple of the own spread, since a few runs may move an element too little by chance;
// 4. integers are equal, or they depend on floats and differ by at most one more than twice their spread; and
// 5. exceptions from 3 (by at most twice the largest jump) and differences by 4 are not more frequent than
//    the elements that jump or change in the runs of the reference: twice their share and, for integers,
//    floats that are rounded to steps, 0.1 % of all elements.
// Elements that are finite or written in some runs of the reference alone are not compared.
Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, const Allowance& allowance,
                Strictness strictness = Strictness::all);

// Sorts by parameter; blocks of memory are in the order of their addresses.
void sort_by_parameter(std::vector<OutputComparison>& outputs);

} // namespace kiln::tune
