// Verifies the winner of a search on inputs that its trials did not use.
#pragma once

#include <kiln/autotune/measure/checker.h>

#include <functional>
#include <optional>
#include <vector>

namespace kiln::tune {

// How the inputs differ from those of the trials, besides their seed.
enum class Twist : std::uint8_t {
  special,  // some are NaN or infinite
  tiny,     // some are zeros, subnormal, negative or large, and integers are varied (vary_integers.h)
  ragged,   // the arrays are slightly smaller, in memory of the same size
  shorter,  // the same, so that the last tile along each axis is short
  scalars,  // some scalars have other values
  repeated, // arrays that are updated hold what earlier launches have left there (launch_chain.h)
};
inline constexpr Twist all_twists[] = {Twist::special, Twist::tiny,    Twist::ragged,
                                       Twist::shorter, Twist::scalars, Twist::repeated};
const char* name(Twist twist);     // "special", ...
const char* words_of(Twist twist); // "inputs with NaN and infinities", ...
std::optional<Twist> parse_twist(std::string_view name);

// Makes extents, and integers equal to such an extent, smaller (smaller_extents.h, also for `config`). Returns
// nothing if that is impossible or has no effect: some array for which `steers` is set may hold indices that
// would no longer fit, given integers may be lengths that end near an extent, and the layout behind raw
// pointers is unknown.
std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments, const std::vector<bool>& steers,
                                            const Config* config = nullptr);

// Gives scalars other values: floats 0.73 times theirs, 0 becomes 0.73 or 1, and integers shrink, since they
// may be lengths. Scalars for which `steers` is set keep theirs. Returns nothing if no scalar changes.
std::optional<std::vector<Argument>> with_other_scalars(std::vector<Argument> arguments,
                                                        const std::vector<bool>& steers);

// Whether the inputs of this kernel, as of the reference, can differ in this way. If not, verify() has nothing
// to compare; it may still skip others.
bool applies(Twist twist, const std::vector<Argument>& arguments, const std::vector<OutputCheck>& outputs,
             const ir::Kernel& kernel);

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
