// Decides whether an output of a candidate is right, by comparing it with that of the reference.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

// An output of the reference: its values, and which elements it did not write.
struct ReferenceOutput {
  DType dtype = DType::F32;
  std::vector<unsigned char> values;
  std::vector<bool> unwritten; // by element; empty: all elements are written or had contents before
};

struct Verdict {
  enum class Kind : std::uint8_t { right, wrong, not_a_number } kind = Kind::right;
  std::string error; // one line; empty if right
  double relative_error = 0;
};

enum class Strictness : std::uint8_t {
  all,
  numbers, // elements that are NaN or infinite in either output are not compared
};

// `values` is the memory after a launch, `poisoned` its pattern before the launch (empty: it had the same
// contents as for the reference). The output is right if
// 1. exactly the elements that the reference does not write still hold the pattern;
// 2. NaN and infinities are where the reference has them, and integers are equal;
// 3. |values - reference| <= tolerance * |reference| as Euclidean norms over all other elements; and
// 4. no element differs by more than a fraction of (its magnitude + the root mean square of all elements),
//    because one wrong element in a million does not affect 3. The fraction is 64 * tolerance for fine
//    tolerances (f32), and 5 % or 8 * tolerance for coarse ones, at most a half.
Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, double tolerance,
                Strictness strictness = Strictness::all);

} // namespace kiln::tune
