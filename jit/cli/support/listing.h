// Prints assembly together with the source lines that it was compiled from.
#pragma once

#include <string>

namespace kiln::cli {

// `assembly` is LLVM's output with .file and .loc directives. Source files that can be read are quoted. Others
// are searched in `source_folder`, by as many of the last parts of their path as fit. The result contains the
// instructions and labels of code, without directives and data.
std::string listing(const std::string& assembly, const std::string& source_folder = ".");

} // namespace kiln::cli
