// Gathers a few bytes of host memory from all ranks, for the numbers that ranks must agree on.
#pragma once

#include <kiln/collectives/communicator.h>

namespace kiln::collectives {

// Each rank passes `bytes` bytes, and gets those of all ranks in `all`, in the order of ranks.
void gather_numbers(Communicator& comm, const char* collective, const CollectiveOptions& options,
                    const void* own, void* all, std::int64_t bytes);

} // namespace kiln::collectives
