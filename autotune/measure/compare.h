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
  // There was no launch with the other pattern, so that an element which seems unwritten may have this value.
  bool one_pattern = false;
};

// How far a right output may be from the reference's.
struct Allowance {
  double rounding = 0x1p-23; // that of the inputs' perturbation (perturb.h)
  double factor = 20;        // by which an element's difference may exceed its spread
  double roundings = 6;      // errors of the element's own magnitude
  double sums = 1;           // the square root of the number of terms of an element; for unknown spreads
  int depth = 2;             // of the reference's roundings (rounding_depth.h)
  // The output is coarser than what the reference computes it from, and each element is rounded once.
  bool rounded_once = false;
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
// 1. exactly the elements that the reference does not write still hold the pattern, or what the reference has
//    there if it was launched with one pattern only;
// 2. NaN and infinities are where the reference has them;
// 3. each finite element r differs by at most the sum of `factor` times its spread, `roundings` errors of |r|
//    (4 if no element moved in any run), and 1.5 units in the last place of the output's dtype. Where an
//    element's own spread is smaller than the median spread of elements of its magnitude, the median counts,
//    up to a multiple of the own spread, since a few runs may move an element too little by chance (for very
//    few elements up to the median itself, and for as many that did not move at all as stayed by chance);
// 4. integers are equal, or they depend on floats and differ by at most one more than twice their spread. If
//    many of them move, and not because the inputs lie exactly on decisions, spreads above 1 and medians
//    count as for floats; and
// 5. exceptions from 3 (by at most twice the largest jump) and differences by 4 are not more frequent than
//    the elements that jump in the runs of the reference: at most twice as many as in the runs on inputs that
//    move by a rounding error, or as many as in the run on inputs that move further, but no more than 1 % of
//    all elements. The limit is three times the former if many elements jump because their values are fine
//    (motion.h). One more may differ if it depends on floats at all.
// If nothing in the reference rounds, right outputs are equal: integers must be, and 1 % of the floats may
// differ by 1.5 units in the last place. If nothing rounds twice, right configs decide equally, so that as
// few integers may differ as if the inputs lay exactly on decisions.
// If each element of an output is computed more finely and rounded once (Allowance::rounded_once), right
// outputs differ in few elements: at most 1 %, or eight times as many as move by the rounding errors of the
// reference in one run, or those where the reference has one of a few values, since elements that are equal
// may be rounded otherwise together.
// If `members` is not empty, only the elements for which it is true are compared. `kept` are the elements
// that kept another pattern in another launch (empty: unknown). Elements that equal the pattern and are not
// among them count as values, since a right integer may equal it.
// Elements that are finite or written in some runs of the reference alone are not compared.
Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, const Allowance& allowance,
                Strictness strictness = Strictness::all, const std::vector<bool>& members = {},
                const std::vector<bool>& kept = {});

} // namespace kiln::tune
