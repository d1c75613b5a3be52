// From PTX text to a ptx::Module.
#pragma once

#include "ast.h"

#include <memory>

namespace kiln::emulator::ptx {

// UserError "name:LINE: ..." for text that is not PTX as LLVM, nvcc and Triton write it.
std::unique_ptr<Module> parse(std::string text, std::string name);

} // namespace kiln::emulator::ptx
