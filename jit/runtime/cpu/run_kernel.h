// Runs the programs of a compiled kernel on the calling thread and the pool. Internal.
#pragma once

#include <kiln/jit/runtime/kernel/compile.h>

#include <cstdint>

namespace kiln::detail {

// A launch of less estimated time runs on the calling thread, because waking another thread takes longer.
inline constexpr double inline_ns = 5000;

// Returns when all programs have run. Throws the error of a failed device_assert. `grid` has `rank` axes.
void run_kernel(const CompiledKernel& code, const std::int64_t* grid, int rank,
                const std::uint64_t* arguments);

} // namespace kiln::detail
