// Declares the versions of Kiln and of the LLVM that is linked into it. All keys of the kernel cache contain
// both.
#pragma once

#include <kiln/dsl/api.h>

KILN_API_BEGIN
namespace kiln {
const char* version();      // "0.1.0"
const char* llvm_version(); // "22.1.8"
// The version of the generated code. Increase it when generated code changes in meaning or speed, so that
// tuned configs are confirmed again. (Keys of compiled kernels also contain a digest of the sources:
// cache/source_digest.h.)
inline constexpr int code_generation_version = 75;
} // namespace kiln
KILN_API_END
