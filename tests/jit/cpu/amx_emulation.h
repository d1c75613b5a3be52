// AMX's tile registers as functions, so that code for them can be tested where there are none.
#pragma once

#include <cstdint>

namespace llvm {
class Module;
namespace orc {
class LLJIT;
}
} // namespace llvm

namespace kiln::test {

// Calls functions in place of the module's tile instructions.
void emulate_amx(llvm::Module& module);
// Tells the JIT where these functions are.
void define_amx_functions(llvm::orc::LLJIT& jit);
// How many products of tiles this thread has computed.
std::int64_t emulated_tile_products();

} // namespace kiln::test
