// Decodes a kernel of a parsed module into a Program.
#pragma once

#include <kiln/jit/emulator/core/memory.h>
#include <kiln/jit/emulator/core/program.h>

#include <functional>

namespace kiln::emulator {

// `variable` returns the region of a .global or .const variable of the module, or null. Throws UserError
// "name:LINE: ..." for unknown instructions and names.
std::unique_ptr<Program> decode(const ptx::Module& module, const std::string& kernel,
                                const std::function<const Region*(std::string_view)>& variable);

} // namespace kiln::emulator
