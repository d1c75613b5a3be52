// Verifies the winner of a search on inputs that its trials did not use.
#pragma once

#include <kiln/autotune/measure/checker.h>

#include <functional>
#include <optional>
#include <vector>

namespace kiln::tune {

// How the inputs differ from those of the trials, besides their seed.
enum class Twist : std::uint8_t {
  special, // some are NaN or infinite
  tiny,    // some are zeros of either sign or subnormal, and integers are varied
  ragged,  // the arrays are slightly smaller, in memory of the same size
  scalars, // some scalars have other values
};
inline constexpr Twist all_twists[] = {Twist::special, Twist::tiny, Twist::ragged, Twist::scalars};
const char* name(Twist twist);     // "special", ...
const char* words_of(Twist twist); // "inputs with NaN and infinities", ...
std::optional<Twist> parse_twist(std::string_view name);

// Makes extents, and integers equal to such an extent, a little smaller (smaller_extents.h). Returns nothing
// if that is impossible or has no effect: some array for which `steers` is set may hold indices that would no
// longer fit, given integers may be lengths that end near an extent, and the layout behind raw pointers is
// unknown.
std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments, const std::vector<bool>& steers);

// Gives scalars other values: floats 0.73 times theirs, 0 becomes 0.73 or 1, integers shrink. Scalars for
// which `steers` is set keep theirs, and so do integers that are equal to an extent, divide it or are a
// multiple of it, because they may be sizes. Returns nothing if no scalar changes.
std::optional<std::vector<Argument>> with_other_scalars(std::vector<Argument> arguments,
                                                        const std::vector<bool>& steers);

// Compares a candidate with the reference. If the reference does not run on such inputs or memory is short,
// nothing is compared and `skipped` gives the reason. NaN and infinities propagate differently through dots
// with other tiles (0 times infinity is NaN), so that for kernels with dots only finite elements are
// compared. Functions of the user compare only outputs of smaller arrays, since few expect NaN. `stage` is
// called after the reference has run.
struct Verification {
  Measurement result;  // ok, wrong_result, not_a_number, or the status of a failed launch
  std::string skipped; // why nothing was compared, or empty
};
// `situation` is that of the trials, whose inputs can be compared. The reference is launched less often, at
// least once, if that would take more than `seconds`.
Verification verify(const LoadedCandidate& candidate, const LoadedCandidate& reference, Situation situation,
                    Twist twist, double seconds, const std::function<void()>& stage);

} // namespace kiln::tune
