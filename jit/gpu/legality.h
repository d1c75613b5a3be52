// What a GPU lowers, asked before LLVM sees a kernel: LLVM's "Cannot select" ends the process, and code of
// tiles that no register file holds takes it minutes.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/layout_plan.h>

#include <string>

namespace kiln::gpu {

// UserError at the first operation that `arch` does not lower, with its line and the dtypes it would take, or
// that is nested too deeply.
void check_legal(const ir::Kernel& lowered, const std::string& arch);

// UserError if a thread would hold too much of a tile, or have too much code, with the largest tile and its
// line.
void check_sizes(const ir::Kernel& lowered, const LayoutPlan& plan);

} // namespace kiln::gpu
