// How the axes of a tile correspond to those of the tile it was moved from.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::passes {

// Whether the operation repeats or reorders axes one by one: a broadcast, expand_dims, squeeze or permute.
bool maps_axes(const ir::Op& op);

// Which axis of such an operation's operand an axis of its result is; -1: none, it varies along none. Axes of
// the operand that none of the result is have extent 1.
int operand_axis(const ir::Op& op, int axis);

} // namespace kiln::passes
