// Reads kernels from files of tile IR, for commands that also accept the name of a registered kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

// The kernels of a file of tile IR (- is the standard input), verified; at least one. UserError if there is
// none or it is invalid. If `what` cannot be a file name, the error suggests a registered kernel.
std::vector<std::unique_ptr<ir::Kernel>> kernels_of_file(const std::string& what);

} // namespace kiln::cli
