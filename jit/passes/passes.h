// The generic passes by name; each has a file of its own with its rules above it.
#pragma once

#include <kiln/jit/passes/pass.h>

#include <functional>
#include <memory>

namespace kiln::passes {

void bind(ir::Kernel& kernel, const PassOptions& options);
void expand_grid(ir::Kernel& kernel, const PassOptions& options);
void canonicalize(ir::Kernel& kernel, const PassOptions& options);
void cse(ir::Kernel& kernel, const PassOptions& options);
void tile_accesses(ir::Kernel& kernel, const PassOptions& options);
void licm(ir::Kernel& kernel, const PassOptions& options);
void check_bounds(ir::Kernel& kernel, const PassOptions& options);
void fuse_dot(ir::Kernel& kernel, const PassOptions& options);
void show_comparisons(ir::Kernel& kernel, const PassOptions& options);
void dce(ir::Kernel& kernel, const PassOptions& options);

// UserError if an option is not positive; `bind` asks this too.
void check_options(const SourceLocation& where, const std::string& kernel, const Config& config);

// Called after each pass with its name and the kernel as it stands.
using PassObserver = std::function<void(std::string_view pass, const ir::Kernel& kernel)>;

// From a kernel as recorded to one that a back end takes: no dimension names, no program_tile, no dim_size,
// simplified. Runs bind, expand-grid, (when debugging) check-bounds, canonicalize, cse, tile-accesses, licm,
// canonicalize, cse, fuse-dot, (when debugging) show-comparisons, dce on a copy; builds with assertions
// verify it after each.
std::unique_ptr<ir::Kernel> lower_generic(const ir::Kernel& recorded, const PassOptions& options,
                                          const PassObserver& observe = {});

} // namespace kiln::passes
