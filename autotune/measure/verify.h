// A last look at a winner, on inputs that no trial had.
#pragma once

#include <kiln/autotune/measure/checker.h>

#include <functional>
#include <optional>
#include <vector>

namespace kiln::tune {

// How those inputs differ from the trials', besides their seed.
enum class Twist : std::uint8_t {
  special, // some are NaN or infinite
  tiny,    // some are zeros of either sign or subnormal
  ragged,  // the arrays are a little smaller, in the same memory
};
inline constexpr Twist all_twists[] = {Twist::special, Twist::tiny, Twist::ragged};
const char* name(Twist twist);     // "special", ...
const char* words_of(Twist twist); // "inputs with NaN and infinities", ...
std::optional<Twist> parse_twist(std::string_view name);

// Extents, and integers that are such an extent, become smaller by 1 or 3: equal ones stay equal. Nothing
// where that cannot be done: indices would no longer fit, and of raw pointers nothing is known.
std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments);

// Compares a candidate with the reference. Where the reference does not run on such inputs, or memory is
// short, nothing is known: `skipped` says why. NaN and infinities take other ways through dots for other
// tiles (0 times infinity is not 0), so that kernels with dots answer for their numbers alone. `stage` is
// called when the reference has run.
struct Verification {
  Measurement result;  // ok, wrong_result, not_a_number, or what its launch failed with
  std::string skipped; // "" or why nothing was compared
};
Verification verify(const LoadedCandidate& candidate, const LoadedCandidate& reference, Situation situation,
                    Twist twist, const std::function<void()>& stage);

} // namespace kiln::tune
