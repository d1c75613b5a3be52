// Which scalars are never negative, so that nobody need test it: offsets made of program ids, extents and the
// indices of loops that start at or above zero.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <unordered_map>

namespace kiln::passes {

// Signed integer scalars that are at least zero, each with a bound that it does not exceed.
using NonNegativeScalars = std::unordered_map<const ir::Value*, std::int64_t>;

// Of a kernel that is bound. A grid has at most 2^31 - 1 programs along an axis.
NonNegativeScalars non_negative_scalars(const ir::Kernel& bound);

} // namespace kiln::passes
