// From a parsed module to a Program that runs.
#pragma once

#include <kiln/jit/emulator/core/memory.h>
#include <kiln/jit/emulator/core/program.h>

#include <functional>

namespace kiln::emulator {

// `variable`: where a module's .global or .const variable lies; null if nowhere. UserError "name:LINE: ..."
// for instructions and names that are not known.
std::unique_ptr<Program> decode(const ptx::Module& module, const std::string& kernel,
                                const std::function<const Region*(std::string_view)>& variable);

} // namespace kiln::emulator
