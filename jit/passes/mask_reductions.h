// Declares reductions and scans of masks, for passes that build masks.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::passes {

// Appends a Reduce or Scan of a tile of bool, along the axis of `like`, whose combine is `combine`: And or
// Or. `like` is a Reduce or Scan of tiles of the same shape.
ir::Value* combined_like(ir::Builder& build, const ir::Op& like, ir::Value* mask, ir::Opcode combine);
// Whether any element of a tile of bool is true, as a scalar.
ir::Value* any_of(ir::Builder& build, ir::Value* mask);

} // namespace kiln::passes
