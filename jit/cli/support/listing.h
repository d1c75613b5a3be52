// Prints assembly together with the source lines that it was compiled from.
#pragma once

#include <string>

namespace kiln::cli {

// `assembly` is LLVM's output with .file and .loc directives. Source files that can be read are quoted; files
// with a name relative to a build folder are also searched in `source_folder`. The result contains the
// instructions and labels of code, without directives and data.
std::string listing(const std::string& assembly, const std::string& source_folder = ".");

} // namespace kiln::cli
