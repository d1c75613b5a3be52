// Compiles kernels into the cache folder for GPUs that need not be present. Internal: Kernel::precompile and
// the command `kiln compile` use it.
//
// A program that uses the folder (see KILN_CACHE_DIR) launches these kernels on any GPU of the architecture,
// also if its own GPU code would come from another ptxas or driver. The folder must belong to the user, so a
// folder that came with a package must be copied.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln {

struct PrecompileRequest {
  const ir::Kernel& recorded;
  Config config;                    // as for a launch
  std::vector<LayoutClass> layouts; // one for each view
  std::string arch;                 // "sm_90a"
  SourceLocation where;             // where the kernel was made
};

struct Precompiled {
  std::string target; // the architecture that ptxas assembled for
  std::string config; // as in the key, num_warps included
  std::int64_t bytes = 0;
  // Whether the cache had the code already.
  bool was_there = false;
};

// UserError without ptxas or a cache folder, for an unknown architecture, and for a config or kernel that the
// GPU does not support. TargetError, with a saved repro folder, if ptxas rejects the code. Thread-safe.
Precompiled precompile_kernel(const PrecompileRequest& request);

} // namespace kiln
