// Parses PTX text into a ptx::Module.
#pragma once

#include "ast.h"

#include <memory>

namespace kiln::emulator::ptx {

// Throws UserError "name:LINE: ..." for text that is not PTX as LLVM, nvcc and Triton emit it.
std::unique_ptr<Module> parse(std::string text, std::string name);

} // namespace kiln::emulator::ptx
