// Declares how the axes of a tile correspond to the axes of the tile that it was broadcast or permuted from.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::passes {

// Whether the operation repeats, inserts, removes or reorders whole axes: a broadcast, expand_dims, squeeze
// or permute.
bool maps_axes(const ir::Op& op);

// The axis of such an operation's operand that corresponds to an axis of its result; -1 if the result is
// constant along that axis. Axes of the operand without a counterpart in the result have extent 1.
int operand_axis(const ir::Op& op, int axis);

} // namespace kiln::passes
