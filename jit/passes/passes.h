// Declares the generic passes. Each has a file of its own, with its rules at the head.
#pragma once

#include <kiln/jit/passes/pass.h>

#include <functional>
#include <memory>

namespace kiln::passes {

void bind(ir::Kernel& kernel, const PassOptions& options);
void expand_grid(ir::Kernel& kernel, const PassOptions& options);
void lower_views(ir::Kernel& kernel, const PassOptions& options);
void canonicalize(ir::Kernel& kernel, const PassOptions& options);
void cse(ir::Kernel& kernel, const PassOptions& options);
void tile_accesses(ir::Kernel& kernel, const PassOptions& options);
void licm(ir::Kernel& kernel, const PassOptions& options);
void check_bounds(ir::Kernel& kernel, const PassOptions& options);
void fuse_dot(ir::Kernel& kernel, const PassOptions& options);
void show_comparisons(ir::Kernel& kernel, const PassOptions& options);
void dce(ir::Kernel& kernel, const PassOptions& options);

// Throws UserError if an option is not positive. `bind` calls this, too.
void check_options(const SourceLocation& where, const std::string& kernel, const Config& config);

// Called after each pass, with its name and the kernel that it leaves.
using PassObserver = std::function<void(std::string_view pass, const ir::Kernel& kernel)>;

// Lowers a copy of a recorded kernel to the form that code generators take: simplified, and without dimension
// names, program_tile, dim_size and views that the kernel makes. It runs bind, expand-grid, check-bounds
// (with options.debug), lower-views, canonicalize, cse, tile-accesses, licm, canonicalize, cse, fuse-dot,
// show-comparisons (with options.debug) and dce. Builds with assertions verify the kernel after each pass.
std::unique_ptr<ir::Kernel> lower_generic(const ir::Kernel& recorded, const PassOptions& options,
                                          const PassObserver& observe = {});

} // namespace kiln::passes
