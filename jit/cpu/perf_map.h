// Tells `perf` which kernel an address belongs to: KILN_PERF=1 and /tmp/perf-PID.map.
#pragma once

#include <kiln/jit/cpu/abi.h>

#include <span>
#include <string>

namespace kiln::cpu {

// Adds the functions of a loaded object, as "kiln::NAME"; `entry` is where its entry point went. A map that
// cannot be written is warned about once. Thread-safe.
void add_to_perf_map(std::span<const char> object, EntryPoint entry, const std::string& name);

} // namespace kiln::cpu
