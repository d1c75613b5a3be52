// Whether an output is right.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

// An output of the reference: what it wrote, and where it wrote nothing.
struct ReferenceOutput {
  DType dtype = DType::F32;
  std::vector<unsigned char> values;
  std::vector<bool> unwritten; // by element; empty: all are written (or were there before)
};

struct Verdict {
  enum class Kind : std::uint8_t { right, wrong, not_a_number } kind = Kind::right;
  std::string error; // one line
  double relative_error = 0;
};

enum class Strictness : std::uint8_t {
  all,
  numbers, // elements that are NaN or infinite in either are not compared
};

// `values` is what a launch left in memory that held `poisoned` before (empty: it held what the reference's
// did). It is right if
//   1. what the reference does not write still holds its poison, and nothing else does;
//   2. NaN is where the reference has NaN, infinities are where it has them, integers are equal;
//   3. |values - reference| <= tolerance * |reference| as Euclidean norms over all other elements; and
//   4. no element differs by more than a share of (its own size + the root mean square of all): one wrong
//      element of a million does not show in 3. The share is 64 * tolerance where that is fine (f32), and 5 %
//      or 8 * tolerance where it is coarse, at most a half.
Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, double tolerance,
                Strictness strictness = Strictness::all);

} // namespace kiln::tune
