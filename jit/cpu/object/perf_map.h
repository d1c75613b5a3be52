// Declares the writer of the map from which `perf` reads the names of kernels.
//
// KILN_PERF=1 enables it; the map is /tmp/perf-PID.map.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kiln::cpu {

// Adds the functions of a loaded object to the map, as "kiln::NAME" for the entry point and
// "kiln::NAME:FUNCTION" for others. `address_of` returns the address of a symbol that the object exports. If
// the map cannot be written, one warning is logged. Thread-safe.
void add_to_perf_map(std::span<const char> object,
                     const std::function<std::uint64_t(const std::string&)>& address_of,
                     const std::string& name);

} // namespace kiln::cpu
