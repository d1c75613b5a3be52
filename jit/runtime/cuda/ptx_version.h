// Tabulates PTX versions and the drivers that support them.
#pragma once

#include <string>
#include <string_view>

namespace kiln::cuda {

// PTX versions are encoded as 10 * major + minor: 83 means 8.3.
//
// The newest PTX version that a driver for this CUDA version (12040 means 12.4) accepts; 0 if the driver is
// newer than the table.
int newest_ptx_of_driver(int cuda_version);
// The oldest CUDA version in the table whose driver accepts this PTX version; 0 if there is none.
int oldest_driver_for_ptx(int ptx_version);
// The number in the `.version` directive of PTX text, or 0 if it has none.
int ptx_version_of(std::string_view ptx);
std::string ptx_version_text(int ptx_version); // "8.3"

} // namespace kiln::cuda
