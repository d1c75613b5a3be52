// What LLVM does where it gets no memory.
#pragma once

namespace kiln::emit {

// It throws std::bad_alloc, as operator new does inside of it, where it would end the process. To be called
// before LLVM is used. Thread-safe.
void throw_where_memory_ends();

} // namespace kiln::emit
