// Provides scratch memory of the calling thread, for packed panels and buffered tiles of programs.
#pragma once

#include <cstdint>

namespace kiln {

// Returns at least `bytes` of memory, aligned to 64 bytes, with undefined contents. It belongs to the calling
// thread and is valid until its next call. Memory is kept and reused, so only the first call or a larger
// request allocates. Large scratch is aligned to 2 MiB and requests huge pages. Returns null if there is no
// memory; the launcher reports that, because kernel code must not throw. Thread-safe.
void* thread_scratch(std::int64_t bytes) noexcept;

} // namespace kiln
