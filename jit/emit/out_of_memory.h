// Makes LLVM throw std::bad_alloc when memory runs out.
#pragma once

namespace kiln::emit {

// By default LLVM ends the process if malloc fails. After this call it throws std::bad_alloc, as operator new
// inside of it does anyway. It must be called before LLVM is used. Thread-safe.
void throw_when_out_of_memory();

} // namespace kiln::emit
