// Runs a compiled kernel's programs on this thread and the pool: what a queued launch does. Not for users.
#pragma once

#include <kiln/jit/runtime/kernel/compile.h>

#include <cstdint>

namespace kiln::detail {

// A launch that takes less runs in the thread at hand: to wake another costs more.
inline constexpr double inline_ns = 5000;

// Returns when all programs have run; throws what a device_assert reported. `grid` has `rank` axes.
void run_kernel(const CompiledKernel& code, const std::int64_t* grid, int rank,
                const std::uint64_t* arguments);

} // namespace kiln::detail
