// Prepares a lowered kernel for the CPU's emitter.
#pragma once

#include <kiln/jit/cpu/facts/grouped_product.h>

#include <memory>

namespace kiln::cpu {

// Runs cpu-split-products, cpu-flat-reductions and cpu-short-reductions on a copy. `lowered` comes from
// passes::lower_generic.
std::unique_ptr<ir::Kernel> lower_for_cpu(const ir::Kernel& lowered);

// How programs of a kernel may be grouped: what the emitter for `target` finds after lower_for_cpu.
Grouping grouping_of(const ir::Kernel& lowered, const Target& target);

} // namespace kiln::cpu
