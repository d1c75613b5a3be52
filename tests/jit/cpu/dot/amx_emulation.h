// Declares an emulation of AMX, so that its code can be tested on CPUs without it.
#pragma once

#include <cstdint>

namespace llvm {
class Module;
namespace orc {
class LLJIT;
}
} // namespace llvm

namespace kiln::test {

// Replaces the AMX instructions of a module by calls of functions.
void emulate_amx(llvm::Module& module);
// Defines these functions in the JIT.
void define_amx_functions(llvm::orc::LLJIT& jit);
// The number of products of tiles that this thread has computed.
std::int64_t emulated_tile_products();

} // namespace kiln::test
