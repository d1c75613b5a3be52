// Kernels for GPUs that need not be here: cubins made ahead, in the cache folder. Not for users: Kernel's
// precompile and the command `kiln compile` stand on it.
//
// A program that finds the folder launches them on a GPU of the architecture whatever made its own code
// (KILN_CACHE_DIR names it; it must belong to the user, so copy one that came with a package).
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln {

struct PrecompileRequest {
  const ir::Kernel& recorded;
  Config config;                    // as of a launch
  std::vector<LayoutClass> layouts; // one for each view
  std::string arch;                 // "sm_90a"
  SourceLocation where;             // of the kernel
};

struct Precompiled {
  std::string target; // that ptxas assembled for
  std::string config; // as the key has it, num_warps included
  std::int64_t bytes = 0;
  bool was_there = false;
};

// UserError without ptxas or a cache folder, for an architecture that Kiln does not know, and for configs and
// kernels that the GPU does not take; TargetError, with a saved repro folder, if ptxas refuses the code.
// Thread-safe.
Precompiled precompile_kernel(const PrecompileRequest& request);

} // namespace kiln
