// Assembly beside the source lines that it was made from.
#pragma once

#include <string>

namespace kiln::cli {

// `assembly` is LLVM's output with .file and .loc directives; source files that can be read are quoted. Those
// named relative to the folder of a build are also looked for in `source_folder`. Shows instructions and
// labels of code; directives and data are left out.
std::string listing(const std::string& assembly, const std::string& source_folder = ".");

} // namespace kiln::cli
