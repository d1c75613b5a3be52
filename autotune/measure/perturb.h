// Perturbs inputs by the rounding errors that a kernel makes, to find how far its outputs move.
#pragma once

#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kiln::tune {

// Returns the distance between neighbouring floats, relative to their magnitude, of the coarsest format that
// matters to the kernel: the coarsest dtype to which it rounds intermediate results (by casts, by arithmetic
// in that dtype, or in the operands of a dot), or that of its float inputs if they are coarser. A cast whose
// result is only stored does not count, since it affects the output alone. 2^-23 for a kernel without floats.
double rounding_of(const ir::Kernel& kernel);

// The same without the inputs; 0 for a kernel that computes no floats.
double rounding_inside(const ir::Kernel& kernel);

// Returns the same distance for one float dtype, such as 2^-23 for f32.
double spacing_of(DType dtype);

// A rounding above this is coarse: that of f16, bf16, 8-bit floats and tf32.
constexpr double coarse_rounding = 0x1p-20;

// Moves each finite element up or down, by about `distance` times its magnitude, and by at least one unit in
// the last place. Zeros, infinities and NaN stay. `seed` chooses the directions. The dtype is a float.
// `inward`: half of the elements stay and the others move towards zero, so that coordinates stay within
// bounds. If `members` is not empty, only the elements for which it is true move.
enum class Direction : std::uint8_t { either, inward };
void perturb(std::span<unsigned char> bytes, DType dtype, double distance, Direction direction,
             std::uint64_t seed, const std::vector<bool>& members = {});

} // namespace kiln::tune
