// Rejects kernels that cannot be lowered for a GPU, before LLVM sees them.
//
// LLVM's "Cannot select" would end the process, and code for tiles larger than a register file takes LLVM
// minutes.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/layout_plan.h>

#include <string>

namespace kiln::gpu {

// Throws a UserError for the first operation that cannot be lowered for `arch`, with its line and the dtypes
// that it would take, or that is nested too deeply.
void check_legal(const ir::Kernel& lowered, const std::string& arch);

// Throws a UserError if a thread would hold too many elements of a tile or execute too much code, with the
// largest tile and its line.
void check_sizes(const ir::Kernel& lowered, const LayoutPlan& plan);

} // namespace kiln::gpu
