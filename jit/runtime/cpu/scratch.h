// Scratch memory of the calling thread, for a program instance's packed panels and spilled tiles.
#pragma once

#include <cstdint>

namespace kiln {

// At least `bytes` of 64-byte-aligned memory with arbitrary contents, the thread's own until it asks
// again; kept and reused from call to call, so only a first or larger request costs anything. Large
// scratch is 2 MiB-aligned and asks for huge pages. Null if there is no memory: chunk functions must
// not throw, so the launcher reports it. Thread-safe.
void* thread_scratch(std::int64_t bytes) noexcept;

} // namespace kiln
