// Defines the version strings of Kiln and of the LLVM inside it.
#include <kiln/jit/base/version.h>

#include <llvm/Config/llvm-config.h>

namespace kiln {
const char* version() { return KILN_VERSION; }
const char* llvm_version() { return LLVM_VERSION_STRING; }
} // namespace kiln
