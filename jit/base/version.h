// Which Kiln this is; part of every key of the kernel cache.
#pragma once

namespace kiln {
const char* version();      // "0.1.0"
const char* llvm_version(); // "22.1.8", of the LLVM inside
// Counts changes of generated code; raise it when they change meaning or speed, so that tuned configs are
// confirmed anew. (Compiled kernels are told apart by the digest of the sources too: cache/source_digest.h.)
inline constexpr int code_generation_version = 66;
} // namespace kiln
