// Versions of the PTX language, and which of them a driver reads.
#pragma once

#include <string>
#include <string_view>

namespace kiln::cuda {

// PTX versions count as 10 * major + minor: 83 for 8.3.
//
// The newest PTX that a driver for this CUDA version (12040 for 12.4) reads; 0 if the driver is newer than
// the table, which then cannot tell.
int newest_ptx_of_driver(int cuda_version);
// The oldest CUDA version whose driver reads it, in the table; 0 if none does.
int oldest_driver_for_ptx(int ptx_version);
// The `.version` of PTX text, or 0 if it has none.
int ptx_version_of(std::string_view ptx);
std::string ptx_version_text(int ptx_version); // "8.3"

} // namespace kiln::cuda
