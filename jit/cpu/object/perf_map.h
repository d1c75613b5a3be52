// Tells `perf` which kernel an address belongs to: KILN_PERF=1 and /tmp/perf-PID.map.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kiln::cpu {

// Adds the functions of a loaded object, as "kiln::NAME" for the entry point and "kiln::NAME:FUNCTION" for
// others; `address_of` tells where a symbol that the object exports went. A map that cannot be written is
// warned about once. Thread-safe.
void add_to_perf_map(std::span<const char> object,
                     const std::function<std::uint64_t(const std::string&)>& address_of,
                     const std::string& name);

} // namespace kiln::cpu
