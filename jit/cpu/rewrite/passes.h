// Declares the CPU's own passes on tile IR. Each has a file of its own, with its rules at the head.
#pragma once

#include <kiln/jit/passes/pass.h>

namespace kiln::cpu {

void split_products(ir::Kernel& kernel, const passes::PassOptions& options);
void split_flat_reductions(ir::Kernel& kernel, const passes::PassOptions& options);
void halve_short_reductions(ir::Kernel& kernel, const passes::PassOptions& options);
void bind_widened(ir::Kernel& kernel, const passes::PassOptions& options);

// All of the above by name, as `kiln-opt --passes=cpu-split-products` finds them.
const std::vector<passes::PassInfo>& cpu_passes();

} // namespace kiln::cpu
