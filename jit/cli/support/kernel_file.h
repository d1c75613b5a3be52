// Kernels from files of tile IR, for commands that also take the name of a registered kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

// The kernels of a file of tile IR (- is the standard input), verified; at least one. UserError that says
// what is wrong; for a word that is no file's name, which registered kernel may be meant.
std::vector<std::unique_ptr<ir::Kernel>> kernels_of_file(const std::string& what);

} // namespace kiln::cli
