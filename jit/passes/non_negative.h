// Declares the analysis that finds scalars which are never negative.
//
// Generated code need not test them. Examples are offsets that are computed from program ids, from extents,
// and from the indices of loops that start at zero or above.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <unordered_map>

namespace kiln::passes {

// Signed integer scalars that are at least zero, each with an upper bound.
using NonNegativeScalars = std::unordered_map<const ir::Value*, std::int64_t>;

// Finds them in a bound kernel. A grid has at most 2^31 - 1 programs along an axis.
NonNegativeScalars non_negative_scalars(const ir::Kernel& bound);

} // namespace kiln::passes
